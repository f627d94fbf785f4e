"""What a signal's handler raises while our own Python code runs reaches the program."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.torch

# A signal arrives while a window of torch's profiler begins, is written or is left.
TRAINING = """
import os, signal, sys, traceback
import torch
from torch.autograd import profiler

place, kind = sys.argv[1:]
owner, name = {
    "begins": (torch.profiler.profile, "start"),
    "is written": (profiler.profile, "export_chrome_trace"),
    "ends": (torch.profiler.profile, "stop"),
}[place]
original = getattr(owner, name)
number = signal.SIGINT if kind == "KeyboardInterrupt" else signal.SIGUSR1
sent = []

def interrupted(self, *words):
    if not sent:
        sent.append(1)
        os.kill(os.getpid(), number)
        for _ in range(100):
            pass
    return original(self, *words)

class Late(Exception):
    pass

def handler(number, frame):
    if kind == "SystemExit":
        sys.exit(3)
    raise Late("too late") if kind == "Late" else TimeoutError("timed out")

signal.signal(signal.SIGUSR1, handler)
setattr(owner, name, interrupted)
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def step():
    optimizer.zero_grad()
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()

caught = 0
for _ in range(8):
    try:
        for _ in range(2):
            step()
    except (KeyboardInterrupt, Late, TimeoutError) as error:
        caught += 1
        text = traceback.format_exc()
        print(type(error).__name__, "_lapwing" in text, "in handler" in text)
print("sent", len(sent), "caught", caught)
"""


@pytest.mark.parametrize("place", ["begins", "is written", "ends"])
@pytest.mark.parametrize(
    "kind", ["KeyboardInterrupt", "Late", "TimeoutError", "SystemExit"]
)
def test_what_a_handler_raises_in_our_code_goes_on_to_the_program(
    lapwing: str, torch_python: str, tmp_path: Path, kind: str, place: str
) -> None:
    (tmp_path / "train.py").write_text(TRAINING)
    words = [lapwing, "run", "-q", "--torch", "-o", "x.lap", "--schedule"]
    words += ["wait=1,warmup=0,active=2,repeat=2", "--", torch_python, "train.py"]
    done = subprocess.run(
        [*words, place, kind], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    if kind == "SystemExit":
        assert (done.stdout, done.returncode) == ("", 3)
    else:
        has_handler = kind != "KeyboardInterrupt"
        said = f"{kind} False {has_handler}\nsent 1 caught 1\n"
        assert (done.stdout, done.returncode) == (said, 0)
    assert done.stderr == ""


def test_an_error_of_ours_stays_ours(
    lapwing: str, torch_python: str, tmp_path: Path
) -> None:
    """A window that fails costs the windows, and the program hears nothing."""
    text = TRAINING.replace("os.kill(", "raise OSError(")
    (tmp_path / "train.py").write_text(text)
    words = [lapwing, "run", "--torch", "-o", "x.lap", "--schedule"]
    words += ["wait=1,warmup=0,active=2,repeat=2", "--", torch_python, "train.py"]
    done = subprocess.run(
        [*words, "is written", "Late"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.stdout, done.returncode) == ("sent 1 caught 0\n", 0)
    assert "no more windows of torch's profiler: OSError" in done.stderr
