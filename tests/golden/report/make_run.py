#!/usr/bin/env python3
"""Writes a recording to report on: make_run.py STORY FOLDER.

Written from docs/format.md alone, so that a mistake in our own writer cannot hide
behind the same mistake in our reader. Stories: train (calls of two processes), samples,
sampled (samples in all states, of three threads in two processes), system (counters),
timeline (calls as spans, spans that overlap, a counter; names that are hard to write),
empty, deep (a recursion of ten thousand calls), backward (ops of a training, with the
backward ops that came of them).
"""

from __future__ import annotations

import json
import struct
import sys
from pathlib import Path

META, STRINGS, FRAMES, STACKS, THREADS, CALLS, SAMPLES = 1, 2, 3, 4, 5, 6, 7
SPANS, COUNTERS, LOSSES, THINNED, ORIGINS = 8, 9, 10, 11, 12
TORCH = "/home/me/project/.venv/lib/python3.11/site-packages/torch"
MS = 1_000_000


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def varints(values: list[int]) -> bytes:
    return b"".join(map(varint, values))


def steps(values: list[int]) -> bytes:
    pairs = zip([0, *values], values, strict=False)
    return b"".join(
        varint((b - a) << 1 if b >= a else (a - b) * 2 - 1) for a, b in pairs
    )


def chunk(kind: int, rows: int, body: bytes) -> bytes:
    head = b"\xf5lw\xc1" + struct.pack("<HBB", kind, 0, 0)
    head += struct.pack("<IIII", len(body), len(body), rows, crc32c(body))
    return head + struct.pack("<I", crc32c(head)) + body


