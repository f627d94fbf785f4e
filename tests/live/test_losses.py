"""What could not be recorded has one name, whoever says it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pythons import ROOT
from test_api import run_code

# Those that a lapwing.Profile cannot have: it has no rings, its names are Python's own,
# and its child processes are not recorded.
NO_PROFILES = {"FUNCTIONS", "RECORDS", "NAMES", "ROOM", "FORKS"}


def test_each_cause_of_a_loss_has_a_sentence_in_the_report_and_in_a_profile() -> None:
    enum = (ROOT / "src/agent/layout.h").read_text()
    causes = {int(n): name for name, n in re.findall(r"LW_LOST_(\w+) = (\d+),", enum)}
    report = (ROOT / "src/recorder/watched.c").read_text()
    assert sorted(re.findall(r"\[LW_LOST_(\w+)\] = \{ \"", report)) == sorted(
        causes.values()
    )
    # Each row of the table says its number, and in a comment its name.
    table = (ROOT / "python/lapwing/_stats.py").read_text()
    table = table[table.index("\nLOSSES = {") :]
    table = table[: table.index("\n}\n")]
    rows = {int(n) for n in re.findall(r"^    (\d+): ", table, re.MULTILINE)}
    names = set(re.findall(r"# LW_LOST_(\w+)$", table, re.MULTILINE))
    assert names == {causes[n] for n in rows} == set(causes.values()) - NO_PROFILES


SETUP = """
import lapwing, sys, threading, warnings
def leaf(): pass
def told(p, *, name="leaf"):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        p.create_stats()
    counts = [v[1] for k, v in p.stats.items() if k[2] == name]
    return counts, [str(w.message) for w in found]
"""

TOOLS = """
m = sys.monitoring
p, q, r = (lapwing.Profile(builtins=False) for _ in range(3))
p.enable(); leaf()
for i in range(6): m.use_tool_id(i, "mine")
leaf()
q.enable(); leaf(); q.disable()
print(told(q)); leaf()
for i in range(6): m.free_tool_id(i)
leaf()
print(told(p))
for i in range(6): m.use_tool_id(i, "mine")
r.enable(); leaf()
for i in range(6): m.free_tool_id(i)
leaf(); leaf()
print(told(r))
"""
ALL_TAKEN = (
    "the program had all tool ids of sys.monitoring: no call was counted meanwhile"
)


def has_monitoring(python: str, folder: Path) -> bool:
    show = "import sys; print(hasattr(sys, 'monitoring'))"
    return run_code(python, show, folder) == "True\n"


def test_a_profile_without_a_tool_id_says_so_and_goes_on_when_one_is_free(
    python: str, tmp_path: Path
) -> None:
    if has_monitoring(python, tmp_path):
        assert run_code(python, SETUP + TOOLS, tmp_path) == (
            f"([], {[ALL_TAKEN]})\n([2], {[ALL_TAKEN]})\n([2], {[ALL_TAKEN]})\n"
        )


LEFT_BEHIND = """
import dis, io
m = sys.monitoring
def is_watched():
    out = io.StringIO(); dis.dis(leaf, adaptive=True, file=out)
    return "INSTRUMENTED" in out.getvalue()
p, q = lapwing.Profile(), lapwing.Profile()
p.enable(); leaf()
for i in range(6): m.use_tool_id(i, "mine")
q.enable(); p.disable(); q.disable()
for i in range(6): m.free_tool_id(i)
leaf(); print(is_watched(), [m.get_tool(i) for i in range(6)])
"""


def test_no_tool_is_left_behind_when_all_profiles_have_ended(
    python: str, tmp_path: Path
) -> None:
    if has_monitoring(python, tmp_path):
        shown = run_code(python, SETUP + LEFT_BEHIND, tmp_path)
        assert shown == f"False {[None] * 6}\n"


REFUSES = """
m = sys.monitoring
p = lapwing.Profile(builtins=False)
p.enable(); leaf()
def audit(event, args):
    if event == "sys.monitoring.register_callback": raise RuntimeError("forbidden")
sys.addaudithook(audit)
for i in range(6): m.use_tool_id(i, "mine")
print([m.get_tool(i) for i in range(6)], told(p))
"""


def test_an_audit_hook_that_refuses_callbacks_keeps_no_tool_id_from_the_program(
    python: str, tmp_path: Path
) -> None:
    if has_monitoring(python, tmp_path):
        shown = run_code(python, SETUP + REFUSES, tmp_path)
        assert shown == f"{['mine'] * 6} ([1], {[ALL_TAKEN]})\n"


OWN_HOOK = """
def down(n): return 0 if n == 0 else 1 + down(n - 1)
def work():
    def hook(frame, event, arg): pass
    sys.setprofile(hook)
    leaf()
    down(900)
    sys.setprofile(None)
sys.setrecursionlimit(10000)
if sys.version_info >= (3, 11): threading.stack_size({stack} << 10)
for builtins in False, True:
    p = lapwing.Profile(builtins=builtins)
    p.enable()
    thread = threading.Thread(target=work)
    thread.start(); thread.join()
    print(told(p))
"""
OWN = "the program had a profile function of its own: "


def version(python: str, folder: Path) -> str:
    show = "import sys; print('%d.%d' % sys.version_info[:2])"
    return run_code(python, show, folder).strip()


@pytest.mark.parametrize("stack", [256, 8192])
def test_under_a_profile_function_of_the_programs_what_is_lost_is_said(
    python: str, stack: int, tmp_path: Path
) -> None:
    """And a deep recursion has the stack that it has without us."""
    which = version(python, tmp_path)
    deep = [OWN + "the calls of a deep recursion were not counted"]
    builtins = [OWN + "builtins were not counted meanwhile"]
    is_deep = which == "3.11" and stack == 256
    lost = [deep if is_deep else [], builtins + deep if is_deep else builtins]
    if which not in ("3.10", "3.11"):
        lost = [[], []]
    shown = run_code(python, SETUP + OWN_HOOK.format(stack=stack), tmp_path)
    assert shown == "".join(f"([1], {texts})\n" for texts in lost)
