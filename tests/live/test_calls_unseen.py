"""What a program can see of `--calls`: nothing, in what it does and what it prints."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from recording import counts_in, run, view


def bare_and_recorded(
    lapwing: str, python: str, code: str, folder: Path, calls: str = "--calls"
) -> list[str]:
    """What CODE prints without us and with us; both must end well."""
    script = folder / "prog.py"
    script.write_text(code)
    bare = subprocess.run([python, script], capture_output=True, text=True, timeout=60)
    assert bare.returncode == 0, bare.stderr
    done = run(lapwing, [calls, "--", python, str(script)], folder)
    assert done.returncode == 0, done.stderr
    return [bare.stdout, done.stdout]


CODE_EXTRA = """
import ctypes, sys
free_type = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
freed = []
free = free_type(freed.append)
name = "_PyEval_RequestCodeExtraIndex"
if sys.version_info >= (3, 12):
    name = "PyUnstable_Eval_RequestCodeExtraIndex"
request = getattr(ctypes.pythonapi, name)
request.argtypes, request.restype = (free_type,), ctypes.c_ssize_t
request(free)
for i in range(300):
    exec("def leaf(): pass\\nleaf()", {})
print(freed)
"""


def test_the_programs_own_code_extras_are_freed_and_no_others(
    lapwing: str, python: str, tmp_path: Path
) -> None:
    bare, ours = bare_and_recorded(lapwing, python, CODE_EXTRA, tmp_path)
    assert bare == ours == "[]\n"
    view_of_leaf = counts_in(lapwing, tmp_path, "<string>")["leaf"]
    assert view_of_leaf == (300, 300)


def has_monitoring(python: str) -> bool:
    show = "import sys; print(hasattr(sys, 'monitoring'))"
    return subprocess.check_output([python, "-c", show], text=True) == "True\n"


OWN_TOOLS = """
import sys
m = sys.monitoring
def leaf(): pass
def work(n):
    for _ in range(n): leaf()
def ask(call, *args):
    leaf()
    try: return call(*args)
    except Exception as error: return repr(error)
    finally: leaf()
work(10)
for i in range(-1, 8):
    print(i, ask(m.get_tool, i), ask(m.get_events, i), ask(m.free_tool_id, i))
    print(ask(m.set_events, i, 1), ask(m.get_local_events, i, work.__code__))
    print(ask(m.set_local_events, i, work.__code__, 1))
    print(ask(m.register_callback, i, m.events.LINE, None), ask(m.get_tool, i, 1))
print(m._all_events())
started = [0] * 6
for i in {order}:
    def count(*_, i=i): started[i] += 1
    print(ask(m.use_tool_id, i, f"tool {{i}}"), ask(m.get_tool, i))
    print(ask(m.get_events, i))
    print(ask(m.register_callback, i, m.events.PY_START, count))
    m.set_events(i, m.events.PY_START)
    print(m._all_events())
    work(100)
    m.set_events(i, 0)
    if {frees}: m.free_tool_id(i)
    work(3)
print(started)
"""


@pytest.mark.parametrize("calls", ["--calls", "--c-calls"])
@pytest.mark.parametrize("order", [range(6), range(5, -1, -1)])
def test_every_tool_id_is_the_programs_and_looks_bare(
    lapwing: str, python: str, calls: str, order: range, tmp_path: Path
) -> None:
    if not has_monitoring(python):
        return
    code = OWN_TOOLS.format(order=order, frees=True)
    bare, ours = bare_and_recorded(lapwing, python, code, tmp_path, calls)
    assert bare == ours
    counts = counts_in(lapwing, tmp_path, "prog.py")
    # 10, 2 * 72 and 6 * (103 + 2 * 4): none is missed, whatever the program takes.
    assert counts["leaf"] == (820, 820)
    assert counts["work"] == (13, 13)
    assert "returns without a call" not in str(view(lapwing, tmp_path, "functions"))


def test_a_program_that_takes_all_tool_ids_gets_them_and_it_is_said(
    lapwing: str, python: str, tmp_path: Path
) -> None:
    if not has_monitoring(python):
        return
    code = (
        OWN_TOOLS.format(order=range(6), frees=False) + "m.free_tool_id(2); work(500)"
    )
    bare, ours = bare_and_recorded(lapwing, python, code, tmp_path)
    assert bare == ours
    # From the sixth on until one is free again nothing is seen.
    counts = counts_in(lapwing, tmp_path, "prog.py")
    assert 500 + 10 < counts["leaf"][0] < 1320
    notes = str(view(lapwing, tmp_path, "functions")["notes"])
    assert "had all tool ids of sys.monitoring" in notes
    assert "profile function" not in notes


DEEP = """
import os, sys, threading
sys.setrecursionlimit(10**6)
def down(n):
    os.write(1, b"%d\\n" % n)
    down(n + 1)
threading.stack_size(4 << 20)
threading.Thread(target=down, args=(1,)).start()
"""


def test_a_recursion_goes_nearly_as_deep(
    lapwing: str, python: str, tmp_path: Path
) -> None:
    """On 3.10 each call takes C stack, and a hook around it a little more."""
    if subprocess.check_output([python, "-V"], text=True)[7:12] != "3.10.":
        return
    script = tmp_path / "prog.py"
    script.write_text(DEEP)
    bare = subprocess.run([python, script], capture_output=True, timeout=60)
    ours = run(lapwing, ["--", python, str(script)], tmp_path)
    depths = [int(done.stdout.split()[-1]) for done in (bare, ours)]
    assert depths[1] > 0.9 * depths[0]


BREAKPOINT = """
import sys
def main():
    x = 1
    breakpoint()
    x = 2
main()
"""


def test_breakpoint_stops_where_it_would(
    lapwing: str, python: str, tmp_path: Path
) -> None:
    script = tmp_path / "prog.py"
    script.write_text(BREAKPOINT)
    bare = subprocess.run(
        [python, script], input="w\nn\nc\n", capture_output=True, text=True, timeout=60
    )
    ours = run(lapwing, ["--", python, str(script)], tmp_path, input="w\nn\nc\n")
    assert "main()" in bare.stdout
    assert ours.stdout == bare.stdout
