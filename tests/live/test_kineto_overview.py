"""`report overview` and `report kernels` on real traces, number by number with what
torch_tb_profiler and Holistic Trace Analysis said of them.

Bugs are the peers', by their numbers in shared/research/torch_ecosystem.md, 0.1.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from traces import OF_HTA, SAMPLES, raw, reference, report, trace

# The traces of which torch_tb_profiler's answers are in the reference.
OF_TB = {
    "gpu_metrics_input": "kineto_tb_plugin/test/gpu_metrics_input.json",
    "hta_amd_mi250": "hta/amd_trace/*",
    "hta_df_index_resolver": "hta/df_index_resolver/*",
    "hta_nccl_data": "hta/nccl_parser_config/*",
    "hta_negative_queue": "hta/negative_queue_length_values_check/*",
    "hta_ns_resolution": "hta/ns_resolution_trace/*",
    "param_dlrm_rank0": "param/dlrm_kineto/worker0_*",
    "resnet50_nw0_span1": f"{SAMPLES}/resnet50_num_workers_0/*",
    "resnet50_nw4_span1": f"{SAMPLES}/resnet50_num_workers_4/*",
    "tl_h100_qwen": "tracelens/traces/h100/*",
    "tl_mi300_resnet_ckpt": "tracelens/traces/mi300/*",
}

ROLES = {
    "Kernel": "kernel_ns",
    "Memcpy": "memcpy_ns",
    "Memset": "memset_ns",
    "Communication": "communication_ns",
    "Runtime": "runtime_ns",
    "DataLoader": "dataloader_ns",
    "CpuOp": "cpu_ns",
    "Other": "other_ns",
    "Total": "total_ns",
}


def rows(lapwing: str, path: Path, *words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = report(lapwing, path, *words)["rows"]
    return found


def same_us(ns: float | None, us: float, lost: float = 0.005) -> bool:
    """Within 0.1 %, or what doubles of µs lose: a ns at each end of a few intervals."""
    return abs((ns or 0) / 1000 - us) <= max(us * 0.001, lost)


@pytest.mark.parametrize("name", OF_TB)
def test_steps_are_those_of_the_plugin(lapwing: str, name: str) -> None:
    theirs = reference("tbgit", name, "overview.json")
    path = trace(OF_TB[name])
    ours = rows(lapwing, path, "overview", "--compat", "tb", "--by", "step")
    assert [row["step"] for row in ours] == [step["step"] for step in theirs["steps"]]
    for row, step in zip(ours, theirs["steps"], strict=True):
        for role, column in ROLES.items():
            assert same_us(row[column], step[role]), (step["step"], role)


@pytest.mark.parametrize("name", OF_TB)
def test_means_are_those_of_the_plugin(lapwing: str, name: str) -> None:
    theirs = reference("tbgit", name, "overview.json")
    found = rows(lapwing, trace(OF_TB[name]), "overview", "--compat", "tb")
    ours = {row["category"]: row for row in found}
    titles = {"CpuOp": "CPU", "Total": "Step"}
    for role in ROLES:
        row = ours.get(titles.get(role, role))
        assert same_us(row and row["mean_ns"], theirs["avg"][role]), role
    for child in theirs["performance"][0]["children"]:
        row = ours.get(child["name"].removesuffix(" Exec"))
        assert row or child["value"] == 0  # nothing of the kind was recorded
        if row:
            assert row["mean_ns"] / 1000 == pytest.approx(child["value"], abs=0.501)
            assert row["share"] * 100 == pytest.approx(child["extra"], abs=0.0051)


@pytest.mark.parametrize("name", OF_TB)
def test_gpus_are_used_as_the_plugin_says(lapwing: str, name: str) -> None:
    theirs = reference("tbgit", name, "overview.json")
    path = trace(OF_TB[name])
    ours = rows(lapwing, path, "overview", "--compat", "tb", "--by", "device")
    assert [str(row["gpu"]) for row in ours] == list(theirs["gpu_utilization"])
    for row in ours:
        gpu = str(row["gpu"])
        for column, key, scale in (
            ("busy_share", "gpu_utilization", 1),
            ("sm_share", "est_sm_efficiency", 1),
            ("occupancy_share", "est_occupancy", 100),
        ):
            expected = theirs[key][gpu]
            if expected is None:
                assert row[column] is None
            else:
                assert row[column] * scale == pytest.approx(expected, rel=1e-3)
        said = {entry["title"]: entry["value"] for entry in theirs["gpu_summary"]}
        if "Memory" in said:  # the plugin does not know the older "computeProperties"
            assert said["Name"] == row["name"]
            assert f"{row['memory_bytes'] / 2**30:.2f} GB" == said["Memory"]
            assert row["capability"] == said["Compute Capability"]
        tensor = said.get("Kernel Time using Tensor Cores")
        if tensor is None:
            assert row["tensor_share"] is None
        else:
            expected = float(tensor.removesuffix(" %"))
            assert row["tensor_share"] * 100 == pytest.approx(expected, abs=0.0051)


# ---- what is wrong with 0.4.3

# Traces of torch before 1.13: their categories 0.4.3 knows.
OLD = ["gpu_metrics_input", "resnet50_nw0_span1", "resnet50_nw4_span1"]


@pytest.mark.parametrize("name", OLD)
def test_of_old_traces_the_released_plugin_says_the_same(name: str) -> None:
    last, released = (
        reference(peer, name, "overview.json") for peer in ("tbgit", "tb")
    )
    assert last["steps"] == released["steps"]
    assert last["avg"] == released["avg"]
    assert last["gpu_summary"] == released["gpu_summary"]


def spans(path: Path, *categories: str) -> list[tuple[float, float]]:
    return merged(
        (event["ts"], event["ts"] + event["dur"])
        for event in raw(path)
        if event.get("ph") == "X" and event.get("cat") in categories
    )


def within(found: list[tuple[float, float]], start: float, end: float) -> float:
    return sum(max(0, min(end, to) - max(start, at)) for at, to in found)


@pytest.mark.parametrize("name", [name for name in OF_TB if name not in OLD])
def test_newer_traces_the_released_plugin_has_no_calls_of(
    lapwing: str, name: str
) -> None:
    """Bugs 1 to 3: no calls into the runtime, so that steps end when the host's do; no
    DataLoader; and steps as the device saw them, beside the host's."""
    theirs = reference("tb", name, "overview.json")
    path = trace(OF_TB[name])
    marks = sorted(
        (event["ts"], event["ts"] + event["dur"], event["name"].split("#")[1])
        for event in raw(path)
        if event.get("name", "").startswith("ProfilerStep#")
    )
    busy: list[tuple[float, float]] = []
    for role, category in (
        ("Kernel", "kernel"),
        ("Memcpy", "gpu_memcpy"),
        ("Memset", "gpu_memset"),
    ):
        before, busy = busy, merged([*busy, *spans(path, category)])
        for step, (start, end, number) in zip(theirs["steps"], marks, strict=True):
            assert step["step"] == number
            taken = within(busy, start, end) - within(before, start, end)
            assert step[role] == pytest.approx(taken, rel=1e-3, abs=0.5), number
            assert step["Total"] == pytest.approx(end - start, rel=1e-6)
            assert step["Runtime"] == step["DataLoader"] == 0
    ours = rows(lapwing, path, "overview", "--compat", "tb", "--by", "step")
    assert sum(row["runtime_ns"] for row in ours) > 0


