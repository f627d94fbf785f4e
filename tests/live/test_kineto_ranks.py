"""Ranks of a real job side by side: what the peers say of them, and what they cannot.

Bugs are the peers', by their numbers in shared/research/torch_ecosystem.md, 0.1.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import traces

DLRM = "param/dlrm_kineto"
NAME = "param_dlrm_8rank"
RANKS = range(8)


def rows(lapwing: str, folder: Path, *words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = traces.report(lapwing, folder, "ranks", *words)[
        "rows"
    ]
    return found


def by_rank(lapwing: str, folder: Path, *words: str) -> dict[int, dict[str, Any]]:
    return {row["rank"]: row for row in rows(lapwing, folder, *words)}


def distributed(peer: str) -> dict[str, Any]:
    page: dict[str, Any] = traces.reference(
        peer, f"{NAME}_distributed", "distributed.json"
    )["distributed"]
    return page


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.json"))


# torch_tb_profiler


def tb_means(lapwing: str, *, of: str = "all") -> dict[int, dict[str, Any]]:
    folder = traces.trace(DLRM)
    means = rows(lapwing, folder, "--compat", "tb")
    each = means + [step for row in means for step in row["children"]]
    return {row["rank"]: row for row in each if row["step"] == of}


@pytest.mark.parametrize(("page", "step"), [("all", "all"), ("10", "ProfilerStep#10")])
def test_overlap_and_waiting_are_those_of_the_plugin(
    lapwing: str, page: str, step: str
) -> None:
    ours = tb_means(lapwing, of=step)
    overlap = distributed("tbgit")["steps_to_overlap"]["data"][page]
    wait = distributed("tbgit")["steps_to_wait"]["data"][page]
    assert set(ours) == set(RANKS)
    for rank, row in ours.items():
        worker = f"worker{rank}_step_12"
        kinds = ["computation_ns", "overlapping_ns", "communication_ns", "other_ns"]
        assert [row[kind] for kind in kinds] == [us * 1000 for us in overlap[worker]]
        kinds = ["transfer_ns", "synchronizing_ns"]
        assert [row[kind] for kind in kinds] == [us * 1000 for us in wait[worker]]


def test_the_released_plugin_differs_only_where_it_does_not_see_the_runtime(
    lapwing: str,
) -> None:
    """Bug 1: without calls into the runtime, a step of 0.4.3 begins on the host, also
    in ranks 1 and 3, whose devices were still busy with the step before."""
    ours = tb_means(lapwing)
    released = distributed("tb")["steps_to_overlap"]["data"]["all"]
    for rank, row in ours.items():
        computation, overlap, communication, other = released[f"worker{rank}_step_12"]
        assert row["overlapping_ns"] == overlap * 1000
        assert row["communication_ns"] == communication * 1000
        differs = row["computation_ns"] != computation * 1000
        assert differs == (rank in (1, 3))
        if not differs:
            assert row["other_ns"] == other * 1000
    assert distributed("tb")["steps_to_wait"] == distributed("tbgit")["steps_to_wait"]


@pytest.mark.parametrize("peer", ["tb", "tbgit"])
def test_the_table_of_communication_ops_is_the_plugins(lapwing: str, peer: str) -> None:
    found = rows(lapwing, traces.trace(DLRM), "--compat", "tb", "--by", "kind")
    theirs = distributed(peer)["comm_ops"]["data"]
    assert len(found) == len(RANKS)
    for row in found:
        (expected,) = theirs[f"worker{row['rank']}_step_12"]["rows"]
        assert [
            row["name"],
            row["calls"],
            row["bytes"],
            row["mean_bytes"],
            row["latency_ns"] // 1000,
            row["mean_latency_ns"] // 1000,
            row["transfer_ns"] // 1000,
            row["mean_transfer_ns"] // 1000,
        ] == expected


def test_the_plugin_takes_communication_for_computation(lapwing: str) -> None:
    """Bug 4: what it calls computation is all kernels; ours are the two apart."""
    plugin = tb_means(lapwing)
    for rank, row in by_rank(lapwing, traces.trace(DLRM)).items():
        both = row["computation_ns"] + row["communication_ns"] - row["overlap_ns"]
        theirs = plugin[rank]["computation_ns"] + plugin[rank]["overlapping_ns"]
        assert both == theirs
        assert row["communication_ns"] > 20 * plugin[rank]["communication_ns"] / 10


# Holistic Trace Analysis


@pytest.mark.parametrize("peer", ["hta", "htagit"])
def test_overlap_and_stragglers_are_those_of_hta(lapwing: str, peer: str) -> None:
    folder = traces.trace(DLRM)
    ours = by_rank(lapwing, folder, "--compat", "hta")
    for row in traces.reference(peer, NAME, "comm_comp_overlap.csv"):
        share = ours[int(row["rank"])]["overlap_share"]
        assert round(100 * share, 2) == float(row["comp_comm_overlap_pctg"])
    found = rows(lapwing, folder, "--compat", "hta", "--by", "straggler")
    theirs = json.loads(traces.reference(peer, NAME, "potential_stragglers.json"))
    assert [row["rank"] for row in found] == theirs


# Our own


def kernels(path: Path) -> list[tuple[str, int, int]]:
    """NCCL's, in order: name, start and duration in ns."""
    found = [
        (event["name"], event["ts"] * 1000, event["dur"] * 1000)
        for event in traces.raw(path)
        if event.get("cat") == "kernel" and event["name"].startswith("nccl")
    ]
    return sorted(found, key=lambda kernel: kernel[1])


