"""Two real traces compared: what changed, in numbers of a step.

What torch_tb_profiler 0.4.3's Diff page says of resnet50_num_workers_0 and _4 was asked
of it (diffrun.compare_op_tree on the threads with the steps, diff_summary); its numbers
are below, in us of all six steps. It sees no DataLoader there, since the classes of the
two iterators differ, and has its time among that of other nodes.
"""

from __future__ import annotations

import gzip
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import traces

SAMPLES = "kineto_tb_plugin/samples/resnet50_num_workers_"
STEPS = 6
# Name of a row by module, and before and after: host, device.
PLUGIN_SEGMENTS = {"Optimizer.step#SGD.step": (112987, 135719, 7883, 7874)}
# Name of an op: its own time on the device, before and after.
PLUGIN_OPS = {
    "aten::copy_": (11492, 18959),
    "aten::cudnn_convolution": (126619, 128683),
    "aten::cudnn_batch_norm": (34245, 34315),
    "aten::addmm": (197, 197),
}


def compare(lapwing: str, before: Path, after: Path, *words: str) -> dict[str, Any]:
    return traces.report(lapwing, "compare", before, after, *words)


def resnets() -> tuple[Path, Path]:
    return traces.trace(f"{SAMPLES}0"), traces.trace(f"{SAMPLES}4")


