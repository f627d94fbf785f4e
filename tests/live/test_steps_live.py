"""The phases of unmodified training loops, beside what the loops time themselves."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from phases import Phase, read_phases
from recording import PROGRAMS

LOOPS = [
    "plain",
    "accumulation",
    "optimizers",
    "gan",
    "amp",
    "lbfgs",
    "iterable",
    "hand_made",
    "workers",
    "epochs",
    "compiled",
]
BESIDE = ("fetch", "collate", "loader_pass")  # no phases of a loop


def record(
    lapwing: str, words: list[str], folder: Path
) -> subprocess.CompletedProcess[str]:
    command = [lapwing, "run", "-q", "-o", str(folder / "x.lap"), *words]
    return subprocess.run(
        command, cwd=folder, text=True, capture_output=True, timeout=300
    )


def code(lapwing: str, python: str, folder: Path, text: str) -> tuple[str, list[Phase]]:
    """What the program TEXT printed under `lapwing run`, and its phases."""
    (folder / "prog.py").write_text(text)
    done = record(lapwing, [python, "prog.py"], folder)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout, read_phases(folder / "x.lap")


@pytest.fixture(scope="session")
def loops(
    lapwing: str, torch_python: str, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, dict[str, Any]], list[Phase]]:
    """What each loop timed, and the phases of all; one process, to load torch once."""
    folder = tmp_path_factory.mktemp("loops")
    program = str(PROGRAMS / "loops" / "several.py")
    done = record(lapwing, [torch_python, program, *LOOPS], folder)
    assert (done.returncode, done.stderr) == (0, "")
    timed = [json.loads(line) for line in done.stdout.splitlines()]
    return {one["loop"]: one for one in timed}, read_phases(folder / "x.lap")


CLOSE = 0.02  # of a step


def check(phases: list[Phase], timed: dict[str, list[float]], whole_s: float) -> None:
    """The same phases in the same order, each as long as it was timed to be. Whoever
    else wants the processor may come between two looks at the clock, so it is the
    median difference that must be small, times how often it is made in WHOLE_S, the
    time in which they all ran."""
    found: dict[str, list[float]] = {}
    for phase in phases:
        found.setdefault(phase.name, []).append(phase.seconds)
    assert {n: len(s) for n, s in found.items()} == {
        n: len(s) for n, s in timed.items()
    }
    for name, seconds in timed.items():
        pairs = zip(seconds, found[name], strict=True)
        off = median(abs(own - ours) for own, ours in pairs) * len(seconds) / whole_s
        assert off < CLOSE, (name, off, seconds, found[name])


@pytest.mark.parametrize("loop", LOOPS)
def test_a_loop_is_found_as_it_times_itself(
    loop: str, loops: tuple[dict[str, dict[str, Any]], list[Phase]]
) -> None:
    timed = loops[0][loop]
    start, end = timed["start_ns"], timed["end_ns"]
    mine = [p for p in loops[1] if start <= p.start_ns <= end]
    main = [p for p in mine if p.name not in BESIDE]
    check(main, timed["seconds"], (end - start) / 1e9)


def test_nested_phases_are_inside_one_another(
    loops: tuple[dict[str, dict[str, Any]], list[Phase]],
) -> None:
    """LBFGS calls forward and backward from its step, a scaler the optimizer's step;
    no other loop nests any."""
    timed, phases = loops
    for loop in LOOPS:
        start, end = timed[loop]["start_ns"], timed[loop]["end_ns"]
        mine = [p for p in phases if start <= p.start_ns <= end]
        main = [p for p in mine if p.name not in BESIDE]
        outer: list[Phase] = []
        nested = set()
        for phase in main:
            while outer and outer[-1].end_ns <= phase.start_ns:
                outer.pop()
            assert all(phase.end_ns <= o.end_ns for o in outer), (loop, phase, outer)
            nested.update((o.name, phase.name) for o in outer)
            outer.append(phase)
        of_lbfgs = ("zero_grad", "forward", "loss", "backward")
        wanted = {
            "lbfgs": {("optimizer", name) for name in of_lbfgs},
            "amp": {("scaler", "optimizer")},
        }
        assert nested == wanted.get(loop, set()), loop


def test_each_phase_says_which_class_it_was(
    loops: tuple[dict[str, dict[str, Any]], list[Phase]],
) -> None:
    of = {(p.name, p.of) for p in loops[1]}
    assert of >= {
        ("data", "_SingleProcessDataLoaderIter"),
        ("data", "_MultiProcessingDataLoaderIter"),
        ("forward", "Net"),
        ("forward", "Sequential"),
        ("loss", "CrossEntropyLoss"),
        ("loss", "BCEWithLogitsLoss"),
        ("eval", "Net"),
        ("eval", "CrossEntropyLoss"),
        ("backward", ""),
        ("optimizer", "SGD"),
        ("optimizer", "LBFGS"),
        ("zero_grad", "AdamW"),
        ("scaler", "GradScaler"),
        ("fetch", "Points"),
        ("fetch", "Stream"),
        ("collate", "default_collate"),
        ("collate", "collate"),
        ("loader_pass", "_SingleProcessDataLoaderIter"),
        ("loader_pass", "_MultiProcessingDataLoaderIter"),
    }
    assert not any(name == "OptimizedModule" for _, name in of)


def test_workers_are_seen_each_by_itself(
    loops: tuple[dict[str, dict[str, Any]], list[Phase]],
) -> None:
    timed, phases = loops
    workers = timed["workers"]["workers"]
    assert len(workers) == 2
    for pid, seconds in workers.items():
        mine = [p for p in phases if p.pid == int(pid)]
        check(mine, seconds, sum(map(sum, seconds.values())))


ODD = """
import threading, torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader

