"""`lapwing export` of torch's traces: what was read is what is written, event by event
and to the ns, and Perfetto's trace_processor and catapult, the reader of
chrome://tracing, find all of it.
"""

from __future__ import annotations

import collections
import gzip
import json
import subprocess
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page
from trace_processor import TraceProcessor, import_by_catapult
from traces import trace

Event = dict[str, Any]

# One of each kind: the oldest format, ns, memory and stacks, AMD, collectives, flows.
TRACES = {
    "resnet50": "kineto_tb_plugin/samples/resnet50_num_workers_0/*",
    "counters": "kineto_tb_plugin/test/gpu_metrics_expected.json",
    "nccl": "hta/nccl_parser_config/*",
    "large integers": "hta/large_integer_trace/*",
    "events and streams": "hta/critical_path/cuda_event_sync_multi_stream/*",
    "mi250": "hta/amd_trace/*",
    "mi300": "tracelens/traces/mi300/*",
    "h100": "tracelens/traces/h100/*",
    "cpu": "torch213_cpu/all.pt.trace.json",
}
RANKS = "param/dlrm_kineto"
STEPS = TRACES["resnet50"]  # 5 to 10

PROBLEMS = """
    select name, value from stats
    where severity in ('error', 'data_loss') and value > 0
"""


@pytest.fixture(scope="module")
def processor(browser: Browser) -> Iterator[TraceProcessor]:
    context = browser.new_context()
    yield TraceProcessor(context.new_page())
    context.close()


def export(lapwing: str, path: Path, to: Path, *words: str) -> Path:
    command = [lapwing, "export", str(path), "-o", str(to), *words]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return to


@cache
def decimals(path: Path) -> dict[str, Any]:
    """A trace with its numbers as they are written, not as doubles."""
    data = path.read_bytes()
    if path.suffix == ".gz":
        data = gzip.decompress(data)
    document: dict[str, Any] = json.loads(data, parse_float=Decimal, strict=False)
    return document


def text(value: object) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def place(event: Event) -> tuple[str, str]:
    return str(event.get("pid")), str(event.get("tid"))


def spans(events: list[Event]) -> Counter[tuple[object, ...]]:
    return Counter(
        (e["name"], e.get("cat"), *place(e), e["ts"], e["dur"], text(e.get("args")))
        for e in events
        if e["ph"] == "X"
    )


def instants(events: list[Event]) -> Counter[tuple[object, ...]]:
    return Counter(
        (e["name"], *place(e), e["ts"], e.get("s"), text(e.get("args")))
        for e in events
        if e["ph"] == "i"
    )


def arrows(events: list[Event], categories: set[str]) -> set[tuple[object, ...]]:
    """From where to where, of those that have both ends."""
    starts = {
        e["id"]: (*place(e), e["ts"])
        for e in events
        if e["ph"] == "s" and e["cat"] in categories
    }
    return {
        (starts[e["id"]], (*place(e), e["ts"]))
        for e in events
        if e["ph"] == "f" and e["cat"] in categories and e["id"] in starts
    }


def names(events: list[Event]) -> dict[tuple[str, ...], str]:
    """What is said of processes and threads that hold anything; the last counts."""
    places = {place(e) for e in events if e["ph"] in "Xi"}
    processes = {pid for pid, _ in places}
    said: dict[tuple[str, ...], str] = {}
    for event in events:
        pid, tid = place(event)
        if event["ph"] != "M" or event["args"] == {"sort_index": 0}:
            continue
        if event["name"].startswith("process_") and pid in processes:
            said[event["name"], pid] = text(event["args"])
        elif event["name"].startswith("thread_") and (pid, tid) in places:
            said[event["name"], pid, tid] = text(event["args"])
    return said


@pytest.mark.parametrize("name", TRACES)
def test_every_event_is_written_as_it_was_read(
    lapwing: str, name: str, tmp_path: Path
) -> None:
    path = trace(TRACES[name])
    before = decimals(path)
    after = decimals(export(lapwing, path, tmp_path / "x.trace.json"))
    old, new = before["traceEvents"], after["traceEvents"]
    assert spans(new) == spans(old)
    assert instants(new) == instants(old)
    assert names(new) == names(old)
    assert arrows(new, {"fwdbwd"}) == arrows(old, {"fwdbwd", "forward_backward"})
    # A profiler may leave out the arrow to an event's wait; we draw all that it joined.
    assert arrows(new, {"ac2g"}) >= arrows(old, {"ac2g", "async"})
    assert [e["args"]["value"] for e in new if e["ph"] == "C"] == [
        value for e in old if e["ph"] == "C" for value in e["args"].values()
    ]
    for key in before.keys() - {"traceEvents"}:
        assert text(after[key]) == text(before[key]), key


