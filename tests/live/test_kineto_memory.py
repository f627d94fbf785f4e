"""The view memory beside torch_tb_profiler's own answers, torch's own categories, and
snapshots that Python itself can open."""

from __future__ import annotations

import collections
import gzip
import json
import pickle
import subprocess
import sys
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
            for device, rows in reference(version, name, "memory_stats.json")[
                "rows"
            ].items()
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


def replay(snapshot: dict[str, Any]) -> tuple[int, int, dict[int, int]]:
    """The peak of device 0's trace, what was there before it, and what is alive."""
    events = [
        (entry["action"], entry["addr"], entry["size"])
        for entry in snapshot["device_traces"][0]
        if entry["action"] in ("alloc", "free_completed")
    ]
    alive = {
        block["address"]: block["size"]
        for segment in snapshot["segments"]
        for block in segment["blocks"]
        if block["state"] != "inactive"
    }
    # The trace has what was asked for. A block that was given may be larger.
    last = {address: i for i, (_, address, _) in enumerate(events)}
    for address, i in last.items():
        act, _, size = events[i]
        if act == "alloc" and address in alive:
            events[i] = (act, address, max(size, alive[address]))
    now = sum(alive.values())
    before = now - sum(size if act == "alloc" else -size for act, _, size in events)
    peak = now = before
    for act, _, size in events:
        now += size if act == "alloc" else -size
        peak = max(peak, now)
    return peak, before, alive


class TestSnapshot:
    def test_a_real_one_is_what_python_sees_in_it(self, lapwing: str) -> None:
        path = trace("memory_snapshots/bcrafton_memory_snapshot.pickle")
        truth = json.loads(path.with_suffix(".pickle.ref.json").read_text())
        snapshot = pickle.loads(path.read_bytes())
        peak, before, alive = replay(snapshot)
        (device,) = ask(lapwing, path, "--by", "device")
        assert device["end_bytes"] == truth["active"] == sum(alive.values())
        assert device["end_reserved_bytes"] == truth["reserved"]
        assert device["allocations"] == truth["actions"]["alloc"]
        assert device["frees"] == truth["actions"]["free_completed"]
        assert (device["peak_bytes"], device["start_bytes"]) == (peak, before)
        holders = ask(lapwing, path, "--by", "peak")
        assert sum(row["bytes"] for row in holders) == peak
        askers = ask(lapwing, path)
        assert sum(row["alive_bytes"] for row in askers) == truth["active"]
        assert sum(row["alive_blocks"] for row in askers) == len(alive)
        rows = report(lapwing, path, "memory", "--by", "segment")["rows"]
        assert len(rows) == truth["segments"]
        assert sum(row["bytes"] for row in rows) == truth["reserved"]
        assert sum(len(row["children"]) for row in rows) == truth["blocks"]

    def test_who_holds_memory_is_told_from_its_stack(self, lapwing: str) -> None:
        path = trace("memory_snapshots/bcrafton_memory_snapshot.pickle")
        held = {(row["op"], row["place"]): row for row in ask(lapwing, path)}
        snapshot = pickle.loads(path.read_bytes())
        for line in (74, 75):
            file = "/home/brian/Desktop/assignment2-systems/cs336_basics/optimizer.py"
            blocks = [
                block["size"]
                for segment in snapshot["segments"]
                for block in segment["blocks"]
                if block["state"] != "inactive"
                and next((f for f in block["frames"] if f["filename"][-3:] == ".py"), 0)
                == {"name": "step", "filename": file, "line": line}
            ]
            row = held["aten::add_Tensor", f"{file}({line}): step"]
            assert (row["alive_blocks"], row["alive_bytes"]) == (
                len(blocks),
                sum(blocks),
            )

    @pytest.mark.parametrize("protocol", [2, 3, 4, 5])
    def test_every_protocol_of_pickle(
        self, lapwing: str, protocol: int, tmp_path: Path
    ) -> None:
        snapshot = made_snapshot()
        path = tmp_path / f"{protocol}.pickle"
        path.write_bytes(pickle.dumps(snapshot, protocol))
        peak, before, alive = replay(snapshot)
        (device,) = ask(lapwing, path, "--by", "device")
        assert device["peak_bytes"] == peak
        assert device["start_bytes"] == before
        assert device["end_bytes"] == sum(alive.values())
        assert device["peak_reserved_bytes"] == 3 * 2**40
        events = ask(lapwing, path, "--by", "event")
        assert len(events) == 3002
        assert {row["place"] for row in events} == {None, "/w/train.py(7): step \u00e9"}
        path.write_bytes(gzip.compress(path.read_bytes()))
        assert ask(lapwing, path, "--by", "device")[0]["peak_bytes"] == peak

    def test_nothing_in_it_is_executed(self, lapwing: str, tmp_path: Path) -> None:
        class Evil:
            def __reduce__(self) -> tuple[Any, ...]:
                return Path.touch, (tmp_path / "executed",)

        path = tmp_path / "evil.pickle"
        path.write_bytes(pickle.dumps({"segments": [Evil()]}))
        done = subprocess.run(
            [lapwing, "report", path, "memory"], capture_output=True, text=True
        )
        assert done.returncode == 1
        assert "would have to be executed to be read" in done.stderr
        assert not (tmp_path / "executed").exists()