class Process:
    """One process: threads, and what was counted on each path of functions."""

    def __init__(self, number: int, **meta: object) -> None:
        self.number = number
        self.meta = {key: str(value).encode() for key, value in meta.items()}
        self.strings: dict[bytes, int] = {b"": 0}
        self.frames: dict[tuple[int, ...], int] = {}
        self.stacks: dict[tuple[int, int], int] = {}
        self.threads: list[tuple[int, int, int, int]] = []
        self.calls: list[tuple[int, int, int, int]] = []
        self.samples: list[tuple[int, int, int, int, int]] = []
        self.spans: list[tuple[int, int, int, int]] = []
        self.origins: list[tuple[int, ...]] = []
        self.counters: list[tuple[int, int, float]] = []
        self.losses: list[tuple[int, int, int]] = []
        self.dropped: tuple[int, int, int] | None = None  # spans: from, to, how many

    def string(self, text: str) -> int:
        return self.strings.setdefault(text.encode(), len(self.strings))

    def thread(self, tid: int, name: str, start: int, end: int) -> int:
        self.threads.append((tid, self.string(name), start, end))
        return len(self.threads) - 1

    def stack(self, path: str) -> int:
        """ "name@file:first:line name ..." from the outermost; no file: a builtin, or
        with a ! before it a mark; with a % before it a phase, of the class @; with a #
        before it an op."""
        stack = 0
        for word in path.split():
            name, _, place = word.partition("@")
            file, first, line = (*place.split(":"), "0", "0")[:3]
            kind = {"!": 3, "%": 6, "#": 5}.get(name[0], 0 if place else 1)
            name = f"<built-in method {name}>" if kind == 1 else name.lstrip("!%#")
            key = (self.string(name), self.string(file), int(first), int(line))
            frame = (*key, kind)
            number = self.frames.setdefault(frame, len(self.frames) + 1)
            stack = self.stacks.setdefault((stack, number), len(self.stacks) + 1)
        return stack

    def call(self, thread: int, path: str, calls: int, self_ns: int) -> None:
        self.calls.append((thread, self.stack(path), calls, self_ns))

    def sample(
        self, thread: int, path: str, weight: int, state: int = 1, time: int = 0
    ) -> None:
        time = time or (1000 + len(self.samples)) * MS
        self.samples.append((thread, self.stack(path), weight, state, time))

    def span(self, thread: int, path: str, start: int, duration: int) -> None:
        self.spans.append((start, duration, thread, self.stack(path)))

    def op(
        self, thread: int, name: str, start: int, end: int, number: int, line: str = ""
    ) -> None:
        """An op with torch's sequence number, and the line that asked for it, as
        "name@file:line"; a backward op has none."""
        self.span(thread, f"#{name}", start, end - start)
        path, _, at = line.rpartition(":")
        stack = self.stack(path) if line else 0
        frame = list(self.stacks)[stack - 1][1] if line else 0
        where = (frame, int(at or 0), 0 if line else 1)
        self.origins.append((start, thread, 1, number, *where))

    def counter(self, name: str, time: int, value: float) -> None:
        self.counters.append((time, self.string(name), value))

    def loss(self, cause: str, unit: str, count: int) -> None:
        self.losses.append((self.string(cause), self.string(unit), count))

    def chunks(self) -> bytes:
        def columns(rows: list, *kinds: object) -> bytes:
            return b"".join(
                kind([row[i] for row in rows])  # type: ignore[operator]
                for i, kind in enumerate(kinds)
            )

        texts = list(self.strings)[1:]
        frames = list(self.frames)
        parents = [number - parent for (parent, _), number in self.stacks.items()]
        meta = b"".join(
            varint(len(k)) + k.encode() + varint(len(v)) + v
            for k, v in self.meta.items()
        )
        out = chunk(META, len(self.meta), meta)
        out += chunk(
            STRINGS,
            len(texts),
            varint(1) + varints([len(t) for t in texts]) + b"".join(texts),
        )
        if frames:
            body = columns([f[:4] for f in frames], steps, steps, steps, steps)
            body += varints([0] * len(frames)) + varints([f[4] for f in frames])
            out += chunk(FRAMES, len(frames), varint(1) + body)
            body = varints(parents) + steps([frame for _, frame in self.stacks])
            out += chunk(STACKS, len(self.stacks), varint(1) + body)
        rows = [(i, *thread) for i, thread in enumerate(self.threads)]
        out += chunk(THREADS, len(rows), columns(rows, *[varints] * 5))
        if self.calls:
            body = columns(self.calls, steps, steps, varints, varints)
            out += chunk(CALLS, len(self.calls), varint(0) + varint(0) + body)
        if self.samples:
            times = steps([s[4] for s in self.samples])
            weights = varints([s[2] for s in self.samples])
            rest = [(s[0], s[1], s[3]) for s in self.samples]
            body = times + weights + columns(rest, steps, steps, varints)
            out += chunk(SAMPLES, len(self.samples), body)
        if self.spans:
            body = columns(self.spans, steps, varints, steps, steps)
            out += chunk(SPANS, len(self.spans), body)
        if self.counters:
            body = columns([c[:2] for c in self.counters], steps, varints)
            body += b"".join(struct.pack("<d", c[2]) for c in self.counters)
            out += chunk(COUNTERS, len(self.counters), body)
        if self.losses:
            out += chunk(LOSSES, len(self.losses), columns(self.losses, *[varints] * 3))
        if self.dropped:
            start, end, count = self.dropped
            out += chunk(THINNED, 1, varints([start, end, SPANS, 0, count]))
        if self.origins:
            body = columns(self.origins, *[steps] * 4, *[varints] * 3)
            out += chunk(ORIGINS, len(self.origins), body)
        return out

    def write(self, folder: Path) -> None:
        head = b"\x89LAP\r\n\x1a\n" + struct.pack("<HHI", 1, 0, 1)
        head += struct.pack("<IIII", self.number, 1, 1, 0)
        head += struct.pack("<QQ", 1000 * MS, 4000 * MS) + bytes(12)
        head += struct.pack("<I", crc32c(head))
        path = folder / f"p{self.number:04}-000001.seg"
        path.write_bytes(head + self.chunks())


def train() -> list[Process]:
    main = Process(1, pid=4242, command="train.py --epochs 3", python="3.11.7")
    main.meta |= {"start_ns": b"1000000000", "end_ns": b"4000000000", "exit_code": b"0"}
    thread = main.thread(4242, "MainThread", 1000 * MS, 4000 * MS)
    epoch = "<module>@train.py:1 main@train.py:40 train_epoch@train.py:22 "
    loader = epoch + f"__next__@{TORCH}/utils/data/dataloader.py:630 "
    forward = epoch + "forward@/home/me/project/model.py:12 "
    for path, calls, self_ms in [
        ("<module>@train.py:1", 1, 2),
        ("<module>@train.py:1 main@train.py:40", 1, 8),
        (epoch, 3, 30),
        (loader, 90, 90),
        (loader + "time.sleep", 90, 400),
        (forward, 90, 260),
        (forward + "torch.conv2d", 180, 900),
        (epoch + "flatten@utils/tree.py:5", 3, 5),
        (epoch + "flatten@utils/tree.py:5 flatten@utils/tree.py:5", 12, 25),
        (epoch + f"backward@{TORCH}/_tensor.py:463", 90, 700),
        ("<module>@train.py:1 main@train.py:40 flatten@eval/tree.py:5", 1, 3),
    ]:
        main.call(thread, path, calls, self_ms * MS)
    helper = main.thread(4243, "pin memory", 1100 * MS, 3900 * MS)
    main.call(helper, "run@/usr/lib/python3.11/threading.py:964", 1, 1 * MS)
    pin = f"run@/usr/lib/python3.11/threading.py:964 pin@{TORCH}/utils/data/pin.py:20"
    main.call(helper, pin, 90, 45 * MS)
    main.loss("ring full", "spans", 1234)

    worker = Process(2, pid=4250, ppid=4242, command="train.py", python="3.11.7")
    worker.meta |= {"start_ns": b"1200000000", "exit_code": b"137"}
    thread = worker.thread(4250, "MainThread", 1200 * MS, 0)
    worker.call(thread, "load@/home/me/project/images.py:9", 90, 350 * MS)
    return [main, worker]


