"""Timelines that we write are read by Perfetto's trace_processor and by catapult, the
reader of chrome://tracing, and hold every span and counter of the recording.
"""

from __future__ import annotations

import collections
import json
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from exports import ROOT, export, span_name, whole
from playwright.sync_api import Browser, Page
from trace_processor import TraceProcessor, import_by_catapult

LAID_OUT = "not in order"  # in the name of a track that is drawn from sums

# Of every slice and what it lies on: tracks of threads have no name of their own.
SLICES = """
    select slice.ts, slice.dur, slice.name, slice.depth, thread.tid,
           coalesce(track.name, '') as track, coalesce(thread.name, '') as thread
    from slice
    join track on slice.track_id = track.id
    left join thread_track on slice.track_id = thread_track.id
    left join thread using (utid)
"""
COUNTERS = """
    select counter.ts, counter.value, track.name, process.pid
    from counter
    join process_counter_track as track on counter.track_id = track.id
    join process using (upid)
"""
PROBLEMS = """
    select name, value from stats
    where severity in ('error', 'data_loss') and value > 0
"""


@pytest.fixture(scope="module")
def processor(browser: Browser) -> Iterator[TraceProcessor]:
    context = browser.new_context()
    yield TraceProcessor(context.new_page())
    context.close()


def spans_of(document: dict[str, Any]) -> list[tuple[int, int, str]]:
    """Every span: start, duration, name."""
    return sorted(
        (span["start_ns"], span["duration_ns"], span_name(document, span))
        for span in document["spans"]
    )


def assert_nested(spans: list[tuple[int, int]]) -> None:
    ends: list[int] = []
    for start, length in spans:
        while ends and ends[-1] <= start:
            ends.pop()
        assert not ends or start + length <= ends[-1]
        ends.append(start + length)


def tree_of(document: dict[str, Any], thread: int) -> Counter[tuple[str, int]]:
    """(function, total) of the boxes of a thread that is drawn from sums."""
    return Counter(
        (document["functions"][row["function"]]["name"], row["total_ns"])
        for row in document["tree"]
        if row["thread"] == thread
    )


def threads_without_calls(document: dict[str, Any]) -> set[int]:
    """The threads that are drawn from sums: none of their spans is a call."""
    called = {span["thread"] for span in document["spans"] if "function" in span}
    return {row["thread"] for row in document["tree"]} - called


def test_trace_processor_finds_every_span_and_counter(
    lapwing: str, story: Path, processor: TraceProcessor
) -> None:
    trace = export(lapwing, story, "perfetto").read_bytes()
    document = whole(lapwing, story)
    processor.open(trace)
    assert processor.query(PROBLEMS) == []
    slices = processor.query(SLICES)
    real = [row for row in slices if LAID_OUT not in row["track"]]
    assert sorted((r["ts"], r["dur"], r["name"]) for r in real) == spans_of(document)
    for row in real:
        assert row["thread"] or row["track"] == "overlapping spans"
    drawn: Counter[tuple[str, int]] = Counter()
    for thread in threads_without_calls(document):
        drawn += tree_of(document, thread)
    laid_out = Counter((r["name"], r["dur"]) for r in slices if LAID_OUT in r["track"])
    assert laid_out == drawn
    assert sorted(
        (row["ts"], row["value"], row["name"], row["pid"])
        for row in processor.query(COUNTERS)
    ) == sorted(
        (
            row["time_ns"],
            row["value"],
            row["name"],
            document["processes"][row["process"]]["pid"],
        )
        for row in document["counters"]
    )


def test_trace_processor_names_processes_and_threads(
    lapwing: str, story: Path, processor: TraceProcessor
) -> None:
    trace = export(lapwing, story, "perfetto").read_bytes()
    document = whole(lapwing, story)
    processor.open(trace)
    found = processor.query("select pid, name from process where pid > 0")
    assert {(row["pid"], row["name"]) for row in found} == {
        (row["pid"], row["command"]) for row in document["processes"]
    }
    found = processor.query("select tid, name from thread where tid > 0")
    assert {(row["tid"], row["name"]) for row in found} >= {
        (row["tid"], row["name"]) for row in document["threads"] if row["name"]
    }


