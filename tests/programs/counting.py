"""Makes calls at full rate and keeps its own count where a death cannot take it.

    counting.py FILE [LIMIT] [HOW]

FILE is mapped: the process id, the calls made so far, and for each of the last 65,536
milliseconds when it was and how many there were by then. After LIMIT calls it ends by
HOW: return, exit (os._exit(3)), segfault or abort.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
import sys
import time

HEAD = struct.Struct("=QQ")  # pid, calls
MOMENT = struct.Struct("=QQ")  # ns of CLOCK_MONOTONIC, calls by then
MOMENTS = 65536
FILE_BYTES = HEAD.size + MOMENTS * MOMENT.size


def step() -> None:
    pass


def count(memory: mmap.mmap, limit: int) -> None:
    words = memoryview(memory).cast("Q")  # each is stored whole or not at all
    clock = time.monotonic_ns
    words[0] = os.getpid()
    for made in range(1, limit + 1):
        step()
        words[1] = made
        now = clock()
        place = 2 + 2 * (now // 1_000_000 % MOMENTS)
        words[place] = now
        words[place + 1] = made


def end(how: str) -> None:
    if how == "exit":
        os._exit(3)
    if how == "segfault":
        ctypes.string_at(0)
    if how == "abort":
        os.abort()


def read(memory: bytes) -> tuple[int, int, list[tuple[int, int]]]:
    """The process, its calls, and its moments in order, for those who check."""
    pid, made = HEAD.unpack_from(memory)
    moments = sorted(MOMENT.iter_unpack(memory[HEAD.size :]))
    return pid, made, [moment for moment in moments if moment[0]]


def main() -> None:
    limit = int(sys.argv[2]) if len(sys.argv) > 2 else 10**18
    with open(sys.argv[1], "w+b") as file:
        file.truncate(FILE_BYTES)
        memory = mmap.mmap(file.fileno(), FILE_BYTES)
    count(memory, limit)
    end(sys.argv[3] if len(sys.argv) > 3 else "return")
    print("counted", limit)


if __name__ == "__main__":
    main()