def samples() -> list[Process]:
    main = Process(1, pid=4242, command="train.py", python="3.11.7", start_ns=10**9)
    thread = main.thread(4242, "MainThread", 1000 * MS, 4000 * MS)
    step = "main@train.py:40:41 step@train.py:10:"
    for path, count in [
        (step + "11", 3),
        (step + "12", 2),
        (step + "12 torch.conv2d", 14),
        ("main@train.py:40:42 evaluate@train.py:30:33", 6),
        ("main@train.py:40:42", 1),
    ]:
        for _ in range(count):
            main.sample(thread, path, 10 * MS)
    return [main]


def sampled() -> list[Process]:
    unknown, cpu, wait, gc, gil_wait, gil = 0, 1, 2, 3, 4, 128
    main = Process(1, pid=4242, command="train.py", python="3.11.7", start_ns=10**9)
    main.meta |= {"end_ns": b"4000000000", "exit_code": b"0"}
    thread = main.thread(4242, "MainThread", 1000 * MS, 4000 * MS)
    helper = main.thread(4243, "pin memory", 1000 * MS, 4000 * MS)
    step = "<module>@train.py:1:50 main@train.py:40:41 step@train.py:10:"
    evaluate = "<module>@train.py:1:50 main@train.py:40:42 evaluate@train.py:30:"
    wait_for = "run@/home/me/python/threading.py:964:982 get@queue.py:5:9"
    for who, path, state, count in [
        (thread, step + "11", cpu | gil, 30),
        (thread, step + "12 torch.conv2d", cpu, 70),
        (thread, step + "12", gc | gil, 5),
        (thread, evaluate + "33", cpu | gil, 15),
        (thread, evaluate + "34", gil_wait, 10),
        (thread, evaluate + "34", unknown, 2),
        (helper, wait_for, wait, 120),
        (helper, wait_for + " copy@queue.py:20:21", cpu | gil, 12),
    ]:
        for _ in range(count):
            main.sample(who, path, 5 * MS, state)
    worker = Process(2, pid=4250, ppid=4242, command="train.py", python="3.11.7")
    worker.meta |= {"start_ns": b"1200000000", "end_ns": b"3900000000"}
    thread = worker.thread(4250, "MainThread", 1200 * MS, 3900 * MS)
    for path, state, count in [
        ("load@/home/me/project/images.py:9:10", cpu | gil, 40),
        ("load@/home/me/project/images.py:9:12", wait, 60),
    ]:
        for _ in range(count):
            worker.sample(thread, path, 5 * MS, state)
    return [main, worker]


def system() -> list[Process]:
    main = Process(1, pid=4242, command="train.py", python="3.11.7", start_ns=10**9)
    main.meta["end_ns"] = b"4000000000"
    main.thread(4242, "MainThread", 1000 * MS, 4000 * MS)
    worker = Process(2, pid=4250, ppid=4242, command="train.py", start_ns=2 * 10**9)
    worker.meta["end_ns"] = b"3000000000"
    worker.thread(4250, "MainThread", 2000 * MS, 3000 * MS)
    for process, name, points in [
        (main, "machine cpus", [(0, 8)]),
        (main, "machine cpu [%]", [(0, 400), (1000, 700), (2500, 100)]),
        (main, "machine gpu 0 [%]", [(0, 0), (1500, 90), (2900, 0)]),
        (main, "container memory limit [bytes]", [(0, 2**33)]),
        (main, "rss [bytes]", [(0, 2**28), (1000, 2**29), (2000, 3 * 2**28)]),
        (main, "cpu [%]", [(0, 100), (1500, 187.5)]),
        (main, "disk read [bytes/s]", [(0, 0), (500, 3 * 2**20), (1000, 0)]),
        (main, "steps", [(0, 7)]),
        (worker, "cpu [%]", [(1000, 50), (1500, 0)]),
    ]:
        for after, value in points:
            process.counter(name, (1000 + after) * MS, value)
    return [main, worker]