@pytest.mark.parametrize("name", ["resnet50", "mi300", "cpu"])
def test_what_is_written_is_read_alike(lapwing: str, name: str, tmp_path: Path) -> None:
    first = export(lapwing, trace(TRACES[name]), tmp_path / "a.trace.json")
    second = export(lapwing, first, tmp_path / "b.trace.json")
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize("name", ["counters", "mi250", "cpu"])
def test_catapult_finds_every_event(
    lapwing: str, name: str, tmp_path: Path, page: Page
) -> None:
    path = export(lapwing, trace(TRACES[name]), tmp_path / "x.trace.json")
    events = json.loads(path.read_text())["traceEvents"]
    found = import_by_catapult(page, path.read_text())
    assert found["warnings"] == []
    wanted = Counter(
        (*place(e), e["name"])
        for e in events
        if e["ph"] == "X" or (e["ph"] == "i" and e.get("s") == "t")
    )
    assert wanted == Counter(
        (str(pid), str(tid), title) for pid, tid, title, *_ in found["slices"]
    )


def numbers(events: list[Event]) -> Counter[tuple[object, ...]]:
    return Counter(
        (e["name"], int(e["ts"] * 1000), int(e.get("dur", 0) * 1000))
        for e in events
        if e["ph"] in "Xi"
    )


@pytest.mark.parametrize("name", ["counters", "nccl", "mi250", "cpu"])
def test_perfetto_keeps_what_overlaps(
    lapwing: str, name: str, tmp_path: Path, processor: TraceProcessor
) -> None:
    path = trace(TRACES[name])
    events = decimals(path)["traceEvents"]
    processor.open(export(lapwing, path, tmp_path / "x.pftrace").read_bytes())
    assert processor.query(PROBLEMS) == []
    rows = processor.query(
        "select name, ts, dur, depth, track_id, parent_id from slice"
    )
    assert Counter((r["name"], r["ts"], r["dur"]) for r in rows) == numbers(events)
    ends: dict[int, list[int]] = collections.defaultdict(list)
    for row in sorted(rows, key=lambda r: (r["ts"], -r["dur"], r["depth"])):
        open_ = ends[row["track_id"]]
        while open_ and open_[-1] <= row["ts"]:
            open_.pop()
        assert not open_ or row["ts"] + row["dur"] <= open_[-1]
        open_.append(row["ts"] + row["dur"])
    values = [v for e in events if e["ph"] == "C" for v in e["args"].values()]
    found = processor.query(
        "select value from counter join counter_track t on track_id = t.id "
        "where t.name not like '%memory%' order by ts, counter.id"
    )
    assert sorted(r["value"] for r in found) == sorted(float(v) for v in values)


def test_perfetto_has_arguments_flows_and_memory(
    lapwing: str, tmp_path: Path, processor: TraceProcessor
) -> None:
    path = trace(TRACES["h100"])
    events = decimals(path)["traceEvents"]
    whole = export(lapwing, path, tmp_path / "x.trace.json")
    processor.open(export(lapwing, path, tmp_path / "x.pftrace").read_bytes())
    kernels = processor.query(
        "select name, extract_arg(arg_set_id, 'debug.correlation') as correlation, "
        "extract_arg(arg_set_id, 'debug.stream') as stream, "
        "extract_arg(arg_set_id, 'debug.grid') as grid "
        "from slice where category = 'kernel'"
    )
    assert Counter(
        (r["name"], r["correlation"], r["stream"], json.dumps(json.loads(r["grid"])))
        for r in kernels
    ) == Counter(
        (
            e["name"],
            e["args"]["correlation"],
            e["args"]["stream"],
            json.dumps(e["args"]["grid"]),
        )
        for e in events
        if e.get("cat") == "kernel"
    )
    drawn = decimals(whole)["traceEvents"]
    count = sum(e["ph"] == "s" for e in drawn)
    assert count > 1000
    assert processor.query("select count(*) as n from flow") == [{"n": count}]
    totals = processor.query(
        "select value from counter join counter_track t on track_id = t.id "
        "where t.name = 'GPU 0 memory allocated [bytes]' order by ts, counter.id"
    )
    assert [int(r["value"]) for r in totals] == [
        e["args"]["Total Allocated"]
        for e in sorted(
            (e for e in events if e["name"] == "[memory]"), key=lambda e: e["ts"]
        )
        if e["args"]["Device Type"] == 1
    ]


