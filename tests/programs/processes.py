"""Child processes of every kind, each of which calls functions a known number of times.

    processes.py KIND [CHILDREN] [CALLS]

KIND is os-fork, os-fork-exit, fork, spawn, forkserver, subprocess, exec, pool (a
ProcessPoolExecutor) or nested (a child that has a child). os-fork leaves by os._exit,
os-fork-exit by sys.exit. Each child checks its own arithmetic and the parent checks
each child's exit code.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import NoReturn

from known import say


def leaf(x: int) -> int:
    return x + 1


def child(calls: int) -> int:
    total = 0
    for i in range(calls):
        total += leaf(i)
    assert total == calls * (calls + 1) // 2
    return total


def parent_with_child(calls: int) -> None:
    """Runs in a child process and starts one more."""
    child(calls)
    start_and_join(multiprocessing.get_context("fork"), child, 1, calls)


def start_and_join(
    context: multiprocessing.context.BaseContext,
    target: Callable[[int], object],
    children: int,
    calls: int,
) -> None:
    started = [
        context.Process(target=target, args=(calls,))  # type: ignore[attr-defined]
        for _ in range(children)
    ]
    for process in started:
        process.start()
    for process in started:
        process.join()
        assert process.exitcode == 0, process.exitcode


def with_context(kind: str, children: int, calls: int) -> int:
    start_and_join(multiprocessing.get_context(kind), child, children, calls)
    return children


def with_os_fork(kind: str, children: int, calls: int) -> int:
    pids = []
    for _ in range(children):
        pid = os.fork()
        if pid == 0:
            child(calls)
            if kind == "os-fork":
                os._exit(7)
            sys.exit(7)
        pids.append(pid)
    for pid in pids:
        _, status = os.waitpid(pid, 0)
        assert os.waitstatus_to_exitcode(status) == 7
    return children


def with_subprocess(kind: str, children: int, calls: int) -> int:
    command = [sys.executable, __file__, "child", "1", str(calls)]
    started = [
        subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(children)
    ]
    for process in started:
        out, _ = process.communicate()
        assert process.returncode == 0 and out == b"child done\n"
    return children


def with_exec(kind: str, children: int, calls: int) -> NoReturn:
    """Replaces this process; a part of its calls was made before."""
    child(calls)
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, __file__, "after-exec", "1", str(calls)])


def with_pool(kind: str, children: int, calls: int) -> int:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=children, mp_context=context) as pool:
        sums = list(pool.map(child, [calls] * 3 * children))
        workers = len(pool._processes)
    assert sums == [calls * (calls + 1) // 2] * 3 * children
    return workers


def with_nested(kind: str, children: int, calls: int) -> int:
    context = multiprocessing.get_context("spawn")
    start_and_join(context, parent_with_child, children, calls)
    return 2 * children


# What each gives back is how many processes it started.
KINDS = {
    "os-fork": with_os_fork,
    "os-fork-exit": with_os_fork,
    "fork": with_context,
    "spawn": with_context,
    "forkserver": with_context,
    "subprocess": with_subprocess,
    "exec": with_exec,
    "pool": with_pool,
    "nested": with_nested,
}


def main() -> None:
    kind = sys.argv[1] if len(sys.argv) > 1 else "fork"
    children = int(sys.argv[2]) if len(sys.argv) > 2 else 2
    calls = int(sys.argv[3]) if len(sys.argv) > 3 else 5_000
    if kind == "child":
        child(calls)
        print("child done", flush=True)
        return
    if kind == "after-exec":
        child(calls)
        say({"child": 2, "leaf": 2 * calls})
        return
    if kind not in KINDS:
        sys.exit(f"processes.py: KIND is one of {', '.join(KINDS)}")
    processes = 1 + KINDS[kind](kind, children, calls)
    runs = {"pool": 3 * children, "nested": 2 * children}.get(kind, children)
    # Without the helpers of multiprocessing (resource tracker, fork server), which
    # run none of the functions here.
    say({"child": runs, "leaf": runs * calls}, processes, threads=None)


if __name__ == "__main__":
    main()