def timeline() -> list[Process]:
    main = Process(1, pid=4242, command='train.py "a;b"', python="3.11.7")
    main.meta["start_ns"] = b"1000000000"
    thread = main.thread(4242, "MainThread", 1000 * MS, 4000 * MS)
    step = "main@train.py:40 step@train.py:10"
    odd = step + ' odd;<&"]]>\\name\u00fc@train.py:50'
    for path, start, duration in [
        ("main@train.py:40", 0, 1000),
        (step, 100, 300),
        (odd, 100, 50),
        (step, 400, 300),
        (odd, 700, 0),
    ]:
        main.span(thread, path, 1000 * MS + start, duration)
    for path, calls, self_ns in [
        ("main@train.py:40", 1, 400),
        (step, 2, 550),
        (odd, 2, 50),
    ]:
        main.call(thread, path, calls, self_ns)
    other = main.thread(4243, "loop", 1000 * MS, 4000 * MS)
    main.call(other, "poll@loop.py:7", 5, 77)
    for name, start, duration in [("a", 10, 100), ("b", 60, 100), ("c", 120, 100)]:
        main.span(other, f"!{name}", 1000 * MS + start, duration)
    for i, value in enumerate([1.5, 3e9, 0]):
        main.counter("rss [bytes]", 1000 * MS + i * 500, value)
    return [main]


def empty() -> list[Process]:
    main = Process(1, pid=4242, command="true", start_ns=10**9, exit_code=0)
    main.thread(4242, "MainThread", 1000 * MS, 4000 * MS)
    return [main]


def deep() -> list[Process]:
    main = Process(1, pid=4242, command="deep.py", python="3.11.7", start_ns=10**9)
    thread = main.thread(4242, "MainThread", 1000 * MS, 4000 * MS)
    key = (main.string("down"), main.string("deep.py"), 1, 0)
    frame = main.frames.setdefault((*key, 0), 1)
    for depth in range(10000):
        main.stacks[depth, frame] = depth + 1
        main.calls.append((thread, depth + 1, 1, MS))
    return [main]


def backward() -> list[Process]:
    main = Process(1, pid=4242, command="train.py", python="3.11.7")
    main.meta["start_ns"] = b"1000000000"
    thread = main.thread(4242, "MainThread", 1000 * MS, 4000 * MS)
    main.counter("ops recorded", 1000 * MS, 1)
    for step in range(2):
        at, number = (1000 + 100 * step) * MS, 10 * step
        main.op(thread, "aten::select", at, at + MS, number, "fetch@data.py:7")
        line = "Net.forward@model.py:12"
        main.op(thread, "aten::t", at + 3 * MS, at + 4 * MS, number, line)
        main.op(thread, "aten::addmm", at + 4 * MS, at + 9 * MS, number + 1, line)
        main.op(thread, "aten::linear", at + 2 * MS, at + 10 * MS, number, line)
        line = "Net.forward@model.py:13"
        main.op(thread, "aten::tanh", at + 10 * MS, at + 12 * MS, number + 2, line)
        for again in range(2):
            back = at + (20 + 30 * again) * MS
            main.op(thread, "TanhBackward0", back, back + 3 * MS, number + 2)
            main.op(thread, "AddmmBackward0", back + 4 * MS, back + 14 * MS, number + 1)
            main.op(thread, "TBackward0", back + 14 * MS, back + 15 * MS, number)
    main.op(thread, "ExpBackward0", 1300 * MS, 1304 * MS, 99)
    return [main]


def backward_without_lines() -> list[Process]:
    [main] = backward()
    main.origins = [(*origin[:4], 0, 0, origin[6]) for origin in main.origins]
    return [main]


def ops_alone() -> list[Process]:
    [main] = backward()
    main.origins = []
    return [main]


def write_run(processes: list[Process], folder: Path) -> None:
    folder.mkdir(parents=True)
    for process in processes:
        process.write(folder)
    about = {
        "format": "lapwing run",
        "major": 1,
        "minor": 0,
        "state": "finished",
        "command": processes[0].meta["command"].decode(),
        "facts": {
            "cwd": "/home/me/project",
            "host": "lab7",
            "python": "3.11.7",
            "commit": "1cc6fe5a9b829f57bd9f7006a9df6433bf07c0ae",
            "dirty": "yes",
        },
        "clock": {
            "start_ns": 1000 * MS,
            "end_ns": 4000 * MS,
            "wall_start_ns": 1794773251000000000,
            "wall_end_ns": 1794773254000000000,
        },
        "exit_code": 0,
    }
    (folder / "run.json").write_text(json.dumps(about))


if __name__ == "__main__":
    write_run(globals()[sys.argv[1]](), Path(sys.argv[2]))
