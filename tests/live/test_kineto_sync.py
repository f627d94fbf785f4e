"""Which calls wait for the GPU in real traces: counted again from the files."""

from __future__ import annotations

import bisect
import re
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import traces

# Any trace with a GPU; those of many ranks have one of them here.
PATTERNS = [
    "hta/amd_trace/*",
    "hta/critical_path/alexnet/*",
    "hta/critical_path/cuda_event_sync/*",
    "hta/critical_path/simple_add/*",
    "hta/nccl_parser_config/*",
    "kineto_tb_plugin/samples/resnet50_num_workers_0/*",
    "kineto_tb_plugin/samples/resnet50_num_workers_4/*",
    "param/dlrm_kineto/worker0_*",
    "tracelens/traces/h100/*",
    "tracelens/traces/mi300/*",
]
SYNCHRONISES = re.compile(r"(cuda|hip)(Device|Stream|Event)Synchronize")
WORK = {"kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset"}


class Call(NamedTuple):
    name: str
    start_ns: int
    end_ns: int


def ns(us: float | str) -> int:
    return int((Decimal(str(us)) * 1000).to_integral_value())


def calls_of(path: Path) -> tuple[list[Call], list[int]]:
    """Every call into the runtime, and when each work of a device ended, sorted."""
    calls, ends = [], []
    for event in traces.raw(path):
        category = event.get("cat", "").lower()
        if event.get("ph") != "X":
            continue
        start = ns(event["ts"])
        end = start + ns(event["dur"])
        if category in {"cuda_runtime", "cuda_driver", "runtime"}:
            calls.append(Call(event["name"], start, end))
        elif category in WORK:
            ends.append(end)
    return calls, sorted(ends)


def waits(lapwing: str, pattern: str, by: str = "wait") -> list[dict[str, Any]]:
    table = traces.report(lapwing, traces.trace(pattern), "sync", "--by", by)
    rows: list[dict[str, Any]] = table["rows"]
    return rows


@pytest.mark.parametrize("pattern", PATTERNS)
def test_every_call_that_synchronises_is_there_once(lapwing: str, pattern: str) -> None:
    calls, _ = calls_of(traces.trace(pattern))
    theirs = sorted(
        (call.name, call.end_ns - call.start_ns)
        for call in calls
        if SYNCHRONISES.fullmatch(call.name)
    )
    rows = waits(lapwing, pattern)
    ours = [(row["call"], row["waited_ns"]) for row in rows]
    assert sorted(pair for pair in ours if SYNCHRONISES.fullmatch(pair[0])) == theirs
    assert ours == sorted(ours, key=lambda pair: -pair[1])


@pytest.mark.parametrize("pattern", PATTERNS)
def test_waits_are_part_of_the_time_in_the_runtime(lapwing: str, pattern: str) -> None:
    calls, _ = calls_of(traces.trace(pattern))
    waited = sum(row["waited_ns"] for row in waits(lapwing, pattern))
    assert 0 < waited <= sum(call.end_ns - call.start_ns for call in calls)
    for by in ("line", "op", "call"):
        rows = waits(lapwing, pattern, by)
        assert sum(row["waited_ns"] for row in rows) == waited
        assert sum(row["count"] for row in rows) == len(waits(lapwing, pattern))


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_long_wait_ends_just_after_work_of_the_device(
    lapwing: str, pattern: str
) -> None:
    """It is named if it ended in the call. (On AMD a call may take 5 ms of its own.)"""
    calls, ends = calls_of(traces.trace(pattern))
    of_call = {(call.name, call.end_ns - call.start_ns): call for call in calls}
    for row in waits(lapwing, pattern):
        call = of_call[row["call"], row["waited_ns"]]
        last = bisect.bisect_right(ends, call.end_ns) - 1
        ended_in_it = last >= 0 and ends[last] > call.start_ns
        if row["waited_ns"] > 50_000:
            assert bool(row["work"]) == ended_in_it
        assert not row["work"] or ended_in_it


def test_lines_are_those_of_the_person(lapwing: str) -> None:
    rows = waits(lapwing, "tracelens/traces/mi300/*", "line")
    assert [row["line"] for row in rows] == ["train_ddp.py(161): ddp_worker"]
    rows = waits(lapwing, "kineto_tb_plugin/samples/resnet50_num_workers_0/*", "line")
    (copies,) = (row for row in rows if row["op"] == "aten::to > aten::copy_")
    assert copies["line"] == "resnet50_profiler_api.py(44): <module>"
    assert copies["count"] == 12
