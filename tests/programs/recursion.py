"""Recursion, much deeper than the default limit.

    recursion.py [DEPTH]

DEPTH is 50,000 unless told. From 3.11 on a Python function that calls another uses no
C stack, so this works without a profiler and must work with one. 3.10 uses 420 bytes
a call: there it runs in a thread with a stack that is large enough.
"""

from __future__ import annotations

import sys
import threading

from known import say


def down(n: int) -> int:
    return 0 if n == 0 else 1 + down(n - 1)


def even(n: int) -> bool:
    return True if n == 0 else odd(n - 1)


def odd(n: int) -> bool:
    return False if n == 0 else even(n - 1)


def fibonacci(n: int) -> int:
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


def fail_at_the_bottom(n: int) -> None:
    """Leave the whole stack by one exception."""
    if n == 0:
        raise ValueError("the bottom")
    fail_at_the_bottom(n - 1)


def everything(depth: int) -> None:
    assert down(depth) == depth
    assert down(depth) == depth
    assert even(depth) == (depth % 2 == 0)
    assert fibonacci(20) == 6765
    try:
        fail_at_the_bottom(depth)
    except ValueError:
        pass
    else:
        raise AssertionError("no exception came up")


def main() -> None:
    depth = int(sys.argv[1]) if len(sys.argv) > 1 else 50_000
    threads = 1
    sys.setrecursionlimit(depth + 1_000)
    if sys.version_info < (3, 11):
        threading.stack_size(64 * 2**20 + depth * 2**10)
        thread = threading.Thread(target=everything, args=(depth,))
        thread.start()
        thread.join()
        threads = 2
    else:
        everything(depth)
    say(
        {
            "down": (2 * (depth + 1), 2),
            "even": (depth // 2 + 1, 1),
            "odd": ((depth + 1) // 2, min(depth, 1)),
            "fibonacci": (21_891, 1),
            "fail_at_the_bottom": (depth + 1, 1),
            "everything": 1,
            "main": 1,
        },
        threads=threads,
    )


if __name__ == "__main__":
    main()