@pytest.mark.parametrize("name", [name for name in OF_TB if name not in OLD])
def test_newer_kernels_the_released_plugin_gives_to_nobody(
    lapwing: str, name: str
) -> None:
    """Bug 1: nothing is launched by an op. Bug 3: twice, where the device saw steps."""
    theirs: Counter[tuple[str, ...]] = Counter()
    for row in of_table(reference("tb", name, "kernel_op_table.json")):
        assert row["Operator"] == "CallTreeRoot"
        theirs[kernel(row)] += row["Calls"]
    path = trace(OF_TB[name])
    ours: Counter[tuple[str, ...]] = Counter()
    for row in rows(lapwing, path, "kernels", "--by", "shape"):
        ours[our_kernel({**row, "op": "CallTreeRoot"})] += row["calls"]
    seen = {event["pid"] for event in raw(path) if is_step_of_device(event)}
    times = 1 + len(seen)
    assert theirs == Counter({key: times * count for key, count in ours.items()})


def is_step_of_device(event: dict[str, Any]) -> bool:
    is_step: bool = event.get("name", "").startswith("ProfilerStep#")
    return is_step and event.get("cat") == "gpu_user_annotation"


# ---- what ours adds


def test_counters_over_time_are_those_of_the_plugins_own_test(lapwing: str) -> None:
    """Its golden file has the utilisation times 100 and the efficiency times 10, "for
    easy to see in UI", as the comment beside it says."""
    path = trace(OF_TB["gpu_metrics_input"])
    expected = raw(trace("kineto_tb_plugin/test/gpu_metrics_expected.json"))
    busy, efficiency = (
        [
            (event["ts"], event["args"][name])
            for event in expected
            if event["ph"] == "C" and name in event["args"]
        ][2:]  # two lines at the start, so that the scale ends at 1
        for name in ("GPU Utilization", "Est. SM Efficiency")
    )
    begin = busy[0][0]
    words = (path, "overview", "--compat", "tb", "--by")
    buckets = rows(lapwing, *words, "timeline")
    end = (buckets[-1]["start_ns"] + buckets[-1]["duration_ns"]) / 1000
    assert [
        *((begin + row["start_ns"] / 1000, row["busy_share"] * 100) for row in buckets),
        (begin + end, 0),
    ] == [(time, pytest.approx(value)) for time, value in busy]
    ours = []
    for row in rows(lapwing, *words, "sm"):
        start = begin + row["start_ns"] / 1000
        ours.append((start, row["sm_share"] * 10))
        ours.append((start + row["duration_ns"] / 1000, 0))
    assert ours == [(time, pytest.approx(value)) for time, value in efficiency]


