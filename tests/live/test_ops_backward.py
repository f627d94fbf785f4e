"""Backward ops of a recording point at the op that they came of, and at its line; and
ops are recorded while the process forks."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from live_ops import ops, record, report
from packages import environment
from recording import PROGRAMS

pytestmark = pytest.mark.torch
PROGRAM = PROGRAMS / "ops_backward.py"
LINE = re.compile(r"ops_backward\.py:(\d+)\(.+\)")


@pytest.fixture(scope="module")
def trained(
    lapwing: str, torch_python: str, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, dict[str, Any]]:
    """A run of the training, and what torch's profiler says of it."""
    folder = tmp_path_factory.mktemp("backward")
    options = ["--ops=all", "--calls=timeline", "--min-span=20us"]
    command = [torch_python, str(PROGRAM)]
    printed = record(lapwing, options, command, folder, env=environment())
    return folder, json.loads(printed)


def pairs(lapwing: str, folder: Path, *options: str) -> Counter[str]:
    """How often each pair of forward and backward op was there."""
    found: Counter[str] = Counter()
    for row in report(lapwing, folder, "--by", "forward", *options)["rows"]:
        found[f"{row['name']} {row['backward_name']}"] += row["backward_calls"]
    return found


def test_each_backward_op_came_of_the_op_that_torch_says(
    lapwing: str, trained: tuple[Path, dict[str, Any]]
) -> None:
    folder, truth = trained
    steps = truth["steps"]
    everywhere = pairs(lapwing, folder)
    main = pairs(lapwing, folder, "--thread", str(truth["pid"]))
    # Of the last step only what a checkpoint computes again is in the main thread.
    again = Counter({"aten::sigmoid SigmoidBackward0": 2})
    assert main - again == Counter(truth["pairs"])
    assert everywhere == {
        pair: count + count // steps for pair, count in truth["pairs"].items()
    }
    # both passes over each graph, in which a layer is used twice
    assert truth["pairs"]["aten::addmm AddmmBackward0"] == 2 * 4 * steps


def test_each_op_has_the_line_that_called_it(
    lapwing: str, trained: tuple[Path, dict[str, Any]]
) -> None:
    folder, truth = trained
    expected = {
        (number, node): 2 * (truth["steps"] + 1)
        for number, line in enumerate(PROGRAM.read_text().splitlines(), 1)
        for node in re.findall(r"\w+Backward\d?", line.partition("# ")[2])
    }
    found: Counter[tuple[int, str]] = Counter()
    for row in report(lapwing, folder, "--by", "forward")["rows"]:
        place = LINE.fullmatch(row["line"])
        assert place, row
        found[int(place[1]), row["backward_name"]] += row["backward_calls"]
    [block] = [place for place in found if place[1] == "SigmoidBackward0"]
    found[block] //= 2  # there are two checkpoints
    assert found == expected


@pytest.fixture(scope="module")
def exported(
    lapwing: str, trained: tuple[Path, dict[str, Any]]
) -> list[dict[str, Any]]:
    """The events of the run as `export --to chrome` writes them."""
    file = trained[0] / "x.trace.json"
    words = [lapwing, "export", trained[0] / "x.lap", "--to", "chrome", "-o", file]
    subprocess.run(words, check=True)
    events: list[dict[str, Any]] = json.loads(file.read_text())["traceEvents"]
    return events


def around(
    events: list[dict[str, Any]], tid: int, name: str
) -> list[list[tuple[str, str]]]:
    """Of each span called NAME of a thread, what it lies in, from the outside in. A
    range that begins in __enter__ and ends in __exit__ lies on a track beside it."""
    beside = {
        e["tid"]
        for e in events
        if e["name"] == "thread_name" and f" {tid}: overlap" in e["args"]["name"]
    }
    spans = [e for e in events if e["ph"] == "X" and e["tid"] in {tid, *beside}]
    spans.sort(key=lambda e: (e["ts"], -e["dur"]))

    def end(span: dict[str, Any]) -> float:
        return float(span["ts"] + span["dur"])

    return [
        [
            (e["cat"], e["name"])
            for e in spans
            if e["ts"] <= span["ts"] and end(e) >= end(span) and e is not span
        ]
        for span in spans
        if span["name"] == name
    ]


def test_ranges_marks_ops_and_python_nest_on_one_timeline(
    exported: list[dict[str, Any]], trained: tuple[Path, dict[str, Any]]
) -> None:
    _, truth = trained

    def have(name: str, *expected: tuple[str, str]) -> int:
        """How many of the main thread lie in all of these, in this order."""
        chains = around(exported, truth["pid"], name)
        for chain in chains:
            assert [place for place in chain if place in expected] == list(expected)
        return len(chains)

    step = [("python", "train"), ("mark", "a step"), ("phase", "batch")]
    assert truth["steps"] == have(
        "aten::tanh", *step, ("python", "here"), ("python", "forward")
    )
    assert 2 * (truth["steps"] + 1) == have(
        "TanhBackward0",
        *step,
        ("phase", "backward"),
        ("op", "autograd::engine::evaluate_function: TanhBackward0"),
    )


def test_exports_draw_an_arrow_to_each_backward_op(
    lapwing: str,
    trained: tuple[Path, dict[str, Any]],
    exported: list[dict[str, Any]],
) -> None:
    folder, _ = trained
    events = exported
    at = {(e["tid"], e["ts"]): e["name"] for e in events if e.get("cat") == "op"}
    ends: dict[int, dict[str, str]] = {}
    for event in events:
        if event.get("cat") == "fwdbwd":
            name = at[event["tid"], event["ts"]]
            assert event["ph"] not in ends.setdefault(event["id"], {})
            ends[event["id"]][event["ph"]] = name
    drawn = Counter(f"{end['s']} {end['f']}" for end in ends.values())
    assert drawn == pairs(lapwing, folder)


def test_ops_are_recorded_while_the_process_forks(
    lapwing: str, torch_python: str, tmp_path: Path
) -> None:
    command = [torch_python, str(PROGRAMS / "ops_forks.py")]
    truth = json.loads(record(lapwing, ["--ops=all"], command, tmp_path))
    assert truth["failed"] == 0
    mine = ops(lapwing, tmp_path, "--process", str(truth["pid"]))
    assert {name: mine[name] for name in truth["counts"]} == truth["counts"]
    assert "PowBackward0" not in mine  # which is the children's
    assert ops(lapwing, tmp_path)["PowBackward0"] == truth["forks"]
