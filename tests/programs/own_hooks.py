"""A program with a profile or trace function of its own, as debuggers and coverage.

    own_hooks.py setprofile|settrace|threading|late|monitoring [CALLS]

It checks that its hook was told of every call, so it fails when a profiler takes the
hook away. `threading` sets hooks for threads; `late` sets and removes one in the
middle of the work; `monitoring` uses sys.monitoring (3.12 and later) under two ids.
The hook's own calls are not listed: whether a hook is profiled is the interpreter's
choice (it is not while it runs).
"""

from __future__ import annotations

import sys
import threading
from types import CodeType, FrameType

from known import say

seen: dict[str, int] = {}


def note(name: str) -> None:
    seen[name] = seen.get(name, 0) + 1


def profile_hook(frame: FrameType, event: str, arg: object) -> None:
    if event == "call":
        note(frame.f_code.co_name)


def trace_hook(frame: FrameType, event: str, arg: object) -> None:
    """Counts calls and wants no lines."""
    if event == "call":
        note(frame.f_code.co_name)


def leaf(x: int) -> int:
    return x + 1


def work(calls: int) -> int:
    total = 0
    for i in range(calls):
        total += leaf(i)
    return total


def with_setprofile(calls: int) -> None:
    sys.setprofile(profile_hook)
    work(calls)
    sys.setprofile(None)
    assert seen["leaf"] == calls and seen["work"] == 1, seen


def with_settrace(calls: int) -> None:
    sys.settrace(trace_hook)
    work(calls)
    sys.settrace(None)
    assert seen["leaf"] == calls and seen["work"] == 1, seen


def with_threading(calls: int) -> None:
    threading.setprofile(profile_hook)
    threading.settrace(trace_hook)
    thread = threading.Thread(target=work, args=(calls,))
    thread.start()
    thread.join()
    threading.setprofile(None)
    threading.settrace(None)
    assert seen["leaf"] == 2 * calls and seen["work"] == 2, seen


def with_late(calls: int) -> None:
    work(calls)
    sys.setprofile(profile_hook)
    work(calls)
    sys.setprofile(None)
    work(calls)
    assert seen["leaf"] == calls and seen["work"] == 1, seen


def with_monitoring(calls: int) -> None:
    monitoring = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
    events = monitoring.events

    def on_start(code: CodeType, offset: int) -> None:
        note(code.co_name)

    tools = [tool for tool in range(6) if monitoring.get_tool(tool) is None][:2]
    assert len(tools) == 2, "no tool id was left for the program"
    for tool in tools:
        monitoring.use_tool_id(tool, f"own_hooks {tool}")
        monitoring.register_callback(tool, events.PY_START, on_start)
        monitoring.set_events(tool, events.PY_START)
    work(calls)
    for tool in tools:
        monitoring.set_events(tool, 0)
        monitoring.free_tool_id(tool)
    assert seen["leaf"] == 2 * calls and seen["work"] == 2, seen


def main() -> None:
    how = sys.argv[1] if len(sys.argv) > 1 else "setprofile"
    calls = int(sys.argv[2]) if len(sys.argv) > 2 else 2_000
    if how == "monitoring" and sys.version_info < (3, 12):
        sys.exit("own_hooks.py: sys.monitoring came with Python 3.12")
    globals()["with_" + how](calls)
    times = 3 if how == "late" else 1
    threads = 2 if how == "threading" else 1
    say({"leaf": times * calls, "work": times, "main": 1}, threads=threads)


if __name__ == "__main__":
    main()