def test_each_collective_is_the_nth_of_its_kind_in_every_rank(lapwing: str) -> None:
    folder = traces.trace(DLRM)
    names = {"all_to_all": "SendRecv", "all_reduce": "AllReduce"}
    found = rows(lapwing, folder, "--by", "collective")
    assert len(found) == 8
    for row in found:
        nth = [
            [k for k in kernels(path) if names[row["collective"]] in k[0]][
                row["order"] - 1
            ]
            for path in files(folder)
        ]
        durations = [duration for _, _, duration in nth]
        starts = [start for _, start, _ in nth]
        ends = [start + duration for _, start, duration in nth]
        transfer = min(durations)
        assert row["ranks"] == row["size"] == 8
        assert row["transfer_ns"] == transfer
        assert row["max_wait_ns"] == max(durations) - transfer
        assert row["mean_wait_ns"] == sum(d - transfer for d in durations) // 8
        assert row["start_skew_ns"] == max(starts) - min(starts)
        assert row["end_skew_ns"] == max(ends) - min(ends)
        assert durations[row["last"]] == transfer


def test_bytes_and_bandwidth_are_those_of_the_message(lapwing: str) -> None:
    found = rows(lapwing, traces.trace(DLRM), "--by", "collective")
    reduced = sorted(
        (row for row in found if row["collective"] == "all_reduce"),
        key=lambda row: int(row["order"]),
    )
    assert [row["bytes"] for row in reduced] == [394241 * 4, 112 * 4, 226960 * 4]
    for row in found:
        rate = row["bytes"] / (row["transfer_ns"] / 1e9)
        factor = 2 * 7 / 8 if row["collective"] == "all_reduce" else 7 / 8
        assert row["bandwidth"] == pytest.approx(rate)
        assert row["bus_bandwidth"] == pytest.approx(rate * factor)


def test_kinds_are_the_sums_of_their_collectives(lapwing: str) -> None:
    folder = traces.trace(DLRM)
    each = rows(lapwing, folder, "--by", "collective")
    kinds = rows(lapwing, folder, "--by", "kind")
    assert {kind["collective"] for kind in kinds} == {"all_to_all", "all_reduce"}
    for kind in kinds:
        of_it = [row for row in each if row["collective"] == kind["collective"]]
        assert kind["calls"] == len(of_it)
        for column in "bytes", "transfer_ns":
            assert kind[column] == sum(row[column] for row in of_it)
        assert kind["max_wait_ns"] == max(row["max_wait_ns"] for row in of_it)
        assert kind["total_ns"] == pytest.approx(
            kind["transfer_ns"] + kind["wait_ns"], abs=1
        )


def test_the_straggler_is_who_makes_the_others_wait(lapwing: str) -> None:
    folder = traces.trace(DLRM)
    found = rows(lapwing, folder, "--by", "straggler")
    each = rows(lapwing, folder, "--by", "collective")
    assert [row["rank"] for row in found[:3]] == [7, 5, 4]
    assert sum(row["last"] for row in found) == 8
    for row in found:
        late = [one for one in each if one["last"] == row["rank"]]
        assert row["last"] == len(late)
        assert row["made_wait_ns"] == pytest.approx(
            sum(8 * one["mean_wait_ns"] for one in late), abs=64
        )
    assert sum(row["wait_share"] for row in found) == pytest.approx(1)


# What is not as it should be


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """The files of all ranks, to be changed."""
    folder = tmp_path / "job"
    folder.mkdir()
    for path in files(traces.trace(DLRM)):
        shutil.copyfile(path, folder / path.name)
    return folder


