"""Programs that other tools work on too keep working; we say what we did not see."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pythons import interpreter
from recording import counts_in, run, view

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
    words = ["--calls", "--", python, "-m", "pdb", *commands, script]
    done = run(lapwing, words, tmp_path)
    assert "\n0\n" in done.stdout  # it stopped, and x was 0
    assert "500500" in done.stdout
    assert counts_in(lapwing, tmp_path, "prog.py")["leaf"][0] >= 2000


@pytest.mark.parametrize("calls", ["--calls", "--c-calls"])
def test_under_coverage(lapwing: str, script: str, calls: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "coverage", "run", script]
    data = str(tmp_path / ".coverage")
    environment = {**os.environ, "COVERAGE_FILE": data}
    done = run(lapwing, [calls, "--", *command], tmp_path, env=environment)
    assert done.stdout == "500500\n"
    assert counts_in(lapwing, tmp_path, "prog.py")["leaf"] == (2000, 2000)
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
    words = ["--calls", "--c-calls", "--", python, script]
    done = run(lapwing, words, tmp_path)
    assert done.stdout == "500500\n"
    assert counts_in(lapwing, tmp_path, "prog.py")["leaf"] == (3000, 3000)
    show = "import sys; print(hasattr(sys, 'monitoring'))"
    if subprocess.check_output([python, "-c", show], text=True).strip() == "False":
        assert "profile function" in str(view(lapwing, tmp_path, "functions")["notes"])


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
    done = run(lapwing, ["--calls", "--", sys.executable, script], tmp_path)
    assert done.stdout == "done\n"
    assert counts_in(lapwing, tmp_path, "prog.py")["plain"] == (20, 20)


def test_uv_run(lapwing: str, script: str, tmp_path: Path) -> None:
    uv = str(Path(sys.executable).parent / "uv")
    options = ["--offline", "--no-project", "--no-config", "--python", sys.executable]
    environment = {**os.environ, "UV_CACHE_DIR": str(tmp_path / "cache")}
    words = ["--calls", "--", uv, "run", *options, script]
    done = run(lapwing, words, tmp_path, env=environment)
    assert done.stdout == "500500\n"
    assert counts_in(lapwing, tmp_path, "prog.py")["leaf"] == (2000, 2000)


IMPORTS_WATCHED = """
import cProfile, sys
def ignore(*_): pass
how = sys.argv[1]
if how == "cProfile":
    profile = cProfile.Profile(); profile.enable()
elif how == "setprofile":
    sys.setprofile(ignore)
elif how == "settrace":
    sys.settrace(lambda *_: None)
from torch import nn
print(nn)
"""


@pytest.mark.parametrize("how", ["cProfile", "setprofile", "settrace", "nothing"])
@pytest.mark.parametrize("mode", [[], ["--calls"], ["--calls", "--c-calls"]])
@pytest.mark.parametrize("version", ["3.10", "3.11", "3.13"])
def test_an_import_that_we_wait_for_ends_whoever_watches(
    lapwing: str, tmp_path: Path, version: str, mode: list[str], how: str
) -> None:
    """Pending calls that put themselves off are looked at without end by 3.11."""
    (tmp_path / "torch.py").write_text("nn = 'a module of that name'\n")
    (tmp_path / "program.py").write_text(IMPORTS_WATCHED)
    program = [interpreter(version), "program.py", how]
    done = subprocess.run(
        [lapwing, "run", "-q", *mode, "-o", "x.lap", "--", *program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (0, "a module of that name\n"), done.stderr
