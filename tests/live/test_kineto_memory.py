"""The view memory beside torch_tb_profiler's own answers, torch's own categories, and
snapshots that Python itself can open."""

from __future__ import annotations

import collections
from pathlib import Path
from typing import Any

import pytest
from traces import raw, reference, report, trace

NAMES = {
    "hta_df_index_resolver": "hta/df_index_resolver/df_index_resolver.json.gz",
    "resnet50_nw0_span1": "kineto_tb_plugin/samples/resnet50_num_workers_0/*.gz",
    "resnet50_nw4_span1": "kineto_tb_plugin/samples/resnet50_num_workers_4/*.gz",
    "tl_h100_qwen": "tracelens/traces/h100/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz",
}
KB = 1024

Row = dict[str, Any]


def ask(lapwing: str, path: Path, *words: str) -> list[Row]:
    rows: list[Row] = report(lapwing, path, "memory", *words)["rows"]
    return rows


@pytest.mark.parametrize("version", ["tb", "tbgit"])
@pytest.mark.parametrize("name", NAMES)
class TestPlugin:
    """Every number that torch_tb_profiler has of memory."""

    def test_what_each_op_took(self, lapwing: str, name: str, version: str) -> None:
        theirs = {
            (device, row[0]): row[1:]
            for device, rows in reference(version, name, "memory_stats.json")["rows"].items()
            for row in rows
        }
        ours = {
            (row["device"], row["op"]): [
                row["calls"],
                row["increase_bytes"] / KB,
                row["self_increase_bytes"] / KB,
                row["allocations"],
                row["self_allocations"],
                row["allocated_bytes"] / KB,
                row["self_allocated_bytes"] / KB,
            ]
            for row in ask(lapwing, trace(NAMES[name]), "--compat", "tb")
        }
        assert ours.keys() == theirs.keys() and len(ours) > 20
        for key, values in theirs.items():
            for mine, value in zip(ours[key], values, strict=True):
                assert mine == pytest.approx(value, abs=0.00501), key

    def test_peaks(self, lapwing: str, name: str, version: str) -> None:
        kinds = {"<DeviceType.CPU: 0>": "CPU", "<DeviceType.CUDA: 1>": "GPU"}
        theirs = {}
        for key, peak in reference(version, name, "memory_peaks.json").items():
            kind, number = key.strip("()").split(", ")
            theirs[kinds[kind] + (number if number != "-1" else "")] = peak
        curve = ask(lapwing, trace(NAMES[name]), "--compat", "tb", "--by", "curve")
        ours: dict[str, int] = collections.defaultdict(int)
        for row in curve:
            ours[row["device"]] = max(ours[row["device"]], row["allocated_bytes"])
        assert dict(ours) == theirs
        if theirs:
            devices = ask(lapwing, trace(NAMES[name]), "--by", "device")
            assert {row["device"]: row["peak_bytes"] for row in devices} == theirs

    def test_the_curve_begins_when_theirs_does(
        self, lapwing: str, name: str, version: str
    ) -> None:
        meta = reference(version, name, "memory_curve_meta.json")
        path = trace(NAMES[name])
        times = [
            round(event["ts"] * 1000)
            for event in raw(path)
            if event["name"] == "[memory]" and "Addr" in event["args"]
        ]
        rows = ask(lapwing, path, "--compat", "tb", "--by", "curve")
        assert sorted({row["device"] for row in rows}) == meta["devices"]
        assert len(rows) == len(times)
        first_ns = round(meta["first_ts"] * 1000)
        ours = sorted(row["time_ns"] for row in rows)
        for mine, time_ns in zip(ours, sorted(times), strict=True):
            assert mine == pytest.approx(time_ns - first_ns, abs=300)

    def test_events(self, lapwing: str, name: str, version: str) -> None:
        rows = ask(lapwing, trace(NAMES[name]), "--compat", "tb", "--by", "event")
        for device, theirs in reference(version, name, "memory_events_head.json")[
            "rows"
        ].items():
            ours = [row for row in rows if row["device"] == device]
            assert len(ours) >= len(theirs) > 0
            for mine, their in zip(ours, theirs, strict=False):
                assert mine["op"] == their[0]
                assert mine["bytes"] / KB == pytest.approx(their[1], abs=0.005)
                times = [mine["allocated_ns"], mine["released_ns"], mine["duration_ns"]]
                for time_ns, value in zip(times, their[2:], strict=True):
                    if value is None:
                        assert time_ns is None
                    else:
                        assert time_ns / 1e6 == pytest.approx(value, abs=0.0051)