def test_ranks_become_processes_that_say_their_rank(
    lapwing: str, tmp_path: Path, processor: TraceProcessor
) -> None:
    folder = trace(RANKS)
    files = sorted(folder.glob("worker*.json"))
    assert len(files) == 8
    old = [e for path in files for e in decimals(path)["traceEvents"]]
    path = export(lapwing, folder, tmp_path / "x.trace.json")
    new = decimals(path)["traceEvents"]

    def known(events: list[Event]) -> Counter[tuple[object, ...]]:
        return Counter(
            (e["name"], e.get("cat"), str(e["tid"]), e["ts"], e["dur"], text(e["args"]))
            for e in events
            if e["ph"] == "X" and "args" in e
        )

    assert known(new) == known(old)
    said = {
        e["pid"]: e["args"]["name"]
        for e in new
        if e["ph"] == "M" and e["name"] == "process_name"
    }
    for rank, file in enumerate(files):
        pids = {e["pid"] for e in decimals(file)["traceEvents"] if e["ph"] in "Xi"}
        here = [name for name in said.values() if name.startswith(f"rank {rank}")]
        assert len(here) == len(pids)
        assert f"rank {rank}: python3, CPU" in here
        assert f"rank {rank}: python3, GPU {rank}" in here
    assert len(said) == len({e["pid"] for e in new if e["ph"] in "Xi"})

    processor.open(export(lapwing, folder, tmp_path / "x.pftrace").read_bytes())
    assert processor.query(PROBLEMS) == []
    rows = processor.query("select count(*) as n from slice")
    assert rows == [{"n": sum(e["ph"] in "Xi" for e in old)}]
    found = processor.query("select name from process where name like 'rank %'")
    assert sorted(r["name"] for r in found) == sorted(said.values())


def test_each_step_is_a_file_with_what_was_running_in_it(
    lapwing: str, tmp_path: Path, processor: TraceProcessor
) -> None:
    path = trace(STEPS)
    events = [e for e in decimals(path)["traceEvents"] if e["ph"] == "X"]
    export(lapwing, path, tmp_path / "x.trace.json", "--split", "step")
    steps = {
        int(e["name"].partition("#")[2]): e
        for e in events
        if e["name"].startswith("ProfilerStep#")
    }
    assert {p.name for p in tmp_path.iterdir()} == {
        f"x.step{number}.trace.json" for number in steps
    }
    calls = {
        e["args"]["correlation"]: e
        for e in events
        if e.get("cat") == "Runtime" and e["args"].get("correlation")
    }
    for number, step in steps.items():
        start, end = step["ts"], step["ts"] + step["dur"]

        def is_in(event: Event, start: Decimal = start, end: Decimal = end) -> bool:
            return bool(
                start <= event["ts"] < end
                or event["ts"] < start < event["ts"] + event["dur"]
            )

        wanted = []
        for event in events:
            call = None
            if event.get("cat") in {"Kernel", "Memcpy", "Memset"}:
                call = calls.get(event["args"]["correlation"])
            if is_in(event) or (call and is_in(call)):
                wanted.append(event)
        name = tmp_path / f"x.step{number}.trace.json"
        assert spans(decimals(name)["traceEvents"]) == spans(wanted)
    first = min(steps)
    path = export(lapwing, trace(STEPS), tmp_path / "x.pftrace", "--split", "step")
    processor.open((tmp_path / f"x.step{first}.pftrace").read_bytes())
    assert processor.query(PROBLEMS) == []
    steps_there = processor.query("select name from slice where name like 'Profiler%'")
    assert [r["name"] for r in steps_there] == [f"ProfilerStep#{first}"]


def test_a_trace_without_steps_cannot_be_split(lapwing: str, tmp_path: Path) -> None:
    words = ["-o", str(tmp_path / "x.trace.json"), "--split", "step"]
    command = [lapwing, "export", str(trace(TRACES["large integers"])), *words]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert "there are no steps" in done.stderr
    assert list(tmp_path.iterdir()) == []
