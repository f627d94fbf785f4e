#!/usr/bin/env python3
"""Small traces and snapshots with memory in them: make_memory.py KIND FILE."""

from __future__ import annotations

import json
import pickle
import sys
from typing import Any

Dict = dict[str, Any]


def event(
    name: str, start: float, end: float, cat: str = "cpu_op", **args: Any
) -> Dict:
    """Times in µs."""
    place = {"ph": "X", "pid": 1, "tid": 1, "cat": cat, "name": name}
    return {**place, "ts": start, "dur": end - start, "args": args}


def memory(time: float, size: int, address: int, total: int, kind: int) -> Dict:
    args = {"Device Type": kind, "Device Id": 0 if kind else -1, "Bytes": size}
    if address:
        args |= {"Addr": address, "Total Allocated": total, "Total Reserved": 1 << 20}
    place = {"ph": "i", "s": "t", "pid": 1, "tid": 1, "cat": "cpu_instant_event"}
    return {**place, "name": "[memory]", "ts": time, "args": args}


def training(kind: int = 1) -> list[Dict]:
    """A step: data on the host; forward, backward, optimizer on a device that had 1000
    bytes before."""
    events = [
        event("ProfilerStep#1", 0, 1000, "user_annotation"),
        event("train.py(7): step", 90, 990, "python_function", **{"Python id": 1}),
        event("enumerate(DataLoader)#_It.__next__", 10, 80, "user_annotation"),
        event("aten::stack", 20, 60),
        event("aten::linear", 100, 200),
        event("aten::addmm", 110, 190, **{"Input Dims": [[4], [2, 8], [8, 4]]}),
        event("aten::empty", 115, 120),
        event("autograd::engine::evaluate_function: AddmmBackward0", 400, 600),
        event("aten::mm", 410, 450, **{"Input Dims": [[8, 2], [2, 4]]}),
        event("aten::mm", 460, 500, **{"Input Dims": [[2, 4], [4, 8]]}),
        event("Optimizer.step#SGD.step", 700, 800, "user_annotation"),
        event("aten::sqrt", 710, 730),
        event("aten::zeros", 740, 750),
    ]
    totals = {0: 0, kind: 1000}
    held: dict[int, int] = {}
    story = [
        (30, 64, 0xC0, 0),  # input
        (40, 16, 0xC1, 0),  # freed in its op
        (50, 0, 0xC1, 0),
        (117, 2048, 0xA0, kind),  # activation
        (150, 512, 0xA1, kind),  # freed in its op
        (160, 0, 0xA1, kind),
        (420, 256, 0xA2, kind),  # gradient
        (470, 4096, 0xA3, kind),  # freed in the backward function
        (590, 0, 0xA3, kind),
        (595, 0, 0xA0, kind),
        (720, 128, 0xA4, kind),  # freed in the optimizer
        (745, 1024, 0xA5, kind),  # state
        (760, 0, 0xA4, kind),
        (900, 0, 0xA2, kind),
        (950, 0, 0xC0, 0),
        (960, 0, 0xAF, kind),  # was there before
    ]
    for time, size, address, where in story:
        change = size or -held.pop(address, 100)
        if size:
            held[address] = size
        totals[where] += change
        events.append(memory(time, change, address, totals[where], where))
    return events


def old() -> list[Dict]:
    """As torch 1.9 wrote it, without addresses and totals."""
    events = [event("aten::empty", 10, 20, "Operator")]
    return [*events, memory(12, 64, 0, 0, 0), memory(30, -64, 0, 0, 0)]


def snapshot() -> Dict:
    def frames(*lines: int) -> list[Dict]:
        native = {"name": "at::_ops::mm::call(x)", "filename": "??", "line": 0}
        python = {"name": "step", "filename": "/w/train.py"}
        return [native, *({**python, "line": line} for line in lines)]

    def block(address: int, size: int, state: str, *lines: int) -> Dict:
        where = frames(*lines) if lines else []
        sizes = {"address": address, "size": size, "requested_size": size - 1}
        return {**sizes, "state": state, "frames": where}

    def entry(action: str, address: int, size: int, time: int, line: int) -> Dict:
        what = {"action": action, "addr": address, "size": size, "stream": 0}
        return {**what, "time_us": time, "frames": frames(line)}

    blocks = [
        block(0x1000, 1024, "active_allocated", 9),
        block(0x1400, 512, "active_allocated"),
        block(0x1600, 2560, "inactive"),
    ]
    segment = {
        "device": 0,
        "address": 0x1000,
        "total_size": 4096,
        "active_size": 1536,
        "requested_size": 1534,
        "stream": 0,
        "segment_type": "small",
        "blocks": blocks,
        "frames": [],
    }
    trace = [
        entry("alloc", 0x1600, 2048, 100, 8),
        entry("alloc", 0x1000, 1024, 200, 9),
        entry("free_requested", 0x1600, 2048, 300, 8),
        entry("free_completed", 0x1600, 2048, 310, 8),
        entry("free_completed", 0x1E00, 256, 400, 8),
        {"action": "oom", "size": 1 << 40, "device_free": 7, "time_us": 500},
        {"action": "something new", "time_us": 600},
    ]
    return {"segments": [segment], "device_traces": [trace]}


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return print, ("executed",)


def main() -> None:
    kind, path = sys.argv[1:]
    what = {
        "cuda": training,
        "hip": lambda: training(6),
        "old": old,
        "none": lambda: [event("aten::mm", 1, 2)],
        "snapshot": snapshot,
        "evil": lambda: {"segments": [Evil()]},
        "raw": lambda: [
            [-1, 1, 1000, 0],
            [-1, 1, 24, 7],
            [5000, 2, 4096, 3],
            [6000, 3, -4096, 3],
            [6000, 3, 4096, 4],
            [9000, 4, -4096, 4],
        ],
        "sizes": lambda: [
            [5, 6, 9],
            [[0, 1000, 0, 0, 0, x, 0, 0, 24] for x in (0, 9, 4)],
        ],
    }[kind]()
    if isinstance(what, dict):
        data = pickle.dumps(what, 4)
    elif isinstance(what[0], list):
        data = json.dumps(what).encode()
    else:
        data = json.dumps({"schemaVersion": 1, "traceEvents": what}).encode()
    with open(path, "wb") as file:
        file.write(data)


main()
