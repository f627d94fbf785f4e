"""Ops and modules of real traces, beside torch's own tables and torch_tb_profiler's.

Numbers of peers' bugs are those of section 0.1 of the research file. Two more of
torch_tb_profiler were found here:

- LOST: its last version takes backward ops out of the tree and puts back only those
  that a flow joins to an op of a module; the others, and modules called again for
  checkpointing, are lost (0.4.3 does not look at flows of torch 1.13 and later).
- DOUBLES: times since 1970 are doubles of us, so that ops shorter than a quarter
  of one may come in another order, and one that is in itself is merged.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import traces

TORCH = "torch213_cpu"
PYTHON_ROW = re.compile(r"^ *(<built-in|\S+\.py\(\d+\): |nn\.Module: )")
# Name of the reference: the trace.
TB = {
    "gpu_metrics_input": "kineto_tb_plugin/test/gpu_metrics_input.json",
    "hta_amd_mi250": "hta/amd_trace/*.json*",
    "hta_df_index_resolver": "hta/df_index_resolver/*.gz",
    "hta_nccl_data": "hta/nccl_parser_config/*.gz",
    "hta_negative_queue": "hta/negative_queue_length_values_check/*.gz",
    "hta_ns_resolution": "hta/ns_resolution_trace/*.gz",
    "param_dlrm_rank0": "param/dlrm_kineto/worker0_*",
    "resnet50_nw0_span1": "kineto_tb_plugin/samples/resnet50_num_workers_0/*.gz",
    "resnet50_nw4_span1": "kineto_tb_plugin/samples/resnet50_num_workers_4/*.gz",
    "tl_h100_qwen": "tracelens/traces/h100/Qwen*.gz",
    "tl_mi300_resnet_ckpt": "tracelens/traces/mi300/resnet_act*.gz",
}
# Of these 0.4.3 does not see the calls into the runtime (bug 1) that it would link.
BUG_1 = {
    "hta_amd_mi250",
    "hta_nccl_data",
    "hta_ns_resolution",
    "tl_h100_qwen",
    "tl_mi300_resnet_ckpt",
}
Row = dict[str, Any]


def text(lapwing: str, *words: str | Path) -> str:
    done = subprocess.run(
        [lapwing, "report", *words], capture_output=True, text=True, check=True
    )
    return done.stdout


def rows(lapwing: str, *words: str | Path) -> list[Row]:
    found: list[Row] = traces.report(lapwing, *words)["rows"]
    return found


# torch's own text


def style_torch(lapwing: str, name: str, table: str, *words: str) -> str:
    options = {
        "table": ["--sort", "self_cpu_time_total", "-n", "25"],
        "table_by_shape": ["--by", "shape", "--sort", "cpu_time_total", "-n", "15"],
        "table_by_stack": ["--sort", "self_cpu_time_total", "-n", "10"],
    }
    if table == "table_by_stack":
        words = ("--by", "stack", "--depth", "3", *words)
    trace = traces.trace(f"{TORCH}/{name}.pt.trace.json")
    return text(lapwing, trace, "ops", "--style", "torch", *options[table], *words)


@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("plain", "table"),
        ("shapes_mem_flops", "table"),
        ("shapes_mem_flops", "table_by_shape"),
        ("stack", "table"),
        ("stack", "table_by_stack"),
        ("all", "table"),
        ("all", "table_by_shape"),
        ("all", "table_by_stack"),
    ],
)
def test_torchs_table_is_printed_byte_for_byte(
    lapwing: str, name: str, table: str
) -> None:
    wanted = traces.trace(f"{TORCH}/{name}.{table}.txt").read_text()
    assert style_torch(lapwing, name, table, "--compat", "torch") == wanted
    if name in {"plain", "shapes_mem_flops"}:  # without stacks it has no bugs
        assert style_torch(lapwing, name, table) == wanted


@pytest.mark.parametrize("name", ["stack", "all"])
def test_python_functions_are_no_ops(lapwing: str, name: str) -> None:
    """Bug 13: nothing but their rows is missing, and a last line says so."""
    torch = traces.trace(f"{TORCH}/{name}.table.txt").read_text().splitlines()
    ours = style_torch(lapwing, name, "table").splitlines()
    wanted = [line for line in torch if not PYTHON_ROW.match(line)]
    assert 0 < len(torch) - len(wanted) < 10
    assert [line for line in ours if line in torch] == wanted
    assert not any(PYTHON_ROW.match(line) for line in ours)
    assert "Python functions" in ours[-1] and "--compat torch" in ours[-1]


def test_columns_are_under_their_titles(lapwing: str) -> None:
    """Bug 11."""
    lines = style_torch(lapwing, "all", "table_by_stack").splitlines()
    stacks, flops = lines[1].index("Source Location"), lines[1].index("Total MFLOPs")
    assert lines[3][stacks:].startswith("<built-in method conv2d")
    assert lines[4][stacks:].startswith("torch/nn/modules/conv.py(546)")
    assert lines[3][flops:].split() == ["--"]
    assert {len(line) for line in lines[:-2]} == {len(lines[0])}


def test_a_gradient_is_its_forward_ops(lapwing: str) -> None:
    """Bug 12: torch blames a convolution's gradient on the dataset."""
    name = "aten::convolution_backward"

    def stacks(*words: str) -> set[str]:
        options = ["--by", "stack", "--depth", "1", *words]
        trace = traces.trace(f"{TORCH}/all.pt.trace.json")
        table = rows(lapwing, trace, "ops", *options)
        return {
            re.sub(" of .*", "", row["stack"])
            for row in table
            if name in (row.get("key"), row.get("name"))
        }

    assert stacks("--compat", "torch") == {
        "<built-in method conv2d",
        "torch/utils/data/dataset.py(206): <genexpr>",
    }
    assert stacks() == {"<built-in method conv2d"}


