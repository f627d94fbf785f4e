"""A training with DataLoader workers, on each torch that there is.

`make test` has the torch of .venv; `make torch-matrix` Debian's older and newer ones,
each with the Python and the C library that it was built for.
"""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from packages import environment
from recording import counts_in, view

STEPS = 30
BATCH = 4

TRAINING = f"""
import os, sys, time
import lapwing
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

class Numbers(Dataset):
    def __len__(self):
        return {STEPS * BATCH}
    def __getitem__(self, index):
        return torch.full((16,), float(index))

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, 256), nn.ReLU(), nn.Linear(256, 1))
    def forward(self, x):
        return self.layers(x)

def burn(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass

def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    for batch in DataLoader(Numbers(), {BATCH}, num_workers=2):
        with lapwing.phase("batch"):
            optimizer.zero_grad()
            loss = model(batch).square().mean()
            loss.backward()
            optimizer.step()
        burn(0.01)
    print(torch.__version__.split("+")[0], f"{{loss.item():.4g}}", file=sys.stdout)
    print("done", file=sys.stderr)

if __name__ == "__main__":
    main()
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("training") / "training.py"
    path.write_text(TRAINING)
    return path


def run(
    words: list[str], folder: Path, *before: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*before, *words],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
    )


def spans(lapwing: str, folder: Path, category: str) -> list[dict[str, Any]]:
    """The events of CATEGORY, as a trace for a browser has them."""
    command = [lapwing, "export", "x.lap", "--to", "chrome", "-o", "-"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    events = json.loads(done.stdout)["traceEvents"]
    return [event for event in events if event.get("cat") == category]


def batches(lapwing: str, folder: Path) -> int:
    """How many of the program's own ranges there are."""
    phases = spans(lapwing, folder, "phase")
    return sum(event["name"] == "batch" for event in phases)


def test_a_training_is_sampled_and_does_not_notice(
    lapwing: str, torch_python: str, script: Path, tmp_path: Path
) -> None:
    words = [torch_python, str(script)]
    record = [lapwing, "run", "--no-summary", "-o", str(tmp_path / "x.lap"), "--"]
    recorded = run(words, tmp_path, *record)
    bare = run(words, tmp_path)
    assert bare.returncode == 0, bare.stderr
    assert (recorded.returncode, recorded.stdout) == (0, bare.stdout)
    said = recorded.stderr.splitlines()
    its_own = [line for line in said if not line.startswith("lapwing: ")]
    assert its_own == bare.stderr.splitlines()
    rows = view(lapwing, tmp_path, "functions")["rows"]
    total_ns = {
        row["function"]: row["total_ns"]
        for row in rows
        if script.name in (row["place"] or "")
    }
    assert total_ns["burn"] > 0.5 * STEPS * 10e6
    assert total_ns["main"] >= total_ns["burn"]
    # The training and its two workers; a resource tracker may be another.
    assert len(view(lapwing, tmp_path, "processes")["rows"]) >= 3
    assert batches(lapwing, tmp_path) == STEPS


def test_every_op_of_a_training_is_counted_and_its_phases_are_found(
    lapwing: str, torch_python: str, script: Path, tmp_path: Path
) -> None:
    record = [lapwing, "run", "--ops=all", "--no-summary"]
    record += ["-o", str(tmp_path / "x.lap"), "--"]
    done = run([torch_python, str(script)], tmp_path, *record)
    assert done.returncode == 0, done.stderr
    rows = view(lapwing, tmp_path, "ops")["rows"]
    ops = {row["name"]: row["calls"] for row in rows}
    # Two linear layers, forward and back.
    assert ops["aten::addmm"] == 2 * STEPS, done.stderr
    assert ops["AddmmBackward0"] == 2 * STEPS
    assert ops["Optimizer.step#SGD.step"] == STEPS
    found = Counter(event["name"] for event in spans(lapwing, tmp_path, "phase"))
    once = ("zero_grad", "forward", "backward", "optimizer", "batch")
    assert {name: found[name] for name in once} == dict.fromkeys(once, STEPS)
    assert found["data"] == STEPS + 1  # the last ends the epoch
    assert (found["fetch"], found["collate"]) == (STEPS, STEPS)  # in the workers


def test_every_call_of_a_training_is_counted_in_its_workers_too(
    lapwing: str, torch_python: str, script: Path, tmp_path: Path
) -> None:
    words = [torch_python, str(script)]
    record = [lapwing, "run", "--calls", "--no-summary", "-o", str(tmp_path / "x.lap")]
    done = run(words, tmp_path, *record, "--")
    assert done.returncode == 0, done.stderr
    counts = counts_in(lapwing, tmp_path, script.name)
    assert counts["burn"] == (STEPS, STEPS)
    assert counts["__getitem__"] == (STEPS * BATCH, STEPS * BATCH)
    assert counts["forward"] == (STEPS, STEPS)
    assert batches(lapwing, tmp_path) == STEPS
