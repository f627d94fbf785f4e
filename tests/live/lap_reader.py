"""A reader of Lapwing recordings, made from docs/format.md alone.

It shares nothing with the program, so that what both agree on is the document.
`python lap_reader.py RUN` prints calls and self time of each function.
"""

from __future__ import annotations

import json
import struct
import sys
import tarfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import zstandard

MAGIC = b"\x89LAP\r\n\x1a\n"
SYNC = b"\xf5lw\xc1"
MOST_BYTES, MOST_ROWS = 1 << 22, 1 << 16
CRC_TABLE = []
for byte in range(256):
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    CRC_TABLE.append(byte)


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ CRC_TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


class Body:
    """The numbers in a chunk's body, in the order in which they are asked for."""

    def __init__(self, data: bytes, rows: int) -> None:
        self.data, self.rows, self.at = data, rows, 0

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def bytes(self, count: int) -> bytes:
        self.at += count
        assert self.at <= len(self.data)
        return self.data[self.at - count : self.at]

    def varints(self) -> list[int]:
        return [self.varint() for _ in range(self.rows)]

    def steps(self) -> list[int]:
        values, value = [], 0
        for _ in range(self.rows):
            number = self.varint()
            value = (value + (number >> 1 ^ -(number & 1))) % 2**64
            values.append(value)
        return values

    def doubles(self) -> list[float]:
        return list(struct.unpack(f"<{self.rows}d", self.bytes(8 * self.rows)))


@dataclass
class Process:
    meta: dict[str, str] = field(default_factory=dict)
    strings: dict[int, str] = field(default_factory=lambda: {0: ""})
    frames: dict[int, tuple[int, ...]] = field(default_factory=lambda: {0: (0,) * 9})
    stacks: dict[int, tuple[int, int]] = field(default_factory=dict)
    threads: dict[int, tuple[int, ...]] = field(default_factory=dict)
    calls: Counter[tuple[int, int]] = field(default_factory=Counter)
    self_ns: Counter[tuple[int, int]] = field(default_factory=Counter)
    samples: list[tuple[int, ...]] = field(default_factory=list)
    spans: list[tuple[int, ...]] = field(default_factory=list)
    counters: list[tuple[int, str, float]] = field(default_factory=list)
    losses: Counter[tuple[str, str]] = field(default_factory=Counter)
    thinned: Counter[tuple[int, int]] = field(default_factory=Counter)

    def take(self, kind: int, body: Body) -> None:
        rows = range(body.rows)
        if kind == 1:
            for _ in rows:
                key = body.bytes(body.varint()).decode()
                self.meta[key] = body.bytes(body.varint()).decode(errors="replace")
        elif kind in (2, 3, 4):
            first = body.varint()
            if kind == 2:
                for i, length in enumerate(body.varints()):
                    text = body.bytes(length).decode(errors="replace")
                    self.strings[first + i] = text
            elif kind == 3:
                columns = [body.steps() for _ in range(4)]
                columns += [body.varints() for _ in range(5)]
                self.frames.update(enumerate(zip(*columns, strict=True), first))
            else:
                parents = [first + i - n for i, n in enumerate(body.varints())]
                pairs = zip(parents, body.steps(), strict=True)
                self.stacks.update(enumerate(pairs, first))
        elif kind == 5:
            columns = [body.varints() for _ in range(5)]
            self.threads.update((row[0], row) for row in zip(*columns, strict=True))
        elif kind == 6:
            body.varint(), body.varint()
            places = list(zip(body.steps(), body.steps(), strict=True))
            for counter in (self.calls, self.self_ns):
                for place, value in zip(places, body.varints(), strict=True):
                    counter[place] += value
        elif kind in (7, 8):
            columns = [body.steps(), body.varints(), body.steps(), body.steps()]
            if kind == 7:
                columns.append(body.varints())
            rows_of_it = self.samples if kind == 7 else self.spans
            rows_of_it.extend(zip(*columns, strict=True))
        elif kind == 9:
            times, names = body.steps(), [self.strings[n] for n in body.varints()]
            self.counters.extend(zip(times, names, body.doubles(), strict=True))
        elif kind in (10, 11):
            if kind == 11:
                body.varint(), body.varint()
            columns = [body.varints() for _ in range(3)]
            for a, b, count in zip(*columns, strict=True):
                if kind == 10:
                    self.losses[self.strings[a], self.strings[b]] += count
                else:
                    self.thinned[a, b] += count

    def functions(self) -> dict[tuple[str, int, str], tuple[int, int]]:
        """(file, first line, name) -> calls, self time in ns."""
        totals: dict[tuple[str, int, str], tuple[int, int]] = {}
        for key, calls in self.calls.items():
            frame = self.frames[self.stacks[key[1]][1]]
            name = (self.strings[frame[1]], frame[2], self.strings[frame[0]])
            before = totals.get(name, (0, 0))
            totals[name] = before[0] + calls, before[1] + self.self_ns[key]
        return totals


def chunks(data: bytes) -> Iterator[tuple[int, Body]]:
    """The kind and body of each whole chunk."""
    at = 64
    while (at := data.find(SYNC, at)) >= 0:
        head = data[at : at + 28]
        if len(head) < 28 or crc32c(head[:24]) != struct.unpack("<I", head[24:])[0]:
            at += 1
            continue
        kind, codec, stored, raw, rows, crc, _ = struct.unpack("<4xHBxIIIII", head)
        body = data[at + 28 : at + 28 + stored]
        if len(body) < stored:
            at += 1
            continue
        at += 28 + stored
        if crc32c(body) != crc or raw > MOST_BYTES or rows > MOST_ROWS:
            continue
        if codec == 1:
            unpacker = zstandard.ZstdDecompressor()
            body = unpacker.decompress(body, max_output_size=raw)
        yield kind, Body(body, rows)


def files(path: Path) -> dict[str, bytes]:
    if path.is_dir():
        return {p.name: p.read_bytes() for p in path.iterdir() if p.is_file()}
    with tarfile.open(path, "r:") as archive:
        return {
            entry.name.rpartition("/")[2]: data.read()
            for entry in archive
            if entry.isfile() and (data := archive.extractfile(entry))
        }


def read_run(path: Path) -> tuple[dict[str, Any], dict[int, Process]]:
    """What run.json says, and the processes by number."""
    content = files(path)
    processes: dict[int, Process] = {}
    segments: list[tuple[int, int, str]] = []
    for name in content:
        if name.startswith("p") and name.endswith(".seg"):
            process, segment = name[1:-4].split("-")
            segments.append((int(process), int(segment), name))
    covered: dict[int, int] = {}
    for number, segment_number, name in sorted(segments):
        data = content[name]
        if segment_number <= covered.get(number, 0):
            continue
        major, last, crc = struct.unpack("<8xH14xI32xI", data[:64])
        assert data[:8] == MAGIC and crc32c(data[:60]) == crc and major == 1
        covered[number] = last
        for kind, body in chunks(data):
            processes.setdefault(number, Process()).take(kind, body)
    return json.loads(content.get("run.json", b"{}")), processes


if __name__ == "__main__":
    for process in read_run(Path(sys.argv[1]))[1].values():
        for function, (calls, self_ns) in sorted(process.functions().items()):
            print(calls, self_ns, *function)
