"""Forks CHILDREN processes that call a function once: all alive at once, or one by one.

storm.py alive|in-turn CHILDREN
"""

from __future__ import annotations

import os
import sys


def leaf() -> None:
    pass


def main(kind: str, children: int) -> None:
    read_end, write_end = os.pipe()
    started = []
    for _ in range(children):
        pid = os.fork()
        if pid == 0:
            leaf()
            if kind == "alive":
                os.close(write_end)
                os.read(read_end, 1)  # until the last one is there
            os._exit(0)
        started.append(pid)
        if kind == "in-turn":
            os.waitpid(started.pop(), 0)
    os.close(write_end)
    for pid in started:
        os.waitpid(pid, 0)
    print(children)


main(sys.argv[1], int(sys.argv[2]))