def made_snapshot() -> dict[str, Any]:
    """Addresses and sizes beyond 32 bits, more than one batch of a list, one list of
    frames for all."""
    frames = [
        {"name": "at::native::empty(int)", "filename": "??", "line": 0},
        {"name": "step \u00e9", "filename": "/w/train.py", "line": 7},
    ]
    base = 0x7F0000000000
    blocks = [
        {"address": base, "size": 2**40, "requested_size": 2**40 - 1, "frames": []},
        {"address": base + 2**40, "size": 2**41, "requested_size": 0, "frames": frames},
    ]
    for block, state in zip(blocks, ["active_allocated", "inactive"], strict=True):
        block["state"] = state
    trace = [
        {"action": "free_completed", "addr": base + 2**42, "size": 512, "time_us": 1}
    ]
    for i in range(3000):
        entry = {"addr": base + 2**41 + i, "size": i + 1, "frames": frames}
        trace.append({"action": "alloc", "time_us": 10 + i, **entry})
    for i in range(3000):
        entry = {"addr": base + 2**41 + i, "size": i + 1, "frames": frames}
        trace.append({"action": "free_requested", "time_us": 4000 + i, **entry})
        trace.append({"action": "free_completed", "time_us": 4000 + i, **entry})
    segment = {
        "device": 0,
        "address": base,
        "total_size": 3 * 2**40,
        "active_size": 2**40,
        "requested_size": 2**40 - 1,
        "stream": 0,
        "segment_type": "large",
        "segment_pool_id": (0, 0),
        "blocks": blocks,
        "frames": [],
    }
    return {"segments": [segment], "device_traces": [trace], "allocator_settings": {}}


TORCH_CATEGORIES = [
    "parameter",
    "optimizer state",
    "input",
    "temporary",
    "activation",
    "gradient",
    "autograd detail",
    "unknown",
]


def timeline_sums(path: Path) -> tuple[dict[str, int], dict[str, int], int]:
    """Of a raw timeline: each category at the peak and at its most, and the peak."""
    now: dict[str, int] = collections.defaultdict(int)
    most: dict[str, int] = collections.defaultdict(int)
    total, peak, at_peak = 0, -1, {}
    for _, _, size, category in json.loads(gzip.decompress(path.read_bytes())):
        name = TORCH_CATEGORIES[category]
        now[name] += size
        total += size
        most[name] = max(most[name], now[name])
        if total > peak:
            peak, at_peak = total, dict(now)
    return at_peak, most, peak


