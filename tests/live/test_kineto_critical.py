"""The critical path of real traces, beside Holistic Trace Analysis's."""

from __future__ import annotations

import csv
import gzip
import json
import subprocess
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import traces

pytestmark = traces.needed

ALEXNET = "[param|pytorch.model.alex_net|0|0|0|measure|forward]@1"
# The annotation and instance that HTA was asked for, by name of the reference.
RANGES = {
    "amd_mi250": "ProfilerStep@1",
    "cp_alexnet": ALEXNET,
    "cp_event_sync": "ProfilerStep@0",
    "cp_simple_add": ALEXNET,
    "df_index_resolver": "ProfilerStep@1",
    "nccl_data": "ProfilerStep@1",
    "negative_queue": "ProfilerStep@1",
    "ns_resolution": "ProfilerStep@1",
    "param_dlrm_8rank": "ProfilerStep@0",
    "tl_h100_qwen": "ProfilerStep@1",
}
# The reference has the first so many rows of a path; which ones is by chance.
ROWS_OF_REFERENCE = 5000


class Piece(NamedTuple):
    """An edge of a path: how HTA calls its kind, its event's name, its time in us."""

    kind: str
    name: str
    us: int


def path_of(name: str) -> Path:
    """HTA was asked for rank 0."""
    return traces.path(name.replace("_8rank", "_rank0"))


def reference(name: str, file: str) -> list[dict[str, str]]:
    with (traces.REFERENCE / "htagit" / name / file).open(newline="") as lines:
        return list(csv.DictReader(lines))


def raw(path: Path) -> list[dict[str, Any]]:
    """The events of a trace, as they lie in the file."""
    data = path.read_bytes()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    events: list[dict[str, Any]] = json.loads(data)["traceEvents"]
    return events


def as_hta(lapwing: str, name: str, by: str) -> list[dict[str, Any]]:
    options = ["--by", by, "--compat", "hta", "--range", RANGES[name]]
    return traces.rows(lapwing, path_of(name), "critical", *options)


def test_every_path_of_hta_is_compared() -> None:
    assert sorted(RANGES) == traces.names("htagit", "critical_path.csv")


@pytest.mark.parametrize("name", RANGES)
def test_what_bounds_the_path_is_as_hta_has_it(lapwing: str, name: str) -> None:
    rows = reference(name, "critical_path_bound_by.csv")
    theirs = {row["bound_by"]: float(row["duration"]) for row in rows}
    assert theirs.pop("", 0) == 0  # dependencies take no time
    ours = as_hta(lapwing, name, "bound")
    assert {row["bound"]: row["time_ns"] / 1000 for row in ours} == theirs
    summary = (
        traces.REFERENCE / "htagit" / name / "critical_path_summary.txt"
    ).read_text()
    for row in ours:
        (line,) = (
            line for line in summary.split("\n") if line.startswith(row["bound"])
        )
        assert abs(row["share"] * 100 - float(line.split()[1])) < 1e-6


@pytest.mark.parametrize("name", RANGES)
def test_the_path_has_the_events_of_htas(lapwing: str, name: str) -> None:
    """Every piece of HTA's path, as far as the reference lists them, is one of ours."""
    events = raw(path_of(name))
    rows = reference(name, "critical_path.csv")
    theirs = Counter(
        Piece(
            row["type"],
            events[int(float(row["event_idx"]))]["name"] if row["event_idx"] else "",
            int(float(row["duration"])),
        )
        for row in rows
    )
    ours = Counter(
        Piece(row["kind"], row["name"] or "", row["time_ns"] // 1000)
        for row in as_hta(lapwing, name, "event")
    )
    assert not theirs - ours
    if len(rows) < ROWS_OF_REFERENCE:
        assert ours == theirs


def test_the_events_that_hta_marks_are_on_our_path(lapwing: str) -> None:
    """HTA's own golden file: the trace again, with its critical events marked."""
    folder = traces.FOLDER / "hta/critical_path/end_to_end/simple_add"
    path = folder / "input/trace.json.gz"
    theirs = {
        (event["name"], event["ts"])
        for event in raw(folder / "output/overlaid_critical_path_trace.json.gz")
        if event.get("ph") == "X" and event["args"].get("critical") == 1
    }
    begin = min(time for _, time in theirs)
    of_point = defaultdict(set)
    for event in raw(path):
        if event.get("ph") == "X":
            for time in (event["ts"], event["ts"] + event["dur"]):
                of_point[event["name"], time].add((event["name"], event["ts"]))
    rows = traces.rows(lapwing, path, "critical", "--by", "event", "--compat", "hta")
    ours = set()
    for row, after in zip(rows, rows[1:], strict=False):
        ours |= of_point[row["to"], begin + after["start_ns"] // 1000]
    assert ours == theirs


@pytest.mark.parametrize("name", ["resnet50_nw0_span1", "resnet50_nw4_span1"])
def test_where_hta_fails_we_say_so(lapwing: str, name: str) -> None:
    """Bug 10: "Could not find runtime index" on traces of torch before 1.13."""
    words = [lapwing, "report", traces.path(name), "critical", "--compat", "hta"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 1
    assert "Holistic Trace Analysis finds no path here" in done.stderr
    assert traces.rows(lapwing, traces.path(name), "critical")


@pytest.mark.parametrize("name", [*RANGES, "resnet50_nw0_span1"])
def test_our_own_path_goes_through_time_without_a_break(
    lapwing: str, name: str
) -> None:
    """Each piece starts where the one before ended, or leads on at no cost."""
    rows = traces.rows(lapwing, path_of(name), "critical", "--by", "event")
    assert rows[0]["start_ns"] == 0
    for row, after in zip(rows, rows[1:], strict=False):
        assert row["time_ns"] >= 0
        if row["time_ns"] > 0:
            assert after["start_ns"] == row["start_ns"] + row["time_ns"]
        assert after["start_ns"] >= row["start_ns"]
