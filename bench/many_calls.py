"""Make N Python calls (10 million): many_calls.py [N].

A binary tree of calls by a few functions at a few depths, so that a recording holds
more than one line.
"""

from __future__ import annotations

import sys


def leaf(depth: int) -> int:
    """The end of a branch."""
    return 1


def left(depth: int) -> int:
    """Half of the calls below it go on."""
    return 1 + right(depth - 1) + leaf(depth) if depth > 0 else 1


def right(depth: int) -> int:
    """As left, the other way round."""
    return 1 + leaf(depth) + left(depth - 1) if depth > 0 else 1


def main() -> None:
    """Call until N calls are made."""
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
    made = 0
    while made < wanted:
        made += left(8)
    print(made)


if __name__ == "__main__":
    main()
