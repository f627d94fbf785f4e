"""What `lapwing report steps` says of a real training, beside what that says itself."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from recording import PROGRAMS

PROGRAM = PROGRAMS / "logged_training.py"


def report(lapwing: str, run: Path, *words: str) -> dict[str, Any]:
    command = [lapwing, "report", str(run), *words, "--json"]
    found: dict[str, Any] = json.loads(subprocess.check_output(command, text=True))
    return found


@pytest.fixture(scope="module")
def training(
    lapwing: str, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, Any], Path]:
    """What the program says, and its recording."""
    run = tmp_path_factory.mktemp("steps") / "x.lap"
    command = [lapwing, "run", "-q", "-o", str(run), str(PROGRAM)]
    done = subprocess.run(command, text=True, capture_output=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout), run


def test_the_steps_are_those_of_the_program(
    lapwing: str, training: tuple[dict[str, Any], Path]
) -> None:
    said, run = training
    found = report(lapwing, run, "steps")
    parts = {row["action"]: row for row in found["rows"]}
    assert parts["training"]["calls"] == said["steps"]
    assert parts["evaluation"]["calls"] == said["evals"]
    assert f"{said['epochs']} epochs" in found["title"]
    phases = {row["action"]: row for row in parts["training"]["children"]}
    assert set(phases) == {
        "data",
        "forward",
        "loss",
        "backward",
        "optimizer",
        "other",
    }
    for name in ("data", "forward", "backward", "optimizer"):
        assert phases[name]["calls"] == said["steps"], name
    total = sum(row["total_ns"] for row in phases.values())
    assert total == parts["training"]["total_ns"]


def test_a_logger_that_eats_a_third_is_named_with_its_line(
    lapwing: str, training: tuple[dict[str, Any], Path]
) -> None:
    said, run = training
    text = PROGRAM.read_text().splitlines()
    line = 1 + next(i for i, row in enumerate(text) if "the line to find" in row)
    others = report(lapwing, run, "steps", "--by", "other")["rows"]
    assert others[0]["function"] == f"log_metrics (logged_training.py:{line})"
    # Nearly all of other time, which the phases bound exactly.
    assert others[0]["training_share"] == pytest.approx(said["logging_share"], abs=0.1)


def test_each_step_is_a_row_and_the_summary_has_two_lines_of_them(
    lapwing: str, training: tuple[dict[str, Any], Path]
) -> None:
    said, run = training
    steps = report(lapwing, run, "steps", "--by", "step", "--limit", "0")["rows"]
    kinds = [row["kind"] for row in steps]
    assert kinds.count("training") == said["steps"]
    assert kinds.count("evaluation") == said["evals"]
    assert sum(row["updates"] for row in steps) == said["steps"]
    rows = {row["what"]: row for row in report(lapwing, run, "summary")["rows"]}
    assert f"{said['steps']} training steps" in rows["steps"]["detail"]
    assert rows["a step"]["detail"].startswith("data ")
    assert len(report(lapwing, run, "summary")["rows"]) <= 10


def test_a_transform_is_named_below_the_worker_that_runs_it(
    lapwing: str, tmp_path: Path
) -> None:
    program = PROGRAMS / "advice" / "training.py"
    words = [lapwing, "run", "-q", "-o", "x.lap", str(program), "data", "--cured"]
    subprocess.run(words, cwd=tmp_path, check=True, capture_output=True, timeout=300)
    (worker,) = report(lapwing, tmp_path / "x.lap", "steps", "--by", "worker")["rows"]
    lines = program.read_text().splitlines()
    line = 1 + next(i for i, text in enumerate(lines) if "(augment(" in text)
    transform = worker["children"][0]
    assert transform["worker"] == f"augment (training.py:{line})"
    assert 0.7 < transform["fetch_ns"] / worker["fetch_ns"] <= 1


@pytest.fixture(scope="module")
def epochs(lapwing: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("epochs") / "x.lap"
    command = [lapwing, "run", "-q", "-o", str(run), str(PROGRAMS / "epochs.py")]
    done = subprocess.run(command, text=True, capture_output=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    return run


@pytest.mark.parametrize("loop", ["stops", "counts", "ahead", "persistent"])
def test_epochs_are_counted_however_a_loop_asks_its_loader(
    lapwing: str, epochs: Path, loop: str
) -> None:
    found = report(lapwing, epochs, "steps", "--thread", loop)
    parts = {row["action"]: row for row in found["rows"]}
    assert "12 training steps" in found["title"]
    assert "3 epochs" in found["title"]
    assert parts["evaluation"]["calls"] == 6
    each = report(lapwing, epochs, "steps", "--thread", loop, "--by", "step")
    training = [row for row in each["rows"] if row["kind"] == "training"]
    assert [row["epoch"] for row in training] == [0] * 4 + [1] * 4 + [2] * 4