def test_trace_processor_reads_the_trace_events_alike(
    lapwing: str, story: Path, processor: TraceProcessor
) -> None:
    path = export(lapwing, story, "chrome")
    origin = int(json.loads(path.read_text())["otherData"]["origin_ns"])
    document = whole(lapwing, story)
    processor.open(path.read_bytes())
    assert processor.query(PROBLEMS) == []
    slices = processor.query(SLICES)
    assert spans_of(document) == sorted(
        (row["ts"] + origin, row["dur"], row["name"])
        for row in slices
        if LAID_OUT not in row["thread"]
    )


def test_catapult_finds_every_span_and_counter(
    lapwing: str, story: Path, page: Page
) -> None:
    text = export(lapwing, story, "chrome").read_text()
    trace = json.loads(text)
    document = whole(lapwing, story)
    found = import_by_catapult(page, text)
    assert found["warnings"] == []
    events = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    first = min(event["ts"] for event in trace["traceEvents"] if "ts" in event)
    assert len(found["slices"]) == len(events)
    wanted = sorted(
        (e["pid"], e["tid"], e["name"], e["ts"] - first, e["dur"]) for e in events
    )
    got = sorted(
        (pid, tid, title, start * 1000, duration * 1000)
        for pid, tid, title, start, duration, _ in found["slices"]
    )
    for ours, theirs in zip(wanted, got, strict=True):
        assert theirs[:3] == ours[:3]
        assert theirs[3:] == pytest.approx(ours[3:], abs=1e-3)
    assert len(found["counters"]) == len(document["counters"])
    assert sorted(row[3] for row in found["counters"]) == sorted(
        row["value"] for row in document["counters"]
    )


def test_trace_events_keep_every_span_and_nest(lapwing: str, story: Path) -> None:
    trace = json.loads(export(lapwing, story, "chrome").read_text(), parse_float=str)
    document = json.loads(export(lapwing, story, "json", "out.json").read_text())

    def ns(text: str) -> int:
        whole, _, part = text.partition(".")
        return int(whole) * 1000 + int(part)

    tracks = collections.defaultdict(list)
    laid_out = set()
    for event in trace["traceEvents"]:
        track = (event["pid"], event.get("tid"))
        if event["ph"] == "X":
            tracks[track].append((ns(event["ts"]), ns(event["dur"])))
        elif event["ph"] == "M" and "not in order" in event["args"]["name"]:
            laid_out.add(track)
    spans = [
        s for track, list_ in tracks.items() if track not in laid_out for s in list_
    ]
    origin = int(trace["otherData"]["origin_ns"])
    assert sorted((start + origin, length) for start, length in spans) == sorted(
        (span["start_ns"], span["duration_ns"]) for span in document["spans"]
    )
    for events in tracks.values():
        assert_nested(sorted(events, key=lambda s: (s[0], -s[1])))
    counters = [e for e in trace["traceEvents"] if e["ph"] == "C"]
    assert len(counters) == len(document["counters"])


FLOWS = """
    select a.name as start, b.name as end, b.ts > a.ts as is_later,
           extract_arg(b.arg_set_id, 'KEY.called from') as line
    from flow
    join slice as a on flow.slice_out = a.id join slice as b on flow.slice_in = b.id
"""


KEYS = {"perfetto": "debug", "chrome": "args"}  # whose arguments


@pytest.mark.parametrize("form", KEYS)
def test_arrows_go_from_ops_to_their_backward_ops(
    lapwing: str, tmp_path: Path, processor: TraceProcessor, form: str
) -> None:
    make = ROOT / "tests" / "golden" / "report" / "make_run.py"
    subprocess.run(["python3", make, "backward", tmp_path / "x.lap"], check=True)
    processor.open(export(lapwing, tmp_path, form).read_bytes())
    assert processor.query(PROBLEMS) == []
    rows = processor.query(FLOWS.replace("KEY", KEYS[form]))
    assert all(row["is_later"] for row in rows)
    assert Counter((row["start"], row["end"], row["line"]) for row in rows) == {
        ("aten::addmm", "AddmmBackward0", "model.py:12(Net.forward)"): 4,
        ("aten::t", "TBackward0", "model.py:12(Net.forward)"): 4,
        ("aten::tanh", "TanhBackward0", "model.py:13(Net.forward)"): 4,
    }
