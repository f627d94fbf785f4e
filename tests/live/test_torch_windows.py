"""Windows of torch's profiler: lapwing.torch, and `lapwing run --torch` on scripts that
know nothing of it.

What lapwing.torch promises is asked by tests/programs/window_api.py, in a process of
the torch that is tested; each of its checks is a test here.
"""

from __future__ import annotations

import gzip
import json
import re
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from packages import environment
from recording import PROGRAMS

API = PROGRAMS / "window_api.py"
TRAINING = PROGRAMS / "window_train.py"
STEPS = "11"
CHECKS = re.findall(r"^def (check_\w+)", API.read_text(), re.MULTILINE)


@cache
def outcomes(python: str) -> dict[str, str]:
    done = subprocess.run(
        [python, API], env=environment(), capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("check", CHECKS)
def test_lapwing_torch(torch_python: str, check: str) -> None:
    assert outcomes(torch_python)[check] == ""


class Run:
    """A training that was recorded with --torch, and what came of it."""

    def __init__(self, program: str, folder: Path, words: list[str]) -> None:
        self.program = program
        self.path = folder / "x.lap"
        self.done = subprocess.run(
            [program, "run", "-o", self.path, *words],
            cwd=folder,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=120,
        )

        self.said = " ".join(self.done.stderr.split())

    def traces(self) -> list[dict[str, Any]]:
        """What torch saw in each window, in their order."""
        found = []
        for path in sorted(self.path.glob("traces/*")):
            assert re.fullmatch(r"pid\d+-\d{6}\.pt\.trace\.json\.gz", path.name), path
            assert path.stat().st_mode & 0o777 == 0o600
            with gzip.open(path) as file:
                found.append(json.load(file))
        return found

    def steps(self) -> list[list[str]]:
        return [
            sorted(
                event["name"]
                for event in trace["traceEvents"]
                if event.get("name", "").startswith("ProfilerStep#")
            )
            for trace in self.traces()
        ]

    def report(self, *words: str) -> str:
        done = subprocess.run(
            [self.program, "report", self.path, *words],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


def train(
    lapwing: str,
    python: str,
    folder: Path,
    schedule: str,
    *story: str,
    torch: str = "--torch",
) -> Run:
    options = [torch, "--schedule", schedule]
    return Run(lapwing, folder, [*options, "--", python, str(TRAINING), *story])


@cache
def weights(python: str) -> str:
    """What a training of STEPS steps prints when nobody watches."""
    words = [python, TRAINING, STEPS]
    return subprocess.check_output(words, env=environment(), text=True)


def test_an_unmodified_script_has_windows(
    lapwing: str, torch_python: str, tmp_path: Path
) -> None:
    schedule = "wait=1,warmup=1,active=2,repeat=2"
    words = "--torch=shapes,memory,flops"
    run = train(lapwing, torch_python, tmp_path, schedule, STEPS, torch=words)
    assert run.done.returncode == 0, run.done.stderr
    assert run.done.stdout == weights(torch_python)
    assert run.steps() == [
        ["ProfilerStep#2", "ProfilerStep#3"],
        ["ProfilerStep#6", "ProfilerStep#7"],
    ]
    assert all(t["record_shapes"] == t["profile_memory"] == 1 for t in run.traces())
    assert not list(run.path.glob("traces/.*"))

    # The views of traces take the last window, and say that there is another.
    ops = json.loads(run.report("ops", "--json"))
    assert {"aten::addmm", "aten::relu"} <= {row["name"] for row in ops["rows"]}
    linear = next(row for row in ops["rows"] if row["name"] == "aten::linear")
    assert linear["calls"] == 4  # two layers, two steps
    assert re.search(r"(?m)^missing: 1 windows? \(earlier", run.report("ops"))
    assert "ProfilerStep" not in run.report("functions")
    run.report("overview")
    first = sorted(run.path.glob("traces/*"))[0]
    alone = [run.program, "report", first, "ops", "--json"]
    table = json.loads(subprocess.check_output(alone))
    assert next(r for r in table["rows"] if r["name"] == "aten::linear")["calls"] == 4

    # A packed run has them too.
    pack = tmp_path / "x.lapz"
    subprocess.check_call([run.program, "pack", run.path, "-o", pack])
    packed = [run.program, "report", pack, "ops", "--json"]
    assert json.loads(subprocess.check_output(packed))["rows"] == ops["rows"]
    assert "aten::addmm" not in run.report("functions")


def test_modules_have_rows_where_the_hint_was_followed(
    lapwing: str, torch_python: str, tmp_path: Path
) -> None:
    schedule = "wait=1,warmup=1,active=2,repeat=1"
    without = train(lapwing, torch_python, tmp_path, schedule, STEPS)
    refused = subprocess.run(
        [lapwing, "report", without.path, "modules"], capture_output=True, text=True
    )
    assert refused.returncode == 1
    hint = re.search(r"'lapwing run (--torch=\w+)'", refused.stderr)
    assert hint, refused.stderr

    folder = tmp_path / "again"
    folder.mkdir()
    run = train(lapwing, torch_python, folder, schedule, STEPS, torch="--torch=modules")
    assert hint[1] == "--torch=modules"
    assert run.done.stdout == weights(torch_python)
    if "crashes when its profiler records stacks" in run.said:
        return  # torch's own fault, and said
    (whole,) = json.loads(run.report("modules", "--json"))["rows"]
    inside = [row["name"] for row in whole["children"]]
    assert [whole["name"], *inside] == [
        "Sequential_0",
        "Linear_0",
        "ReLU_0",
        "Linear_1",
    ]


def test_the_programs_own_profiler_comes_first_and_the_end_cuts_a_window(
    lapwing: str, torch_python: str, tmp_path: Path
) -> None:
    schedule = "wait=1,warmup=1,active=3,repeat=2"
    story = ("14", "own", "3", "8")
    run = train(lapwing, torch_python, tmp_path, schedule, *story)
    assert run.done.returncode == 1
    assert "RuntimeError: as asked for" in run.done.stderr
    assert "own: True" in run.done.stdout
    assert "the program ran torch's profiler itself" in run.said
    # The first window was left to the program, which made one step more in its own; of
    # the second, two steps were done when it failed in the third.
    assert run.steps() == [["ProfilerStep#7", "ProfilerStep#8", "ProfilerStep#9"]]


def test_a_program_killed_in_a_window_leaves_the_rest(
    lapwing: str, torch_python: str, tmp_path: Path
) -> None:
    schedule = "wait=0,warmup=1,active=2,repeat=0"
    run = train(lapwing, torch_python, tmp_path, schedule, "9", "kill", "8")
    assert run.done.returncode == -9
    assert run.steps()[0] == ["ProfilerStep#1", "ProfilerStep#2"]
    assert len(run.steps()) == 2
    assert "a window of its profiler, which is lost" in run.said
    assert not list(run.path.glob("traces/.*"))


def test_a_fork_in_a_window_is_on_its_own(
    lapwing: str, torch_python: str, tmp_path: Path
) -> None:
    schedule = "wait=1,warmup=1,active=2,repeat=1"
    run = train(lapwing, torch_python, tmp_path, schedule, STEPS, "fork", "3")
    assert run.done.returncode == 0, run.done.stderr
    assert run.done.stdout == weights(torch_python)
    owners = {path.name.partition("-")[0] for path in run.path.glob("traces/*")}
    main = [s for s in run.steps() if s == ["ProfilerStep#2", "ProfilerStep#3"]]
    assert main and len(owners) <= 2


def test_lapwing_torch_puts_its_windows_into_the_run(
    lapwing: str, torch_python: str, tmp_path: Path
) -> None:
    """And a schedule of --torch that never records says so."""
    run = train(lapwing, torch_python, tmp_path, "skip_first=100", STEPS, "mine")
    assert run.done.returncode == 0, run.done.stderr
    assert run.done.stdout == weights(torch_python)
    assert (
        "no window of torch's profiler was recorded: the program ended in step "
        f"{STEPS}, and the schedule records from step 102 on"
    ) in run.said
    (trace,) = run.traces()
    assert run.steps() == [["ProfilerStep#2", "ProfilerStep#3"]]
    exported = json.loads((tmp_path / "mine.json").read_text())
    assert exported.pop("traceName") == "mine.json"
    trace.pop("traceName")
    assert exported == trace
    # What the program printed is what the report prints of the same trace.
    words = ["ops", "--style", "torch", "--sort", "self_cpu_time_total"]
    assert run.report(*words, "--limit", "1000") == (tmp_path / "mine.txt").read_text()
    ops = json.loads(run.report("ops", "--json"))
    assert "aten::addmm" in {row["name"] for row in ops["rows"]}


def test_what_the_program_says_is_a_step_bounds_windows(
    lapwing: str, torch_python: str, tmp_path: Path
) -> None:
    schedule = "wait=1,warmup=0,active=2"
    run = train(lapwing, torch_python, tmp_path, schedule, STEPS, "said")
    assert run.done.stdout == weights(torch_python), run.done.stderr
    assert run.steps() == [["ProfilerStep#1", "ProfilerStep#2"]]
    (trace,) = run.traces()
    names = [event.get("name") for event in trace["traceEvents"]]
    assert names.count("Optimizer.step#SGD.step") == 2 * 2


def test_where_a_gpu_is_used_there_is_a_window_by_itself(
    lapwing: str, torch_python: str, tmp_path: Path
) -> None:
    words = ["--", torch_python, str(TRAINING), STEPS, "gpu"]
    run = Run(lapwing, tmp_path, words)
    assert run.done.stdout == weights(torch_python), run.done.stderr
    assert run.steps() == [["ProfilerStep#6", "ProfilerStep#7", "ProfilerStep#8"]]


UNHEARD = """
import runpy, sys
from importlib.machinery import PathFinder

class Loader:  # of a torch whose first torch.empty() is no op
    def __init__(self, real):
        self.real = real
    def create_module(self, spec):
        return self.real.create_module(spec)
    def exec_module(self, module):
        self.real.exec_module(module)
        empty = module.empty
        def nothing(*args):
            module.empty = empty
        module.empty = nothing

class Finder:
    def find_spec(self, name, path=None, target=None):
        spec = PathFinder.find_spec(name, path, target) if name == "torch" else None
        if spec:
            spec.loader = Loader(spec.loader)
        return spec

sys.meta_path.insert(sys.meta_path.index(PathFinder), Finder())
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def test_where_ops_cannot_be_heard_torchs_profiler_has_a_window_of_them(
    lapwing: str, torch_python: str, tmp_path: Path
) -> None:
    (tmp_path / "unheard.py").write_text(UNHEARD)
    words = ["--", torch_python, "unheard.py", str(TRAINING), STEPS]
    run = Run(lapwing, tmp_path, words)
    assert run.done.stdout == weights(torch_python), run.done.stderr
    assert "torch's ops are not recorded: torch.empty(0) was not heard of" in run.said
    assert "torch's own profiler records steps 6 to 8" in run.said
    assert run.steps() == [["ProfilerStep#6", "ProfilerStep#7", "ProfilerStep#8"]]
    ops = json.loads(run.report("ops", "--json"))
    assert "aten::addmm" in {row["name"] for row in ops["rows"]}


def test_a_torch_that_is_too_old_says_so(lapwing: str, tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("__version__ = '0.4.1'")
    words = ["--torch", "--", "python3", "-c", "import torch; print('hello')"]
    run = Run(lapwing, tmp_path, words)
    assert run.done.stdout == "hello\n"
    assert (
        "torch's profiler took no window: torch 0.4.1 lacks what it is driven by"
    ) in run.said


def test_a_broken_schedule_starts_nothing(lapwing: str, tmp_path: Path) -> None:
    words = ["--torch", "--schedule", "active=0", "--", "touch", "started"]
    run = Run(lapwing, tmp_path, words)
    assert run.done.returncode == 2
    assert run.said.startswith("lapwing: run: --schedule with active=0 would record")
    assert not any(tmp_path.iterdir())


def test_a_program_without_torch_says_so(lapwing: str, tmp_path: Path) -> None:
    words = ["--torch", "--", "python3", "-c", "print('hello')"]
    run = Run(lapwing, tmp_path, words)
    assert run.done.stdout == "hello\n"
    assert "the program did not import torch" in run.said
