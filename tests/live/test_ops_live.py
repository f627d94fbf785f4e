"""torch's ops, recorded without torch's profiler: each of them, and none twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from live_ops import ops, record, refused, report
from recording import PROGRAMS, run_info

TRAINING = str(PROGRAMS / "ops_training.py")


@pytest.fixture(scope="module")
def whole(
    lapwing: str, torch_python: str, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, dict[str, Any]]:
    """A run with --ops=all of a training that counts its own ops; with its calls."""
    folder = tmp_path_factory.mktemp("ops")
    options = ["--calls", "--ops=all"]
    printed = record(lapwing, options, [torch_python, TRAINING], folder)
    return folder, json.loads(printed)


def test_every_op_is_counted_as_torch_counts_it(
    lapwing: str, whole: tuple[Path, dict[str, Any]]
) -> None:
    folder, truth = whole
    found = ops(lapwing, folder, "--thread", str(truth["pid"]))
    assert found == truth["counts"]
    assert found["aten::addmm"] == 2 * truth["steps"]
    assert found["a step"] == truth["steps"]


def test_ops_of_other_threads_and_forked_children_are_there(
    lapwing: str, whole: tuple[Path, dict[str, Any]]
) -> None:
    folder, truth = whole
    everywhere = ops(lapwing, folder)
    assert everywhere["aten::sin"] == 50
    assert everywhere["aten::square"] == 10
    assert "aten::square" not in ops(lapwing, folder, "--process", str(truth["pid"]))
    # which leaves before the range's end
    assert everywhere["forks"] == 1


def test_ops_are_in_the_phases_of_steps(
    lapwing: str, whole: tuple[Path, dict[str, Any]]
) -> None:
    folder, truth = whole
    table = report(lapwing, folder, "--by", "phase", "--process", str(truth["pid"]))
    phases = {(row["name"], row["phase"]): row["calls"] for row in table["rows"]}
    steps = truth["steps"]
    assert phases["aten::addmm", "forward"] == 2 * steps
    assert phases["AddmmBackward0", "backward"] == 2 * steps
    assert phases["aten::mse_loss", "loss"] == steps
    assert phases["aten::sin", None] == 50  # of a thread, when no step was


def test_ops_are_told_apart_by_what_called_them(
    lapwing: str, whole: tuple[Path, dict[str, Any]]
) -> None:
    folder, truth = whole
    table = report(lapwing, folder, "--by", "stack", "--depth", "1")
    rows = {(row["name"], row["stack"]): row["calls"] for row in table["rows"]}
    callers = [stack for name, stack in rows if name == "aten::sin"]
    assert len(callers) == 1 and callers[0].startswith("ops_training.py:")
    assert callers[0].endswith("(work)")
    assert rows["aten::sin", callers[0]] == 50


def test_no_op_was_lost(lapwing: str, whole: tuple[Path, dict[str, Any]]) -> None:
    folder, _ = whole
    notes = report(lapwing, folder)["notes"]
    assert not [note for note in notes if "spans" in note or "names" in note]


def test_without_being_asked_whole_steps_are_recorded(
    lapwing: str,
    torch_python: str,
    tmp_path: Path,
    whole: tuple[Path, dict[str, Any]],
) -> None:
    printed = record(lapwing, [], [torch_python, TRAINING, "alone", "400"], tmp_path)
    truth = json.loads(printed)
    found = ops(lapwing, tmp_path, "--thread", str(truth["pid"]))
    steps = found["aten::mse_loss"]
    assert 1 <= steps < truth["steps"]  # the first step never is
    in_a_step = {
        name: whole[1]["counts"][name] // whole[1]["steps"]
        for name in (
            "aten::addmm",
            "aten::tanh",
            "aten::tanh_backward",
            "AddmmBackward0",
            "autograd::engine::evaluate_function: AddmmBackward0",
            "aten::mse_loss_backward",
        )
    }
    assert {name: found[name] for name in in_a_step} == {
        name: count * steps for name, count in in_a_step.items()
    }
    # what the program announces is always recorded
    assert found["a step"] == truth["steps"]


STEP = """
import torch
layer = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
def step():
    optimizer.zero_grad()
    layer(torch.ones(2, 4)).sum().backward()
    optimizer.step()
"""
# The program's own range comes late, and by a decorator.
LATE_RANGES = """
for _ in range(400): step()
step = torch.autograd.profiler.record_function("mine")(step)
for _ in range(100): step()
"""
# It has one at its beginning, one at its end, and one around all.
FEW_RANGES = """
from torch.autograd.profiler import record_function
def once():
    with record_function("mine"): step()
with record_function("all"):
    once()
    for _ in range(2000): step()
    once()
"""


def test_torch_calls_for_ranges_only_where_it_must(
    lapwing: str, torch_python: str, tmp_path: Path
) -> None:
    record(lapwing, [], [torch_python, "-c", STEP + LATE_RANGES], tmp_path)
    found = ops(lapwing, tmp_path)
    updates = found["Optimizer.step#SGD.step"]
    # Each of the last 100; of those before only where ops were recorded.
    assert found["mine"] == 100
    assert 100 < updates < 500
    assert updates - 100 <= found["aten::addmm"] <= updates


def test_that_a_program_makes_ranges_is_forgotten(
    lapwing: str, torch_python: str, tmp_path: Path
) -> None:
    record(lapwing, [], [torch_python, "-c", STEP + FEW_RANGES], tmp_path)
    found = ops(lapwing, tmp_path)
    assert (found["mine"], found["all"]) == (2, 1)
    assert found["Optimizer.step#SGD.step"] < 1500


def test_ops_can_be_left_out(lapwing: str, torch_python: str, tmp_path: Path) -> None:
    command = [torch_python, "-c", "import torch; torch.ones(3).sin()"]
    record(lapwing, ["--ops=off"], command, tmp_path)
    assert "no ops of torch's: it was recorded with --ops=off" in refused(
        lapwing, tmp_path
    )


FAKE = """
import _ctypes as _C
__version__ = "2.99.0"
def empty(size): return [0] * size
"""


def test_a_torch_that_is_otherwise_gets_a_note(
    lapwing: str, python: str, tmp_path: Path
) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text(FAKE)
    (tmp_path / "program.py").write_text("import torch; print(torch.empty(3))")
    printed = record(lapwing, [], [python, "program.py"], tmp_path, cwd=tmp_path)
    assert printed == "[0, 0, 0]\n"
    reason = "this torch does not have the functions for it"
    note = run_info(tmp_path)["facts"]["note"]
    assert f"torch's ops are not recorded: {reason}" in note
    assert refused(lapwing, tmp_path).endswith(f"no ops of torch's: {reason}\n")
