"""The critical path of real traces, beside Holistic Trace Analysis's."""

from __future__ import annotations

import re
import subprocess
from collections import Counter, defaultdict
from typing import Any, NamedTuple

import pytest
import traces

ALEXNET = "[param|pytorch.model.alex_net|0|0|0|measure|forward]@1"
STEP = "ProfilerStep@1"
# By name of the reference: the trace, and which annotation and instance of it HTA was
# asked for.
CASES = {
    "amd_mi250": ("hta/amd_trace/*", STEP),
    "cp_alexnet": ("hta/critical_path/alexnet/*", ALEXNET),
    "cp_event_sync": ("hta/critical_path/cuda_event_sync/*", "ProfilerStep@0"),
    "cp_simple_add": ("hta/critical_path/simple_add/*", ALEXNET),
    "df_index_resolver": ("hta/df_index_resolver/*", STEP),
    "nccl_data": ("hta/nccl_parser_config/*", STEP),
    "negative_queue": ("hta/negative_queue_length_values_check/*", STEP),
    "ns_resolution": ("hta/ns_resolution_trace/*", STEP),
    "param_dlrm_8rank": ("param/dlrm_kineto/worker0_*", "ProfilerStep@0"),
    "tl_h100_qwen": ("tracelens/traces/h100/*", STEP),
}
RESNET = "kineto_tb_plugin/samples/resnet50_num_workers_0/*"
# The reference has the first so many rows of a path; which ones is by chance.
ROWS_OF_REFERENCE = 5000


class Piece(NamedTuple):
    """An edge of a path: how HTA calls its kind, its event's name, its time in us."""

    kind: str
    name: str
    us: int


def as_hta(lapwing: str, name: str, by: str) -> list[dict[str, Any]]:
    pattern, span = CASES[name]
    options = ["--by", by, "--compat", "hta", "--range", span]
    table = traces.report(lapwing, traces.trace(pattern), "critical", *options)
    rows: list[dict[str, Any]] = table["rows"]
    return rows


def test_every_path_of_hta_is_compared() -> None:
    found = traces.trace("reference").glob("htagit/*/critical_path.csv")
    assert sorted(path.parent.name for path in found) == sorted(CASES)


@pytest.mark.parametrize("name", CASES)
def test_what_bounds_the_path_is_as_hta_has_it(lapwing: str, name: str) -> None:
    rows = traces.reference("htagit", name, "critical_path_bound_by.csv")
    theirs = {row["bound_by"]: float(row["duration"]) for row in rows}
    assert theirs.pop("", 0) == 0  # dependencies take no time
    ours = as_hta(lapwing, name, "bound")
    assert {row["bound"]: row["time_ns"] / 1000 for row in ours} == theirs
    summary = traces.trace(f"reference/htagit/{name}/critical_path_summary.txt")
    shares = dict(re.findall(r"^(\w+) +([0-9.]+)$", summary.read_text(), re.MULTILINE))
    assert {row["bound"] for row in ours} == set(shares)
    for row in ours:
        assert abs(row["share"] * 100 - float(shares[row["bound"]])) < 1e-6


@pytest.mark.parametrize("name", CASES)
def test_the_path_has_the_events_of_htas(lapwing: str, name: str) -> None:
    """Every piece of HTA's path, as far as the reference lists them, is one of ours."""
    events = traces.raw(traces.trace(CASES[name][0]))
    rows = traces.reference("htagit", name, "critical_path.csv")
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
    folder = traces.trace("hta/critical_path/end_to_end/simple_add")
    path = folder / "input/trace.json.gz"
    theirs = {
        (event["name"], event["ts"])
        for event in traces.raw(folder / "output/overlaid_critical_path_trace.json.gz")
        if event.get("ph") == "X" and event["args"].get("critical") == 1
    }
    begin = min(time for _, time in theirs)
    of_point = defaultdict(set)
    for event in traces.raw(path):
        if event.get("ph") == "X":
            for time in (event["ts"], event["ts"] + event["dur"]):
                of_point[event["name"], time].add((event["name"], event["ts"]))
    options = ["--by", "event", "--compat", "hta"]
    rows = traces.report(lapwing, path, "critical", *options)["rows"]
    ours = set()
    for row, after in zip(rows, rows[1:], strict=False):
        ours |= of_point[row["to"], begin + after["start_ns"] // 1000]
    assert ours == theirs


@pytest.mark.parametrize("workers", [0, 4])
def test_where_hta_fails_we_say_so(lapwing: str, workers: int) -> None:
    """Bug 10: "Could not find runtime index" on traces of torch before 1.13."""
    path = traces.trace(f"kineto_tb_plugin/samples/resnet50_num_workers_{workers}/*")
    words = [lapwing, "report", path, "critical", "--compat", "hta"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 1
    assert "Holistic Trace Analysis finds no path here" in done.stderr
    assert traces.report(lapwing, path, "critical")["rows"]


@pytest.mark.parametrize("pattern", [RESNET, *(case[0] for case in CASES.values())])
def test_our_own_path_goes_through_time_without_a_break(
    lapwing: str, pattern: str
) -> None:
    """Each piece starts where the one before ended, or leads on at no cost."""
    path = traces.trace(pattern)
    rows = traces.report(lapwing, path, "critical", "--by", "event")["rows"]
    assert rows[0]["start_ns"] == 0
    for row, after in zip(rows, rows[1:], strict=False):
        assert row["time_ns"] >= 0
        if row["time_ns"] > 0:
            assert after["start_ns"] == row["start_ns"] + row["time_ns"]
        assert after["start_ns"] >= row["start_ns"]


def test_what_bounds_our_own_path_is_what_is_known_of_the_run(lapwing: str) -> None:
    """A DataLoader without workers; ranks that wait for each other; a fast GPU."""

    def bounds(pattern: str) -> dict[str, float]:
        path = traces.trace(pattern)
        rows = traces.report(lapwing, path, "critical", "--by", "bound")["rows"]
        assert abs(sum(row["share"] for row in rows) - 1) < 1e-9
        return {row["bound"]: row["share"] for row in rows}

    assert bounds(RESNET)["data loading"] > 0.3
    assert bounds("tracelens/traces/mi300/*")["GPU communication"] > 0.8
    assert bounds("tracelens/traces/h100/*")["GPU computation"] > 0.8
    assert set(bounds("torch213_cpu/all.pt.trace.json")) == {"host", "data loading"}