class Augment(nn.Module):  # no parameters, nothing flows back: no loss
    def forward(self, x):
        return x + 1

class Transform(nn.Module):
    def forward(self, x):
        return x * 2

class Samples:
    def __init__(self):
        self.transform = Transform()
    def __len__(self):
        return 4
    def __getitem__(self, i):
        if i == 3:
            raise KeyError(i)
        return self.transform(torch.ones(3))

class Broken(nn.Linear):
    def forward(self, x):
        raise RuntimeError("no")

model, augment = nn.Linear(3, 3), Augment()
x = augment(next(iter(DataLoader(Samples(), batch_size=2)))).to("meta")
try:
    list(DataLoader(Samples(), batch_size=4))
except KeyError:
    print("key")
try:
    Broken(3, 3)(torch.ones(3))
except RuntimeError:
    print("no")
y = torch.ones(2, 3, requires_grad=True)
checkpoint(model, y, use_reentrant=False).sum().backward()
torch.autograd.grad(model(y).sum(), y)
model.eval()
model(y)
thread = threading.Thread(target=lambda: model.train()(y).sum().backward())
thread.start()
thread.join()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
try:
    optimizer.step(lambda: 1 / 0)
except ZeroDivisionError:
    print("zero")
optimizer.step()
"""


def test_only_what_a_training_does_is_told(
    lapwing: str, torch_python: str, tmp_path: Path
) -> None:
    """Not a transform or an augmentation, nor a checkpoint's second forward; and what
    an exception ends is ended."""
    printed, phases = code(lapwing, torch_python, tmp_path, ODD)
    assert printed == "key\nno\nzero\n"
    first = [p for p in phases if p.thread == phases[0].thread]
    data = "_SingleProcessDataLoaderIter"
    assert [(p.name, p.of) for p in first] == [
        ("loader_pass", data),
        ("data", data),
        ("fetch", "Samples"),
        ("collate", "default_collate"),
        ("transfer", ""),
        ("loader_pass", data),
        ("data", data),
        ("fetch", "Samples"),
        ("forward", "Broken"),
        ("forward", "Linear"),
        ("backward", ""),
        ("forward", "Linear"),
        ("backward", "grad"),
        ("eval", "Linear"),
        ("optimizer", "SGD"),
        ("optimizer", "SGD"),
    ]
    others = [p.name for p in phases if p.thread != phases[0].thread]
    assert others == ["forward", "backward"]


AT_ONCE = """
import os, threading, torch, warnings
from torch import nn

warnings.simplefilter("ignore")  # Python 3.12's, of a fork where threads are

there, on, again, out = [threading.Event() for _ in range(4)]

class First(nn.Linear):
    def forward(self, x):
        inner(x)
        there.set()
        on.wait()
        inner(x)  # another thread is in a module, and entered it later
        again.set()
        out.wait()
        return inner(x)  # and has left it

class Second(nn.Linear):
    def forward(self, x):
        on.set()
        again.wait()
        return inner(x)

inner, x = nn.Linear(3, 3), torch.ones(2, 3)
thread = threading.Thread(target=lambda: First(3, 3)(x))
thread.start()
there.wait()
child = os.fork()
if child == 0:  # its new thread may get the memory of the one that is not here
    thread = threading.Thread(target=lambda: inner(x))
    thread.start()
    thread.join()
    os._exit(0)
os.waitpid(child, 0)
Second(3, 3)(x)
out.set()
thread.join()
"""


def test_threads_that_are_in_modules_at_once_are_told_apart(
    lapwing: str, torch_python: str, tmp_path: Path
) -> None:
    _, phases = code(lapwing, torch_python, tmp_path, AT_ONCE)
    assert sorted((p.name, p.of) for p in phases) == [
        ("forward", "First"),
        ("forward", "Linear"),
        ("forward", "Second"),
    ]
    assert len({(p.pid, p.thread) for p in phases}) == 3
    assert [p.of for p in phases if p.pid != phases[0].pid] == ["Linear"]


SLOW_START = """
import time, torch

