"""Recursion 900 deep in a thread that has a C stack of 64 KB.

    small_stack.py [DEPTH] [KILOBYTES]

A profiler that adds C frames for each Python call overruns such a stack. 3.10 itself
uses C stack for each call, so there the thread gets what it needs.
"""

from __future__ import annotations

import sys
import threading

from known import say


def down(n: int) -> int:
    return 0 if n == 0 else 1 + down(n - 1)


def in_thread(depth: int, results: list[int]) -> None:
    results.append(down(depth))


def main() -> None:
    depth = int(sys.argv[1]) if len(sys.argv) > 1 else 900
    kilobytes = int(sys.argv[2]) if len(sys.argv) > 2 else 64
    if sys.version_info < (3, 11):
        kilobytes += depth
    threading.stack_size(kilobytes * 1024)
    results: list[int] = []
    for _ in range(2):
        thread = threading.Thread(target=in_thread, args=(depth, results))
        thread.start()
        thread.join()
    assert results == [depth, depth]
    say({"down": (2 * (depth + 1), 2), "in_thread": 2, "main": 1}, threads=3)


if __name__ == "__main__":
    main()