class TestCategories:
    @pytest.mark.parametrize(
        "name",
        [
            "torch213_cpu/memory_timeline.raw.json.gz",
            "hta/memory_analysis/memory_timeline.raw.gz",
        ],
    )
    def test_a_timeline_is_told_exactly(self, lapwing: str, name: str) -> None:
        at_peak, most, peak = timeline_sums(trace(name))
        rows = {row["category"]: row for row in ask(lapwing, trace(name))}
        assert {key: row["most_bytes"] for key, row in rows.items()} == {
            key: value for key, value in most.items() if value > 0
        }
        for key, row in rows.items():
            assert row["peak_bytes"] == at_peak.get(key, 0)
        (device,) = ask(lapwing, trace(name), "--by", "device")
        assert device["peak_bytes"] == peak

    def test_both_forms_of_a_timeline_agree(self, lapwing: str) -> None:
        raw_rows = ask(lapwing, trace("torch213_cpu/memory_timeline.raw.json.gz"))
        json_rows = ask(lapwing, trace("torch213_cpu/memory_timeline.json"))
        ends = {row["category"]: row["end_bytes"] for row in raw_rows}
        assert {row["category"]: row["end_bytes"] for row in json_rows} == ends
        times, sizes = json.loads(
            trace("torch213_cpu/memory_timeline.json").read_text()
        )
        (device,) = ask(
            lapwing, trace("torch213_cpu/memory_timeline.json"), "--by", "device"
        )
        assert device["peak_bytes"] == max(map(sum, sizes))
        assert device["end_bytes"] == sum(sizes[-1])
        assert device["allocations"] is None
        curve = ask(
            lapwing, trace("torch213_cpu/memory_timeline.json"), "--by", "curve"
        )
        assert curve[-1]["time_ns"] == (times[-1] - times[0]) * 1000

    def test_of_a_trace_they_are_torchs_own(self, lapwing: str) -> None:
        """Every allocation is in the timeline of the same run, to the byte and ns. What
        was allocated and freed in Optimizer.step torch tells by data flow instead: for
        us it is temporary, whatever it was computed from."""
        path = trace("torch213_cpu/all.pt.trace.json")
        timeline = trace("torch213_cpu/memory_timeline.raw.json.gz")
        compare_with_torch(lapwing, path, timeline)

    def test_of_a_fresh_run_they_are_torchs_own(
        self, lapwing: str, tmp_path: Path
    ) -> None:
        """With the first step in it, in which the optimizer makes its state."""
        pytest.importorskip("torch", reason="no torch in this environment")
        subprocess.run([sys.executable, "-c", TRAIN], cwd=tmp_path, check=True)
        told = compare_with_torch(
            lapwing, tmp_path / "t.json", tmp_path / "timeline.raw.json.gz"
        )
        assert told["optimizer state"] > 0 and told["gradient"] > 0


# A model, data and optimizer unlike those of torch213_cpu.
TRAIN = """
import warnings
import torch
from torch.profiler import ProfilerActivity, profile
warnings.filterwarnings("ignore")
torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Sequential(
    torch.nn.Embedding(50, 24), torch.nn.LSTM(24, 32), )
head = torch.nn.Linear(32, 5)
data = torch.utils.data.TensorDataset(
    torch.randint(0, 50, (24, 7)), torch.randint(0, 5, (24,)))
parameters = [*model.parameters(), *head.parameters()]
optimizer = torch.optim.SGD(parameters, 0.1, momentum=0.9)
with profile(activities=[ProfilerActivity.CPU], record_shapes=True,
             profile_memory=True, with_stack=True) as p:
    for x, y in torch.utils.data.DataLoader(data, batch_size=8):
        hidden, _ = model(x)
        torch.nn.functional.cross_entropy(head(hidden[:, -1]), y).backward()
        optimizer.step()
        optimizer.zero_grad()
p.export_chrome_trace("t.json")
p.export_memory_timeline("timeline.raw.json.gz", device="cpu")
"""


def compare_with_torch(
    lapwing: str, path: Path, timeline: Path
) -> collections.Counter[str]:
    """Each allocation's category beside torch's; how many there are of ours."""
    base_ns = json.loads(path.read_text())["baseTimeNanoseconds"]
    created: dict[tuple[int, int], list[str]] = collections.defaultdict(list)
    for time_ns, action, size, category in json.loads(
        gzip.decompress(timeline.read_bytes())
    ):
        if action == 2:
            created[size, time_ns].append(TORCH_CATEGORIES[category])
    start_ns = min(round(e["ts"] * 1000) for e in raw(path) if e.get("ph") in "Xi")
    optimizers = [
        (round(e["ts"] * 1000), round((e["ts"] + e["dur"]) * 1000))
        for e in raw(path)
        if e["name"].startswith("Optimizer.step")
    ]
    ours: collections.Counter[str] = collections.Counter()
    for row in ask(lapwing, path, "--by", "event"):
        if row["allocated_ns"] is None or row["device"] != "CPU":
            continue
        time_ns = row["allocated_ns"] + start_ns + base_ns
        theirs = next(
            (
                created[row["bytes"], time_ns + off].pop()
                for off in (0, 1, -1)
                if created[row["bytes"], time_ns + off]
            ),
            None,
        )
        mine = row["category"]
        ours[mine] += 1
        if mine == "activation":
            # torch goes by data flow: what depends on no parameter is input to it.
            assert theirs in ("activation", "input"), row
        elif mine not in ("unknown", "temporary"):
            assert theirs == mine, row
        elif mine == "temporary" and not any(
            start <= time_ns - base_ns < end for start, end in optimizers
        ):
            assert theirs in ("temporary", "unknown"), row
    return ours