def test_where_ours_differs_from_the_plugin_it_is_a_collective(lapwing: str) -> None:
    """Bug 4: kernels of NCCL are computation there. DLRM, rank 0: of 6,571 us of
    kernels 5,798 us are collectives; what of them ran beside others is still Kernel."""
    path = trace(OF_TB["param_dlrm_rank0"])
    (tb,) = rows(lapwing, path, "overview", "--by", "step", "--compat", "tb")
    (own,) = rows(lapwing, path, "overview", "--by", "step")
    nccl = merged(
        (event["ts"], event["ts"] + event["dur"])
        for event in raw(path)
        if event.get("cat") == "kernel" and "nccl" in event["name"]
    )
    other = merged(
        (event["ts"], event["ts"] + event["dur"])
        for event in raw(path)
        if event.get("cat") == "kernel" and "nccl" not in event["name"]
    )
    assert sum(end - start for start, end in nccl) == 5798
    assert own["total_ns"] == tb["total_ns"]
    assert own["kernel_ns"] == sum(end - start for start, end in other) * 1000
    assert tb["kernel_ns"] == 6571000
    assert own["communication_ns"] > 5000000 > 60000 == tb["communication_ns"]
    assert own["kernel_ns"] + own["communication_ns"] >= tb["kernel_ns"]