@pytest.mark.parametrize("name", ["plain", "shapes_mem_flops", "stack", "all"])
@pytest.mark.parametrize("by", ["name", "shape"])
def test_key_averages_are_equal_to_the_last_bit(
    lapwing: str, name: str, by: str
) -> None:
    suffix = "" if by == "name" else "_by_shape"
    if by == "shape" and name in {"plain", "stack"}:
        return  # they have no shapes
    trace = traces.trace(f"{TORCH}/{name}.pt.trace.json")
    path = traces.trace(f"{TORCH}/{name}.key_averages{suffix}.json")
    wanted = json.loads(path.read_text())
    table = rows(lapwing, trace, "ops", "--by", by, "--compat", "torch")
    assert [row["key"] for row in table] == [row["key"] for row in wanted]
    for ours, theirs in zip(table, wanted, strict=True):
        for column in ours.keys() & theirs.keys() - {"stack"}:
            assert ours[column] == theirs[column], (ours["key"], column)


@pytest.mark.parametrize("name", ["plain", "all"])
def test_our_own_times_of_ops_are_torchs(lapwing: str, name: str) -> None:
    """Also with stacks, where torch has Python functions between them."""
    trace = traces.trace(f"{TORCH}/{name}.pt.trace.json")
    ours = {row["name"]: row for row in rows(lapwing, trace, "ops")}
    torch = rows(lapwing, trace, "ops", "--compat", "torch")
    wanted = {row["key"]: row for row in torch if row["kind"] in {"op", "range"}}
    assert ours.keys() == wanted.keys()
    for key, row in ours.items():
        assert row["calls"] == wanted[key]["count"]
        total_us = wanted[key]["cpu_time_total"]
        assert row["host_total_ns"] == pytest.approx(total_us * 1000)
        if row["kind"] == "op":  # a range of ours keeps what Python does in it
            self_us = wanted[key]["self_cpu_time_total"]
            assert row["host_self_ns"] == pytest.approx(self_us * 1000, abs=0.5)


# Devices


def launched_work(trace: Path, categories: set[str]) -> float:
    """The us of kernels, copies and memsets that calls of the trace launched."""
    events = traces.raw(trace)
    calls = {e["args"]["correlation"] for e in events if e.get("cat") in categories}
    work = {"kernel", "gpu_memcpy", "gpu_memset"}
    return sum(
        float(event["dur"])
        for event in events
        if event.get("cat") in work and event["args"]["correlation"] in calls
    )


