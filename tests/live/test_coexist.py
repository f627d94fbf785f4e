"""Programs that other tools work on too keep working; we say what we did not see."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from recordings import record

PROGRAM = """
def leaf(x):
    return x + 1

def work():
    total = 0
    for i in range(1000):
        total += leaf(i)
    return total

work()
print(work())
"""


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "prog.py"
    path.write_text(PROGRAM)
    return str(path)


def test_under_a_debugger(
    lapwing: str, python: str, script: str, tmp_path: Path
) -> None:
    commands = [
        "-c",
        "break 3",
        "-c",
        "continue",
        "-c",
        "p x",
        "-c",
        "clear 1",
        "-c",
        "c",
    ]
    recording = record(
        lapwing, tmp_path, "--calls", "--", python, "-m", "pdb", *commands, script,
        check=False,
    )  # fmt: skip
    assert "\n0\n" in recording.done.stdout  # it stopped, and x was 0
    assert "500500" in recording.done.stdout
    assert recording.counts("prog.py")["leaf"][0] >= 2000


@pytest.mark.parametrize("calls", ["--calls", "--c-calls"])
def test_under_coverage(lapwing: str, script: str, calls: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "coverage", "run", script]
    data = str(tmp_path / ".coverage")
    recording = record(lapwing, tmp_path, calls, "--", *command, COVERAGE_FILE=data)
    assert recording.done.stdout == "500500\n"
    assert recording.counts("prog.py")["leaf"] == (2000, 2000)
    report = [sys.executable, "-m", "coverage", "report", "--data-file", data]
    shown = subprocess.check_output(report, text=True)
    assert "prog.py" in shown and "100%" in shown


def test_a_foreign_profile_function_is_said(
    lapwing: str, python: str, script: str, tmp_path: Path
) -> None:
    """With builtins on 3.10 and 3.11 only one of us can have the profile hook."""
    Path(script).write_text(
        "import sys\n" + PROGRAM + "sys.setprofile(lambda *_: None)\nwork()\nabs(1)\n"
    )
    recording = record(lapwing, tmp_path, "--calls", "--c-calls", "--", python, script)
    assert recording.done.stdout == "500500\n"
    assert recording.counts("prog.py")["leaf"] == (3000, 3000)
    show = "import sys; print(hasattr(sys, 'monitoring'))"
    if subprocess.check_output([python, "-c", show], text=True).strip() == "False":
        assert "profile function" in recording.notes()


TORCH = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x):
        return torch.relu(self.layer(x)) + 1

def plain(x):
    return x * 2

net = torch.compile(Net(), backend="eager")
for _ in range(20):
    net(torch.ones(2, 4)); plain(1)
print("done")
"""


def test_torch_compile_works(lapwing: str, script: str, tmp_path: Path) -> None:
    Path(script).write_text(TORCH)
    recording = record(lapwing, tmp_path, "--calls", "--", sys.executable, script)
    assert recording.done.stdout == "done\n"
    assert recording.counts("prog.py")["plain"] == (20, 20)


RANKS = """
import os
import torch.distributed as dist

def leaf(): pass

dist.init_process_group("gloo")
for _ in range(100 * (dist.get_rank() + 1)):
    leaf()
dist.barrier()
dist.destroy_process_group()
"""


def test_torchruns_ranks_are_recorded(
    lapwing: str, script: str, tmp_path: Path
) -> None:
    Path(script).write_text(RANKS)
    torchrun = str(Path(sys.executable).parent / "torchrun")
    recording = record(
        lapwing, tmp_path, "--calls", "--", torchrun, "--standalone",
        "--nproc-per-node", "2", script,
    )  # fmt: skip
    assert recording.counts("prog.py")["leaf"] == (300, 300)
    ranks = {row["rank"] for row in recording.report("processes")["rows"]}
    assert {0, 1} <= ranks


def test_uv_run(lapwing: str, script: str, tmp_path: Path) -> None:
    uv = str(Path(sys.executable).parent / "uv")
    options = ["--offline", "--no-project", "--no-config", "--python", sys.executable]
    recording = record(
        lapwing, tmp_path, "--calls", "--", uv, "run", *options, script,
        UV_CACHE_DIR=str(tmp_path / "cache"),
    )  # fmt: skip
    assert recording.done.stdout == "500500\n"
    assert recording.counts("prog.py")["leaf"] == (2000, 2000)