def merged(spans: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """As few intervals as hold the same time."""
    found: list[tuple[float, float]] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found


# ---- kernels


def of_table(table: dict[str, Any]) -> list[dict[str, Any]]:
    names = [column["name"] for column in table["columns"]]
    return [dict(zip(names, row, strict=True)) for row in table["rows"]]


def same_kernel(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    assert ours["calls"] == theirs["Calls"]
    assert same_us(ours["total_ns"], theirs["Total Duration (us)"], 1)
    assert same_us(ours["mean_ns"], theirs["Mean Duration (us)"], 0.501)
    assert same_us(ours["max_ns"], theirs["Max Duration (us)"], 0.501)
    assert same_us(ours["min_ns"], theirs["Min Duration (us)"], 0.501)
    if "Mean Blocks Per SM" in theirs:
        blocks = ours["blocks_per_sm"] or 0
        assert blocks == pytest.approx(
            theirs["Mean Blocks Per SM"], abs=0.006, rel=1e-3
        )
    if (share := theirs.get("Mean Est. Achieved Occupancy (%)")) is not None:
        assert (ours["occupancy_share"] or 0) * 100 == pytest.approx(share, abs=0.006)


@pytest.mark.parametrize("peer", ["tb", "tbgit"])
@pytest.mark.parametrize("name", OF_TB)
def test_kernels_by_name_are_those_of_the_plugin(
    lapwing: str, name: str, peer: str
) -> None:
    theirs = of_table(reference(peer, name, "kernel_table.json"))
    path = trace(OF_TB[name])
    ours = {
        row["name"]: row for row in rows(lapwing, path, "kernels", "--compat", "tb")
    }
    assert set(ours) == {row["Name"] for row in theirs}
    for row in theirs:
        same_kernel(ours[row["Name"]], row)
        assert ours[row["Name"]]["tensor_cores"] == row["Tensor Cores Used"].lower()
    total = sum(row["total_ns"] for row in ours.values())
    on = sum(row["total_ns"] for row in ours.values() if row["tensor_cores"] == "yes")
    ratio = reference(peer, name, "overview.json")["tc_used_ratio"]
    assert on / total == pytest.approx(ratio, rel=1e-3)


def shape(text: str | None) -> str:
    return "[" + ", ".join(text.split(" x ")) + "]" if text else "None"


def our_kernel(row: dict[str, Any]) -> tuple[str, ...]:
    return (
        row["name"],
        row["op"],
        shape(row["grid"]),
        shape(row["block"]),
        str(row["registers"] or 0),
        str(row["shared_bytes"] or 0),
    )


def kernel(row: dict[str, Any]) -> tuple[str, ...]:
    keys = ("Name", "Operator", "Grid", "Block", "Register Per Thread", "Shared Memory")
    return tuple(row[key] for key in keys)


def backward_kernels(path: Path) -> Counter[tuple[str, ...]]:
    """How many of each name and op were launched by threads of the autograd engine."""
    ops = {
        event["args"]["External id"]: event
        for event in raw(path)
        if event.get("cat") == "cpu_op"
    }
    engine = "autograd::engine::evaluate_function"
    threads = {op["tid"] for op in ops.values() if op["name"].startswith(engine)}
    kernels = (event for event in raw(path) if event.get("cat") == "kernel")
    launched = ((each, ops.get(each["args"].get("External id"))) for each in kernels)
    return Counter(
        (each["name"], op["name"])
        for each, op in launched
        if op and op["tid"] in threads
    )


@pytest.mark.parametrize("name", OF_TB)
def test_kernels_by_op_and_shape_are_those_of_the_plugin(
    lapwing: str, name: str
) -> None:
    theirs = of_table(reference("tbgit", name, "kernel_op_table.json"))
    path = trace(OF_TB[name])
    found = rows(lapwing, path, "kernels", "--compat", "tb", "--by", "shape")
    ours = {our_kernel(row): row for row in found}
    if name == "tl_mi300_resnet_ckpt":
        # It takes ops of the backward pass out of its tree where there are modules, and
        # loses those of which it does not find the forward op.
        assert {kernel(row) for row in theirs} < set(ours)
        missing: Counter[tuple[str, ...]] = Counter()
        for key, row in ours.items():
            missing[key[:2]] += row["calls"]
        for row in theirs:
            missing[kernel(row)[:2]] -= row["Calls"]
        assert missing.total() == 1058
        assert missing <= backward_kernels(path)
        theirs = [row for row in theirs if row["Calls"] == ours[kernel(row)]["calls"]]
        assert len(theirs) == 70
    else:
        assert set(ours) == {kernel(row) for row in theirs}
    for row in theirs:
        our = ours[kernel(row)]
        same_kernel(our, row)
        assert our["tensor_cores"] == row["Kernel Uses Tensor Cores"].lower()
        assert our["op_tensor_cores"] == row["Op is Tensor Cores eligible"].lower()


@pytest.mark.parametrize("peer", ["hta", "htagit"])
@pytest.mark.parametrize("name", OF_HTA)
def test_kernels_are_those_of_hta(lapwing: str, name: str, peer: str) -> None:
    theirs = reference(peer, name, "gpu_kernel_breakdown.1.csv")
    path = trace(OF_HTA[name])
    found = rows(lapwing, path, "kernels", "--compat", "hta")
    ours = {(row["rank"], row["name"]): row for row in found}
    if peer == "htagit":  # 0.6.1 knows that a wait is no kernel
        ours = {key: ours[key] for key in ours if key[1] != "Stream Wait Event"}
    assert set(ours) == {(int(row["rank"]), row["name"]) for row in theirs}
    for row in theirs:
        our = ours[int(row["rank"]), row["name"]]
        assert our["kind"] == row["kernel_type"].lower()
        assert our["total_ns"] == float(row["sum (us)"]) * 1000
        assert our["max_ns"] == float(row["max (us)"]) * 1000
        assert our["min_ns"] == float(row["min (us)"]) * 1000
        assert our["mean_ns"] == pytest.approx(float(row["mean (us)"]) * 1000, abs=0.51)
        assert our["sd_ns"] == pytest.approx(float(row["stddev"]) * 1000, abs=0.51)


def bandwidths(path: Path) -> dict[tuple[int, str], list[float | None]]:
    """Of each rank and direction: count, mean, sd, min, quartiles, max in GB/s."""
    with path.open(newline="") as lines:
        return {
            (int(row[0]), row[1]): [float(cell) if cell else None for cell in row[2:]]
            for row in list(csv.reader(lines))[3:]
        }


@pytest.mark.parametrize("peer", ["hta", "htagit"])
@pytest.mark.parametrize("name", OF_HTA)
def test_copies_are_those_of_hta(lapwing: str, name: str, peer: str) -> None:
    theirs = bandwidths(trace(f"reference/{peer}/{name}/memory_bw_summary.csv"))
    path = trace(OF_HTA[name])
    ours = {
        (row["rank"], row["name"]): row
        for row in rows(lapwing, path, "kernels", "--by", "copy", "--compat", "hta")
    }
    assert set(ours) == set(theirs)
    parts = ["mean", "sd", "min", "25", "50", "75", "max"]
    for key, (count, *numbers) in theirs.items():
        if name == "ns_resolution" and key[1] == "Memcpy DtoD":
            # What starts and ends in one microsecond it adds in whatever order
            # quicksort leaves, and counts what doubles do not cancel: 1,280 copies
            # as 1,285.
            mean = ours[key]["bandwidth_mean"] * ours[key]["calls"] / 1e9
            assert mean == pytest.approx(count * numbers[0], rel=1e-3)
            assert count - 1280 == 5
            assert ours[key]["calls"] - 1280 == 8
            continue
        assert ours[key]["calls"] == count
        for part, number in zip(parts, numbers, strict=True):
            ours_gb = ours[key][f"bandwidth_{part}"]
            if number is None:
                assert ours_gb is None
            else:
                assert ours_gb / 1e9 == pytest.approx(number, rel=1e-3)