@pytest.mark.parametrize("name", ["hta_df_index_resolver", "param_dlrm_rank0"])
def test_work_is_linked_by_correlation(lapwing: str, name: str) -> None:
    """Bug 6: by "External id", as the plugin does, nothing of these is linked."""
    trace = traces.trace(TB[name])
    table = traces.report(lapwing, trace, "ops")
    ours = sum(row["device_self_ns"] for row in table["rows"]) / 1000
    plugin = rows(lapwing, trace, "ops", "--compat", "tb")
    assert sum(row["device_self_ns"] for row in plugin) == 0
    assert ours > 0
    if name == "param_dlrm_rank0":
        launched = launched_work(trace, {"cuda_runtime"})
        assert 0.95 * launched < ours <= launched
        if ours < launched:  # the rest was launched by calls outside of ops
            assert any("belong to no op" in note for note in table["notes"])


# torch_tb_profiler's operators


def key_of(row: Row) -> tuple[str, str]:
    shapes = row.get("input_shape") or row.get("shapes") or "[]"
    return row["name"], json.dumps(json.loads(shapes))


def tables(
    lapwing: str, peer: str, name: str, by: str
) -> tuple[dict[tuple[str, str], Row], dict[tuple[str, str], Row]]:
    file = f"operator_table{'_by_shape' if by == 'shape' else ''}.json"
    wanted = traces.reference(peer, name, file)
    ours = rows(lapwing, traces.trace(TB[name]), "ops", "--by", by, "--compat", "tb")
    return {key_of(row): row for row in ours}, {key_of(row): row for row in wanted}


def is_time(ns: int, us: int) -> bool:
    """Within 0.1 %, of what the plugin has rounded to whole us."""
    return abs(ns / 1000 - us) <= max(0.501, abs(us) / 1000)


def check_row(ours: Row, theirs: Row, but: frozenset[str] = frozenset()) -> None:
    ns = {
        "host_total_ns": "host_total_duration",
        "host_self_ns": "host_self_duration",
        "device_self_ns": "device_self_duration",
        "device_total_ns": "device_total_duration",
    }
    for column, wanted in ns.items():
        if wanted in theirs and column not in but:
            assert is_time(ours[column], theirs[wanted]), (theirs, column)
    if "calls" not in but:
        assert ours["calls"] == theirs["calls"], theirs
    assert ours["tc_eligible"] == theirs["tc_eligible"], theirs
    assert (ours["has_call_stack"] == "Yes") == theirs["has_call_stack"], theirs
    for column in ("tc_self_ratio", "tc_total_ratio"):
        if column not in but:
            assert 100 * ours[column] == pytest.approx(theirs[column], abs=0.0051)


@pytest.mark.parametrize("by", ["name", "shape"])
@pytest.mark.parametrize("name", sorted(TB))
def test_operators_are_the_last_plugins(lapwing: str, name: str, by: str) -> None:
    ours, theirs = tables(lapwing, "tbgit", name, by)
    if name == "tl_mi300_resnet_ckpt":
        # LOST: what it has all calls of agrees, of the rest it has less.
        assert theirs.keys() < ours.keys()
        whole = [k for k, row in theirs.items() if row["calls"] == ours[k]["calls"]]
        for key in theirs.keys() - set(whole):
            assert theirs[key]["calls"] < ours[key]["calls"]
        assert len(whole) > 15
        for key in whole:
            # What it lost below an op that it kept is missing from its sums, too.
            check_row(ours[key], theirs[key], frozenset({"device_total_ns"}))
        return
    assert ours.keys() == theirs.keys()
    for key, row in ours.items():
        doubles = name == "hta_ns_resolution" and key[0] == "aten::result_type"
        check_row(row, theirs[key], frozenset({"calls"}) if doubles else frozenset())
        if doubles:  # DOUBLES
            assert row["calls"] == theirs[key]["calls"] + 1


