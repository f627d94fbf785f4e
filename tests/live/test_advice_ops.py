"""Many tiny ops: a training that consists of them, one that does not, and what the
change gains."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from recording import PROGRAMS

pytestmark = pytest.mark.torch
TRAINING = str(PROGRAMS / "advice" / "tiny_ops.py")
STEPS = "60"


def findings(
    lapwing: str, python: str, story: str, folder: Path
) -> list[dict[str, Any]]:
    run = str(folder / "x.lap")
    words = [lapwing, "run", "-q", "--no-summary", "--ops=all", "-o", run, "--"]
    done = subprocess.run(
        [*words, python, TRAINING, story, STEPS],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=PROGRAMS,
    )
    assert done.returncode == 0, done.stderr
    report = subprocess.run(
        [lapwing, "report", run, "advice", "--json"], capture_output=True, text=True
    )
    assert report.returncode == 0, report.stderr
    rows: list[dict[str, Any]] = json.loads(report.stdout)["rows"]
    return [row for row in rows if row["rule"] == "ops"]


def line_of(text: str) -> int:
    """Of the training, the first with that text."""
    lines = Path(TRAINING).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


def test_a_slow_optimizer_is_found_and_the_gain_is_as_it_says(
    lapwing: str, torch_python: str, tmp_path: Path
) -> None:
    (finding,) = findings(lapwing, torch_python, "tiny", tmp_path)
    assert "fused=True" in finding["change"]
    assert finding["file"].endswith("tiny_ops.py")
    assert finding["line"] == line_of("self.optimizer.step()")
    done = subprocess.run(
        [torch_python, TRAINING, "compare", STEPS],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    took = json.loads(done.stdout)
    gain = 1 - took["tiny fused"] / took["tiny"]
    assert finding["gain_low"] < gain < finding["gain_high"], took


def test_a_loop_in_the_model_is_found(
    lapwing: str, torch_python: str, tmp_path: Path
) -> None:
    (finding,) = findings(lapwing, torch_python, "loop", tmp_path)
    assert "torch.compile" in finding["change"]
    assert finding["file"].endswith("tiny_ops.py")
    assert finding["line"] == line_of("total = total + ")


def test_large_ops_are_no_finding(
    lapwing: str, torch_python: str, tmp_path: Path
) -> None:
    assert findings(lapwing, torch_python, "large", tmp_path) == []