def all_rows(table: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    ahead = list(table["rows"])
    while ahead:
        row = ahead.pop()
        found.append(row)
        ahead += row.get("children", [])
    return found


@pytest.mark.parametrize("by", ["op", "module"])
def test_the_data_loader_is_what_changed(lapwing: str, by: str) -> None:
    table = compare(lapwing, *resnets(), "--by", by)
    first = table["rows"][0]
    assert first["name"] == "DataLoader"
    assert first["share"] > 0.5
    assert table["notes"][0].startswith("DataLoader changed most: ")
    for path, column in zip(resnets(), ["before", "after"], strict=True):
        (file,) = path.iterdir()
        loads = [
            event["dur"]
            for event in traces.raw(file)
            if event["name"].startswith("enumerate(DataLoader)#")
        ]
        assert len(loads) == STEPS
        assert first[f"host_{column}_ns"] == round(sum(loads) * 1000 / STEPS)
        assert first[f"calls_{column}"] == 1


def test_segments_and_ops_are_those_of_the_plugin(lapwing: str) -> None:
    modules = {
        row["name"]: row
        for row in compare(lapwing, *resnets(), "--by", "module")["rows"]
    }
    for name, expected in PLUGIN_SEGMENTS.items():
        columns = ["host_before", "host_after", "device_before", "device_after"]
        ours = [modules[name][f"{column}_ns"] * STEPS / 1000 for column in columns]
        assert ours == pytest.approx(list(expected), abs=0.01)
    ops = {row["name"]: row for row in compare(lapwing, *resnets())["rows"]}
    for name, times in PLUGIN_OPS.items():
        ours = [
            ops[name][f"device_{side}_ns"] * STEPS / 1000
            for side in ("before", "after")
        ]
        assert ours == pytest.approx(list(times), abs=0.01)
    assert modules["aten::conv2d"]["calls_before"] == 318 / STEPS


def test_kernels_add_up_to_all_that_steps_launched(lapwing: str) -> None:
    table = compare(lapwing, *resnets(), "--by", "kernel")
    for path, column in zip(resnets(), ["before", "after"], strict=True):
        (file,) = path.iterdir()
        events = traces.raw(file)
        steps = [
            (event["ts"], event["ts"] + event["dur"])
            for event in events
            if event["name"].startswith("ProfilerStep#")
        ]
        launches = {
            event["args"]["correlation"]
            for event in events
            if event.get("cat") == "Runtime"
            and any(start <= event["ts"] < end for start, end in steps)
        }
        launched = sum(
            event["dur"]
            for event in events
            if event.get("cat") in ("Kernel", "Memcpy", "Memset")
            and event["args"]["correlation"] in launches
        )
        ours = sum(row[f"device_{column}_ns"] or 0 for row in table["rows"])
        assert ours * STEPS / 1000 == pytest.approx(launched, rel=1e-6)


def test_what_is_in_one_trace_only_is_said(lapwing: str) -> None:
    rows = compare(lapwing, *resnets(), "--by", "kernel")["rows"]
    only = {row["only"] for row in rows}
    assert only == {None, "before", "after"}
    for row in rows:
        assert (row["device_before_ns"] is None) == (row["only"] == "after")
        assert (row["calls_after"] is None) == (row["only"] == "before")


def test_steps_are_those_of_the_overview(lapwing: str) -> None:
    *steps, mean = compare(lapwing, *resnets(), "--by", "step")["rows"]
    assert len(steps) == STEPS
    for path, column in zip(resnets(), ["before_ns", "after_ns"], strict=True):
        overview = traces.report(lapwing, path, "overview", "--by", "step")["rows"]
        assert [row[column] for row in steps] == [row["total_ns"] for row in overview]
        assert mean[column] == round(sum(row[column] for row in steps) / STEPS)


def test_a_trace_is_as_itself(lapwing: str) -> None:
    path = traces.trace(f"{SAMPLES}0")
    for by in "op", "module", "kernel":
        rows = all_rows(compare(lapwing, path, path, "--by", by))
        assert rows
        assert {row["host_change_ns"] for row in rows} <= {0, None}
        assert {row["device_change_ns"] for row in rows} == {0}
        assert {row["only"] for row in rows} == {None}


def test_modules_are_aligned_by_class_and_order(lapwing: str, tmp_path: Path) -> None:
    """A later model of one process has other numbers: Linear_7 was Linear_0."""
    path = traces.trace("tracelens/traces/h100/Qwen*.gz")
    text = gzip.decompress(path.read_bytes()).decode()
    renamed = re.sub(
        r'"nn\.Module: (\w+)_(\d+)"',
        lambda module: f'"nn.Module: {module[1]}_{int(module[2]) + 100}"',
        text,
    )
    assert renamed != text
    other = tmp_path / "other.json"
    other.write_text(renamed)
    rows = all_rows(compare(lapwing, path, other, "--by", "module"))
    modules = [row for row in rows if row["name"].startswith("nn.Module: ")]
    assert len(modules) > 200
    assert {row["only"] for row in rows} == {None}
    assert {row["host_change_ns"] for row in modules} == {0}


def test_what_is_slower_is_found_in_its_place(lapwing: str, tmp_path: Path) -> None:
    """In each step Linear_0 takes 300 us more, and what is behind it comes later."""
    path = traces.trace("torch213_cpu/stack.pt.trace.json")
    trace = json.loads(path.read_text())
    slow = [
        event
        for event in trace["traceEvents"]
        if event["name"] == "nn.Module: Linear_0"
    ]
    assert len(slow) == 3  # once a step
    for event in trace["traceEvents"]:
        later = sum(300 for module in slow if event.get("ts", 0) > module["ts"])
        contains = sum(
            300
            for module in slow
            if event.get("ts", 0) <= module["ts"]
            and event.get("ts", 0) + event.get("dur", 0) >= module["ts"] + module["dur"]
        )
        event["moved"] = (later, contains)
    for event in trace["traceEvents"]:
        later, contains = event.pop("moved")
        if "ts" in event:
            event["ts"] += later
        if "dur" in event and event["ph"] == "X":
            event["dur"] += contains
    other = tmp_path / "slow.pt.trace.json"
    other.write_text(json.dumps(trace))
    rows = compare(lapwing, path, other, "--by", "module")["rows"]
    names = []
    while rows:
        largest = max(rows, key=lambda row: abs(row["host_change_ns"]))
        assert largest is rows[0]
        assert largest["host_change_ns"] == pytest.approx(300_000, abs=2)
        names.append(largest["name"])
        rows = [row for row in largest.get("children", []) if row["host_change_ns"] > 2]
    assert names[-2:] == ["nn.Module: Net_0", "nn.Module: Linear_0"]


def test_folders_of_ranks_are_compared_rank_by_rank(
    lapwing: str, tmp_path: Path
) -> None:
    before = traces.trace("param/dlrm_kineto")
    after = tmp_path / "after"
    after.mkdir()
    for path in sorted(before.glob("*.json"))[:7]:
        shutil.copyfile(path, after / path.name)
    table = compare(lapwing, before, after, "--by", "rank")
    *ranks, together = table["rows"]
    assert [row["name"] for row in ranks] == [f"rank {rank}" for rank in range(8)]
    assert together["name"] == "mean of all ranks' steps"
    assert [row["change_ns"] for row in ranks] == [0] * 7 + [None]
    means = traces.report(lapwing, before, "ranks")["rows"]
    assert [row["before_ns"] for row in ranks] == [row["step_ns"] for row in means]
    assert together["before_ns"] == round(sum(row["step_ns"] for row in means) / 8)
    assert any("1 of 8 ranks is in one of the two only" in n for n in table["notes"])


def test_one_trace_is_not_two(lapwing: str) -> None:
    path = traces.trace(f"{SAMPLES}0")
    done = subprocess.run(
        [lapwing, "report", "compare", path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "takes two profiles" in done.stderr