def call_times(name: str) -> dict[str, float]:
    """Of each op the us of calls into the runtime that carry its "External id"."""
    events = traces.raw(traces.trace(TB[name]))
    names = {}
    for event in events:
        if event.get("cat") == "cpu_op" and "External id" in event.get("args", {}):
            names.setdefault(event["args"]["External id"], event["name"])
    times: dict[str, float] = defaultdict(float)
    for event in events:
        if event.get("cat") == "cuda_runtime":
            owner = names.get(event["args"].get("External id"))
            end = event["ts"] + event["dur"]  # as the plugin, in doubles
            times[owner or ""] += end - event["ts"]
    return times


@pytest.mark.parametrize("name", sorted(TB))
def test_operators_are_the_released_plugins(lapwing: str, name: str) -> None:
    """0.4.3, but for bug 1: it knows no calls into the runtime of modern traces."""
    ours, theirs = tables(lapwing, "tb", name, "name")
    assert ours.keys() == theirs.keys()
    if name not in BUG_1:
        for key, row in ours.items():
            check_row(row, theirs[key])
        return
    times = call_times(name)
    but = {"host_self_ns", "device_self_ns", "device_total_ns"}
    but |= {"tc_self_ratio", "tc_total_ratio"}
    assert sum(row["device_self_ns"] for row in ours.values()) > 0
    for key, row in ours.items():
        doubles = name == "hta_ns_resolution" and key[0] == "aten::result_type"
        check_row(row, theirs[key], frozenset(but | ({"calls"} if doubles else set())))
        assert theirs[key]["device_self_duration"] == 0
        assert theirs[key]["device_total_duration"] == 0
        # Its own time lacks what calls into the runtime took.
        less = theirs[key]["host_self_duration"] - row["host_self_ns"] / 1000
        assert less == pytest.approx(times[key[0]], rel=2e-3, abs=1.5), key


# Modules


def modules(lapwing: str, trace: Path, *words: str) -> dict[tuple[str, int], Row]:
    found: dict[tuple[str, int], Row] = {}

    def add(level: list[Row]) -> None:
        for row in level:
            found[row["name"], row["module_id"]] = row
            add(row.get("children", []))

    add(rows(lapwing, trace, "modules", *words))
    return found


# What torch_tb_profiler's own code (kineto 89be953a, its last) said when it was asked
# in November 2026: of each module occurrences, operators, host total and self in us.
# Those of a device are 0 there.
PLUGIN_ALL = {
    ("Net_0", 0): (3, 12, 8585.629, 277.953),
    ("Conv2d_0", 0): (3, 3, 1612.320, 83.825),
    ("BatchNorm2d_0", 0): (3, 6, 1798.246, 181.540),
    ("Conv2d_1", 1): (3, 3, 2667.151, 76.444),
    ("Linear_0", 0): (3, 3, 274.940, 57.396),
}
# Likewise, of all modules together, with device total and self, and of the first alone.
PLUGIN_QWEN = (316, 1378, 105979.0, -5508.2, 104536.5, 31902.0)
PLUGIN_QWEN_FIRST = (1, 5, 32802.151, -15650.829, 31901.963, 9.856)
# 0.4.3, of all modules together: it has no device times (bug 1).
PLUGIN_MI300 = (450, 738, 111307.7)


def test_modules_of_a_host_are_the_plugins(lapwing: str) -> None:
    trace = traces.trace(f"{TORCH}/all.pt.trace.json")
    ours = modules(lapwing, trace, "--compat", "tb")
    assert ours.keys() == PLUGIN_ALL.keys()
    for key, (calls, ops, total_us, self_us) in PLUGIN_ALL.items():
        row = ours[key]
        assert (row["occurrences"], row["operators"]) == (calls, ops)
        assert row["host_total_ns"] / 1000 == pytest.approx(total_us, rel=1e-3)
        assert row["host_self_ns"] / 1000 == pytest.approx(self_us, rel=1e-3)
        assert row["mean_ns"] == row["host_total_ns"] // calls


def sums(table: dict[tuple[str, int], Row]) -> list[float]:
    names = ["occurrences", "operators", "host_total_ns", "host_self_ns"]
    names += ["device_total_ns", "device_self_ns"]
    found = [sum(row[name] for row in table.values()) for name in names]
    return [*found[:2], *(ns / 1000 for ns in found[2:])]