def change(path: Path, **how: Any) -> None:
    trace = json.loads(path.read_text())
    events = trace["traceEvents"]
    if "later_us" in how:
        for event in events:
            if "ts" in event:
                event["ts"] += how["later_us"]
    if "without" in how:
        last = max(
            (e for e in events if how["without"] in e["name"]), key=lambda e: e["ts"]
        )
        events.remove(last)
    path.write_text(json.dumps(trace))


def ask(lapwing: str, *words: str | Path) -> tuple[int, str, str]:
    done = subprocess.run(
        [lapwing, "report", *words], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, done.stderr


def test_a_rank_that_is_missing_is_named(lapwing: str, job: Path) -> None:
    files(job)[3].unlink()
    files(job)[4].unlink()
    table = traces.report(lapwing, job, "ranks", "--by", "collective")
    assert any("3, 5 are not here" in note for note in table["notes"])
    assert {(row["ranks"], row["size"]) for row in table["rows"]} == {(6, 8)}
    assert all(row["transfer_ns"] > 0 for row in table["rows"])


def test_one_rank_alone_does_not_show_waiting(lapwing: str) -> None:
    path = files(traces.trace(DLRM))[2]
    table = traces.report(lapwing, path, "ranks")
    (row,) = table["rows"]
    assert row["rank"] == 2
    assert row["communication_ns"] == sum(duration for _, _, duration in kernels(path))
    assert row["wait_ns"] is None
    assert any("One rank alone" in note for note in table["notes"])
    code, _, sentence = ask(lapwing, path, "ranks", "--by", "straggler")
    assert code == 1
    assert "name the folder of all ranks" in sentence


def test_a_clock_that_is_off_is_found_and_changes_nothing(
    lapwing: str, job: Path
) -> None:
    change(files(job)[3], later_us=5000)
    clocks = {rank: row["clock_ns"] for rank, row in by_rank(lapwing, job).items()}
    assert clocks[3] == pytest.approx(-5_000_000, abs=5000)
    assert all(abs(clocks[rank]) <= 5000 for rank in (1, 2, 4, 5, 6, 7))
    ours = rows(lapwing, job, "--by", "collective")
    right = rows(lapwing, traces.trace(DLRM), "--by", "collective")
    for row, expected in zip(ours, right, strict=True):
        for column in "transfer_ns", "mean_wait_ns", "last":
            assert row[column] == expected[column]
        assert row["end_skew_ns"] < 12_000
        assert abs(row["start_skew_ns"] - expected["start_skew_ns"]) < 12_000


def test_a_rank_with_fewer_collectives_is_no_reason_to_give_up(
    lapwing: str, job: Path
) -> None:
    change(files(job)[2], without="ncclKernel_AllReduce")
    change(files(job)[2], without="nccl:all_reduce")
    table = traces.report(lapwing, job, "ranks", "--by", "collective")
    assert sorted(row["ranks"] for row in table["rows"]) == [7] + [8] * 7
    assert any("1 of 8 collectives was not seen" in note for note in table["notes"])
    code, _, sentence = ask(lapwing, job, "ranks", "--compat", "tb", "--by", "kind")
    assert code == 1
    assert "do not all have the same number" in sentence


def test_a_trace_without_collectives_says_so(lapwing: str) -> None:
    path = traces.trace("kineto_tb_plugin/samples/resnet50_num_workers_0/*")
    code, _, sentence = ask(lapwing, path, "ranks", "--by", "collective")
    assert code == 1
    assert "no collectives" in sentence


def test_groups_and_elements_are_taken_from_the_kernels(lapwing: str) -> None:
    table = traces.report(
        lapwing, traces.trace("hta/nccl_parser_config/*"), "ranks", "--by", "kind"
    )
    found = {row["collective"]: row for row in table["rows"]}
    assert found["all_reduce"]["calls"] == 15
    assert found["broadcast"]["calls"] == 6
    assert found["all_reduce"]["group"] == "default_pg"
    assert found["all_reduce"]["size"] == 2
    assert found["all_reduce"]["transfer_ns"] is None  # of two ranks one is here
    (reduced,) = {
        sum(
            event["args"]["In msg nelems"] * 4
            for event in traces.raw(traces.trace("hta/nccl_parser_config/*"))
            if event.get("cat") == "kernel" and "AllReduce" in event["name"]
        )
    }
    assert found["all_reduce"]["bytes"] == reduced
