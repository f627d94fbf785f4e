#!/usr/bin/env python3
"""Makes the seeds of fuzz_region.c again, in fuzz/corpus/region.

Each is a small region as a sound agent would have it: threads in every state, a tree,
the name log, and rings with every kind of record.
"""

from __future__ import annotations

import struct
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "corpus" / "region"
SLOTS, BLOCKS, BLOCK_NODES, NAMES_BYTES, RING_RECORDS = 4, 4, 16, 1024, 8
ROOT, MORE, UNKNOWN = 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFFD
LIVE, ENDED = 1, 2


def slot(state: int, root: int, current: int, tid: int, name: bytes) -> bytes:
    head = struct.pack("=QIIII", 9000, current, root, 0, 0)
    head += struct.pack("=IIII", root + 1 if root else 0, state, 1 if state else 0, 0)
    head += struct.pack("=QQQ", tid, 1000, 9500 if state == ENDED else 0)
    return (head + struct.pack("=I92s", len(name), name)).ljust(256, b"\0")


def node(function: int, parent: int, calls: int, self_ticks: int) -> bytes:
    return struct.pack("=IIIIQQ", function, parent, 0, 0, calls, self_ticks)


def name(number: int, kind: int, file: bytes, text: bytes) -> bytes:
    size = (24 + len(file) + len(text) + 7) // 8 * 8
    head = struct.pack("=IIIHHII", size, number, 7, kind, 0, len(file), len(text))
    return (head + file + text).ljust(size, b"\0")


def record(kind: int, number: int, ticks: int, value: int, node: int) -> bytes:
    return struct.pack("=IIQQII", kind, number, ticks, value, node, 1)


def ring(records: list[bytes]) -> bytes:
    head = struct.pack("=Q", len(records)).ljust(64, b"\0")
    return (head + b"".join(records)).ljust(64 + 32 * RING_RECORDS, b"\0")


def region(slots: list[bytes], nodes: list[bytes], names: list[bytes],
           rings: list[list[bytes]]) -> bytes:  # fmt: skip
    log = b"".join(names)
    blocks = (len(nodes) + BLOCK_NODES - 1) // BLOCK_NODES
    start = struct.pack("=IIII", blocks, 1, len(log), 0) + struct.pack("=QQQ", 3, 0, 0)
    owners = struct.pack("=4I", *([1] * blocks + [0] * (BLOCKS - blocks)))
    parts = [
        b"".join(slots).ljust(SLOTS * 256, b"\0"),
        owners,
        b"".join(nodes).ljust(BLOCKS * BLOCK_NODES * 32, b"\0"),
        log.ljust(NAMES_BYTES, b"\0"),
        *(ring(records) for records in rings),
    ]
    return start + b"".join(parts)


NAMES = [
    name(1, 0, b"a.py", b"main"),
    name(2, 1, b"", b"len"),
    name(3, 2, b"", b"mark"),
    name(4, 3, b"", b"loss"),
    name(5, 4, b"", b"aten::add"),
    name(6, 5, b"Net", b"forward"),
]
TREE = [
    node(0, 0, 0, 0),
    node(ROOT, 1, 0, 50),
    node(MORE, 1, 0, 0),
    node(UNKNOWN, 2, 4, 9),
    node(1, 1, 1, 4000),
    node(2, 4, 300, 2500),
    node(1, 5, 2, 70),
]
RECORDS = [
    record(1, 5, 1200, 300, 0),
    record(2, 3, 1300, 100, 4),
    record(2, 6, 1350, 80, 4),
    record(3, 4, 1400, 0x3FE0000000000000, 0),
    record(2, 5, 1500, 60, 4),
    record(4, 1, 1500, 7 << 24 | 12, 1),
    record(5, 1, 1600, 7 << 24 | 12, 1),
]


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    live = slot(LIVE, 1, 4, 4711, b"MainThread")
    whole = region([live], TREE, NAMES, [RECORDS])
    ended = region([live, slot(ENDED, 1, 1, 4712, b"")], TREE, NAMES, [RECORDS, []])
    seeds = {
        "whole": b"\0\0\0" + whole,
        "ended": b"\0\0\0" + ended,
        "nothing_yet": b"\0\0\0" + region([], [], [], []),
        "the_rings_come_later": b"\0\0\x04" + whole,
        "raw": b"\1\0\0LLPWING1",
    }
    for title, seed in seeds.items():
        (FOLDER / title).write_bytes(seed)


if __name__ == "__main__":
    main()
