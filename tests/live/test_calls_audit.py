"""What a program's audit hooks hear of exact calls, and what they may do meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest
from recording import counts_in
from test_api import run_code
from test_calls_unseen import bare_and_recorded

# A thread with a small stack is where 3.11 changes hooks in the middle of a recursion.
DEEP = """
import sys, threading
sys.setrecursionlimit(3000)
events = []
def audit(event, args):
    if event.startswith("sys.set"):
        events.append(event)
        if {refuses}: raise RuntimeError("forbidden")
def down(n): return 0 if n == 0 else 1 + down(n - 1)
def work(): print(down(900))
def go():
    if sys.version_info >= (3, 11): threading.stack_size(256 << 10)
    thread = threading.Thread(target=work)
    thread.start(); thread.join()
sys.addaudithook(audit)
"""
SHOW = "go(); print(events)\n"


@pytest.mark.parametrize("calls", ["--calls", "--c-calls"])
@pytest.mark.parametrize("refuses", [False, True])
def test_an_audit_hook_hears_of_no_profile_function_and_is_not_in_the_way(
    lapwing: str, python: str, calls: str, refuses: bool, tmp_path: Path
) -> None:
    code = DEEP.format(refuses=refuses) + SHOW
    bare, ours = bare_and_recorded(lapwing, python, code, tmp_path, calls)
    assert bare == ours == "900\n[]\n"
    counts = counts_in(lapwing, tmp_path, "prog.py")
    assert counts["down"][0] == 901
    assert counts["work"][0] == 1


PROFILE = """
import lapwing
profile = lapwing.Profile(builtins=False)
with profile: go()
print(events, sum(e.callcount for e in profile.getstats() if e.code is down.__code__))
"""


def test_a_profile_of_a_deep_recursion_is_not_in_the_way_of_an_audit_hook(
    python: str, tmp_path: Path
) -> None:
    code = DEEP.format(refuses=True) + PROFILE
    assert run_code(python, code, tmp_path) == "900\n[] 901\n"


EVERY_EVENT = """
import sys, threading
events = []
sys.addaudithook(lambda event, args: events.append((event, len(args))))
def leaf(): return len("")
def work(): [leaf() for _ in range(20000)]
work()
thread = threading.Thread(target=work)
thread.start(); thread.join()
m = getattr(sys, "monitoring", None)
for i in range(6) if m else ():
    print(i, m.get_tool(i), m.get_events(i), m.get_local_events(i, work.__code__))
    m.free_tool_id(i)
    work()
print(sorted(events))
"""


@pytest.mark.parametrize("calls", ["--calls", "--c-calls"])
def test_no_audit_event_tells_that_calls_are_counted(
    lapwing: str, python: str, calls: str, tmp_path: Path
) -> None:
    bare, ours = bare_and_recorded(lapwing, python, EVERY_EVENT, tmp_path, calls)
    assert bare == ours
    counts = counts_in(lapwing, tmp_path, "prog.py")
    has_monitoring = "\n5 None 0 0\n" in bare
    assert counts["leaf"][0] == 20000 * (8 if has_monitoring else 2)


LOADED_WITHIN_HOOKS = """
import sys
seen = []
def hook(frame, event, arg): seen.append(event)
def trace(frame, event, arg): import lapwing
def f(n): return n
sys.setprofile(hook)
sys.settrace(trace)
f(0)
sys.settrace(None)
f(0)
sys.setprofile(None)
print("lapwing" in sys.modules, seen[-3:])
import lapwing
with lapwing.Profile() as profile: f(1)
print([e.callcount for e in profile.getstats() if e.code is f.__code__],
      sys.getprofile(), sys.gettrace())
"""


def test_the_extension_may_be_loaded_by_a_trace_function(
    python: str, tmp_path: Path
) -> None:
    shown = run_code(python, LOADED_WITHIN_HOOKS, tmp_path)
    assert shown == "True ['call', 'return', 'c_call']\n[1] None None\n"