def test_modules_with_devices_are_the_plugins(lapwing: str) -> None:
    trace = traces.trace(TB["tl_h100_qwen"])
    ours = modules(lapwing, trace, "--compat", "tb")
    assert len(ours) == 316
    assert sums(ours) == pytest.approx(PLUGIN_QWEN, rel=1e-3)
    first = {("Qwen2Model_0", 0): ours["Qwen2Model_0", 0]}
    assert sums(first) == pytest.approx(PLUGIN_QWEN_FIRST, rel=1e-3)


def test_our_modules_do_not_pay_for_the_calls_of_others(lapwing: str) -> None:
    """To the plugin calls without an id are all the first module's, and calls into the
    driver none. (TraceLens, too, has 31.905 ms of work that was launched.)"""
    trace = traces.trace(TB["tl_h100_qwen"])
    first = modules(lapwing, trace)["Qwen2Model_0", 0]
    without = sum(
        event["dur"]
        for event in traces.raw(trace)
        if event.get("cat") == "cuda_runtime" and "External id" not in event["args"]
    )
    wanted = PLUGIN_QWEN_FIRST[3] + without
    assert first["host_self_ns"] / 1000 == pytest.approx(wanted, abs=0.1)
    launched = launched_work(trace, {"cuda_runtime", "cuda_driver"})
    assert first["device_total_ns"] / 1000 == pytest.approx(launched)
    assert launched == pytest.approx(31905, abs=1)


def test_modules_called_again_are_counted(lapwing: str) -> None:
    """LOST: the last plugin knows 243 of the calls."""
    ours = modules(lapwing, traces.trace(TB["tl_mi300_resnet_ckpt"]), "--compat", "tb")
    assert sums(ours)[:3] == pytest.approx(PLUGIN_MI300, rel=1e-3)


def test_the_backward_pass_is_its_modules(lapwing: str) -> None:
    trace = traces.trace(f"{TORCH}/all.pt.trace.json")
    ours = modules(lapwing, trace)
    engine = [
        event
        for event in traces.raw(trace)
        if event["name"].startswith("autograd::engine::evaluate_function")
        and "Sequence number" in event["args"]
    ]
    convolutions = sum(e["dur"] for e in engine if "Convolution" in e["name"])
    of_convolutions = sum(
        ours[key]["backward_host_ns"] for key in (("Conv2d_0", 0), ("Conv2d_1", 1))
    )
    assert of_convolutions / 1000 == pytest.approx(convolutions)
    # The loss is not the network's.
    network = sum(
        e["dur"] for e in engine if not re.search("NllLoss|LogSoftmax", e["name"])
    )
    backward = ours["Net_0", 0]["backward_host_ns"] / 1000
    assert backward == pytest.approx(network)


def test_lightnings_modules_are_modules(lapwing: str) -> None:
    trace = traces.trace("lightning_ref/*.pt.trace.json")
    events = [e for e in traces.raw(trace) if e["name"].startswith("[pl][module]")]
    ((key, row),) = modules(lapwing, trace).items()
    assert key == ("layer", None)
    assert row["occurrences"] == len(events)
    assert row["host_total_ns"] / 1000 == pytest.approx(sum(e["dur"] for e in events))


# What cannot be said


@pytest.mark.parametrize(
    ("trace", "words", "sentence"),
    [
        (
            f"{TORCH}/plain.pt.trace.json",
            ["ops", "--by", "shape"],
            "record_shapes=True",
        ),
        (f"{TORCH}/plain.pt.trace.json", ["ops", "--by", "stack"], "with_stack=True"),
        (f"{TORCH}/plain.pt.trace.json", ["modules"], "with_stack=True"),
        ("tracelens/traces/mi210/gpu_only_trace/*", ["ops"], "no ops of a host"),
    ],
)
def test_what_was_not_recorded_is_a_sentence(
    lapwing: str, trace: str, words: list[str], sentence: str
) -> None:
    command = [lapwing, "report", traces.trace(trace), *words]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert sentence in done.stderr
    assert not done.stdout
