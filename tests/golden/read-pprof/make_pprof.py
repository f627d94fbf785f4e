"""Writes profile.pb.gz, a small pprof profile, as the words on the command line say.

No pprof or protobuf package is needed: a message is a few tags and varints.
"""

from __future__ import annotations

import gzip
import sys


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def message(field: int, *parts: bytes) -> bytes:
    body = b"".join(parts)
    return varint(field << 3 | 2) + varint(len(body)) + body


def packed(field: int, *values: int) -> bytes:
    return message(field, *map(varint, values))


strings = [""]


def string(text: str) -> int:
    if text not in strings:
        strings.append(text)
    return strings.index(text)


def value_type(field: int, kind: str, unit: str) -> bytes:
    return message(field, number(1, string(kind)), number(2, string(unit)))


def function(id_: int, name: str, file: str, line: int) -> bytes:
    parts = (number(1, id_), number(2, string(name)), number(4, string(file)))
    return message(5, *parts, number(5, line))


def location(id_: int, address: int, *lines: tuple[int, int]) -> bytes:
    parts = [message(4, number(1, f), number(2, line)) for f, line in lines]
    return message(4, number(1, id_), number(2, 1), number(3, address), *parts)


def thread(name: str, tid: int) -> bytes:
    return message(3, number(1, string("thread")), number(2, string(name))) + message(
        3, number(1, string("tid")), number(3, tid)
    )


words = sys.argv[1:]
types = [("samples", "count"), ("cpu", "nanoseconds")]
if "space" in words:
    types = [("alloc_objects", "count"), ("alloc_space", "bytes")]
if "period" in words:
    types = [("samples", "count")]
if "calls" in words:
    types = [("calls", "count"), ("wall", "milliseconds")]

out = [value_type(1, *t) for t in types]
for stack, count, weight, name, tid in [
    ([3, 2, 1], 3, 30000000, "main", 11),
    ([2, 1], 1, 10000000, "main", 11),
    ([4, 1], 2, 20000000, "loader", 12),
]:
    if "negative" in words:
        weight = -weight
    if "calls" in words:
        weight //= 1000000
    if "nowhere" in words:
        stack = [9, *stack]
    values = (count, weight)[: len(types) + ("values" in words)]
    out.append(message(2, packed(1, *stack), packed(2, *values), thread(name, tid)))
if "values" in words:
    out.append(message(2, packed(1, 1), packed(2, 1)))
out += [
    message(3, number(1, 1), number(5, string("/usr/lib/libtorch.so"))),
    location(1, 16, (1, 40)),
    location(2, 32, (7, 13)),
    location(3, 48, (3, 8), (2, 5)),  # 3 was inlined into 2
    location(4, 0xDEADBEEF),
    function(1, "main", "train.py", 30),
    function(7, "step", "train.py", 10),
    function(2, "forward", "model.py", 5),
    function(3, "relu", "ops.py", 0),
]
if "period" in words:
    out += [value_type(11, "cpu", "nanoseconds"), number(12, 10000000)]
if "string" in words:
    out.append(number(14, 99) + function(8, "x", "y", 1))
table = strings[:4] if "string" in words else strings
out += [message(6, text.encode()) for text in table]
data = b"".join(out)
if "cut" in words:
    data = data[:-3]
with open("profile.pb.gz", "wb") as file:
    file.write(data if "plain" in words else gzip.compress(data, mtime=0))