class Same(torch.autograd.Function):  # asks what backward() asks first
    @staticmethod
    def forward(context, x):
        return x.clone()
    @staticmethod
    def backward(context, gradient):
        return gradient

def slow_ones_like(*args, **keywords):
    time.sleep(0.5)
    return ones_like(*args, **keywords)

x = torch.ones(3, requires_grad=True)
y = Same.apply(x).sum()
time.sleep(0.1)
torch.autograd.grad(y, x)
ones_like, torch.ones_like = torch.ones_like, slow_ones_like
Same.apply(x).sum().backward()
"""


def test_a_backward_begins_before_the_engine_does(
    lapwing: str, torch_python: str, tmp_path: Path
) -> None:
    """With the gradient that is made for it; but not where a function of the
    program's own asked the same."""
    grad, backward = code(lapwing, torch_python, tmp_path, SLOW_START)[1]
    assert (grad.of, backward.of) == ("grad", "")
    assert backward.seconds >= 0.5
    assert grad.seconds < backward.seconds / 2


REPLACED = """
import gc, weakref, torch
from torch import nn
from torch.utils.data import DataLoader

class First(nn.Linear):
    pass

def grown(first):
    class Second(nn.Module):  # made in the middle of the loop
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
        def forward(self, x):
            return self.layers(x)
    return Second()

model = First(3, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for number, batch in enumerate(DataLoader(torch.ones(12, 3), batch_size=2)):
    if number == 3:
        gone = weakref.ref(model)
        model = grown(model)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
        gc.collect()
        assert gone() is None
    optimizer.zero_grad()
    model(batch).sum().backward()
    optimizer.step()
"""


def test_a_model_may_be_replaced_in_the_middle_of_the_training(
    lapwing: str, torch_python: str, tmp_path: Path
) -> None:
    """And its optimizer: nobody keeps the old one, and no step of the new is missed."""
    phases = code(lapwing, torch_python, tmp_path, REPLACED)[1]
    of = [p.of for p in phases if p.name == "forward"]
    assert of == ["First"] * 3 + ["Second"] * 3
    of = [p.of for p in phases if p.name == "optimizer"]
    assert of == ["SGD"] * 3 + ["AdamW"] * 3
    report = [lapwing, "report", "x.lap", "steps", "--by", "step", "--json"]
    done = subprocess.run(report, cwd=tmp_path, text=True, capture_output=True)
    assert len(json.loads(done.stdout)["rows"]) == 6


CHILDREN = """
import multiprocessing as mp
def child(how):
    import torch
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(2, 2)
        def forward(self, x):
            return self.layer(self.layer(x))
    Net()(torch.ones(2)).sum().backward()
if __name__ == "__main__":
    import torch
    for how in ("spawn", "fork"):
        process = mp.get_context(how).Process(target=child, args=(how,))
        process.start()
        process.join()
        assert process.exitcode == 0
"""


def test_children_are_seen_however_they_start(
    lapwing: str, torch_python: str, tmp_path: Path
) -> None:
    """And from their first call on: a class that was just made is seen too."""
    phases = code(lapwing, torch_python, tmp_path, CHILDREN)[1]
    by_process = Counter((p.pid, p.name) for p in phases)
    assert len({p.pid for p in phases}) == 2
    assert set(by_process.values()) == {1} and len(by_process) == 4


def test_no_steps_waits_for_no_torch(lapwing: str, tmp_path: Path) -> None:
    show = "import sys; print([getattr(f, '__name__', type(f)) for f in sys.meta_path])"
    (tmp_path / "prog.py").write_text(show)
    plain = subprocess.run(["python3", "prog.py"], cwd=tmp_path, capture_output=True)
    options = ["--no-steps", "--ops=off", "--torch=off"]
    done = record(lapwing, [*options, "prog.py"], tmp_path)
    assert (done.stdout, done.stderr) == (plain.stdout.decode(), "")


def test_torch_is_as_it_was(lapwing: str, torch_python: str, tmp_path: Path) -> None:
    """Signatures, sources, pickles, tracebacks, graph breaks: the program sees no
    difference, and what it saves of a model knows nothing of us."""
    words = [torch_python, str(PROGRAMS / "torch_unchanged.py"), "."]
    (tmp_path / "alone").mkdir()
    with subprocess.Popen(
        words,
        cwd=tmp_path / "alone",
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as alone:
        (tmp_path / "watched").mkdir()
        watched = record(lapwing, words, tmp_path / "watched")
        output, errors = alone.communicate(timeout=300)
    assert (watched.returncode, alone.returncode) == (0, 0), errors
    assert watched.stderr == errors  # 2.14 has warnings
    watched_lines = watched.stdout.replace("/watched/", "/alone/").splitlines()
    assert watched_lines == output.splitlines()
    assert b"lapwing" not in (tmp_path / "watched" / "model.pt").read_bytes()
    assert read_phases(tmp_path / "watched" / "x.lap")
