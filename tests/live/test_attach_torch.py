"""`lapwing attach --torch`: a window of torch's own profiler out of a running training.

The trainings are real and know nothing of us; only how often the torch of those that
ask is to do so is set to every second instead of every five, and where, so that tests
do not meet.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from packages import environment
from recording import PROGRAMS

TRAINING = PROGRAMS / "attached_training.py"
IS_LONG = bool(os.environ.get("LAPWING_LONG"))


@pytest.fixture(scope="module")
def sockets() -> Iterator[Path]:
    """Where torch looks for its daemon; a socket's path has to be short."""
    with tempfile.TemporaryDirectory(prefix="lapwing-test-", dir="/tmp") as folder:
        conf = Path(folder) / "kineto.conf"
        conf.write_text("ON_DEMAND_CONFIG_UPDATE_INTERVAL_SECS=1\n")
        yield Path(folder)


def attachable(sockets: Path) -> dict[str, str]:
    return {
        "KINETO_USE_DAEMON": "1",
        "KINETO_CONFIG": str(sockets / "kineto.conf"),
        "KINETO_IPC_SOCKET_DIR": str(sockets),
        "KINETO_LOG_LEVEL": "99",
    }


# What torch itself prints, now and then, of an op that runs when a window ends.
OPEN_OP = re.compile(r"\[W.* collection\.cpp:\d+\] Warning: .*\n")


@contextmanager
def training(
    python: str, variables: dict[str, str], *words: str
) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [python, str(TRAINING), *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment() | variables,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def wait_until_it_trains(process: subprocess.Popen[str]) -> None:
    assert process.stdout
    assert process.stdout.readline() == f"{process.pid}\n"


@pytest.fixture(scope="module")
def plain(torch_python: str) -> Iterator[subprocess.Popen[str]]:
    """A training that was not started to be attached to."""
    with training(torch_python, {}) as process:
        yield process


@pytest.fixture(scope="module")
def job(
    torch_python: str, sockets: Path, plain: subprocess.Popen[str]
) -> Iterator[subprocess.Popen[str]]:
    """One that was. Both start at the same time, which takes seconds."""
    with training(torch_python, attachable(sockets)) as process:
        wait_until_it_trains(process)
        yield process
        # It goes on as if we had never been there, and nobody has printed anything.
        # With nobody to ask, torch would need up to ten seconds to end.
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as silent:
            silent.bind(str(sockets / "dynolog"))
            out, err = process.communicate(timeout=30)
        assert process.returncode == 0
        assert int(out) > 1
        assert OPEN_OP.sub("", err) == ""


def attach(
    lapwing: str, folder: Path, *words: str | int
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [lapwing, "attach", "--torch", *map(str, words)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
    )


def events(path: Path, **wanted: str) -> list[dict[str, Any]]:
    """The events of a trace that have these members."""
    text = (
        gzip.decompress(path.read_bytes())
        if path.suffix == ".gz"
        else path.read_bytes()
    )
    every: list[dict[str, Any]] = json.loads(text)["traceEvents"]
    return [
        e for e in every if all(e.get(key) == value for key, value in wanted.items())
    ]


def survives_stacks(python: str) -> bool:
    """Torch 2.6 crashes on Python 3.13 and later when its profiler records stacks."""
    show = (
        "import sys; from importlib.metadata import version as v;"
        "print(sys.version_info < (3, 13) or not v('torch').startswith('2.6'))"
    )
    return subprocess.check_output([python, "-c", show], text=True) == "True\n"


def test_a_window_by_duration_has_what_was_asked_for(
    lapwing: str, torch_python: str, job: subprocess.Popen[str], tmp_path: Path
) -> None:
    has_stacks = survives_stacks(torch_python)
    if not has_stacks:
        refused = attach(lapwing, tmp_path, "--torch=stack", job.pid)
        assert refused.returncode == 1
        assert f"lapwing: process {job.pid} would crash: " in refused.stderr
    words = ["--torch=shapes,stack" if has_stacks else "--torch=shapes"]
    words += ["--duration", "300ms", "-o", "w.pt.trace.json.gz"]
    done = attach(lapwing, tmp_path, *words, job.pid)
    assert done.returncode == 0, done.stderr
    file = tmp_path / "w.pt.trace.json.gz"
    linear = events(file, cat="cpu_op", name="aten::linear")
    starts = [e["ts"] for e in linear]
    assert 0.1e6 < max(starts) - min(starts) < 0.4e6
    assert {tuple(map(tuple, e["args"]["Input Dims"][:2])) for e in linear} == {
        ((16, 32), (64, 32)),
        ((16, 64), (32, 64)),
        ((16, 32), (1, 32)),
    }
    functions = events(file, cat="python_function")
    assert any("train_step" in e["name"] for e in functions) == has_stacks

    report = subprocess.run(
        [lapwing, "report", file.name], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout == report.stdout != ""
    assert done.stderr.splitlines()[-1] == (
        "lapwing: the trace is w.pt.trace.json.gz; next: "
        "lapwing report w.pt.trace.json.gz ops"
    )
    assert [p.name for p in tmp_path.iterdir()] == ["w.pt.trace.json.gz"]
    assert not list(Path("/tmp").glob(f"lapwing-*/*_{job.pid}.*"))


def test_a_window_by_iterations_is_that_many_in_a_run_of_its_own(
    lapwing: str, job: subprocess.Popen[str], tmp_path: Path
) -> None:
    done = attach(lapwing, tmp_path, "--iterations", 3, job.pid)
    assert done.returncode == 0, done.stderr
    (run,) = tmp_path.glob(".lapwing/runs/*.lap")
    (trace,) = (run / "traces").iterdir()
    assert trace.name == f"pid{job.pid}-000001.pt.trace.json.gz"
    steps = [e for e in events(trace, ph="X") if e["name"] == "Optimizer.step#SGD.step"]
    # Kineto ends the window from another thread, so on a busy machine there are more;
    # by its usual duration, half a second, there would be dozens.
    assert 3 <= len(steps) <= 15
    rows = subprocess.run(
        [lapwing, "report", "ops", "--json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    names = {row["name"] for row in json.loads(rows.stdout)["rows"]}
    assert "aten::linear" in names
    assert "next: lapwing report ops\n" in done.stderr


def test_what_cannot_be_attached_to_is_told_what_it_lacks(
    lapwing: str,
    job: subprocess.Popen[str],
    plain: subprocess.Popen[str],
    tmp_path: Path,
) -> None:
    without = attach(lapwing, tmp_path, "--no-children", os.getpid())
    assert without.returncode == 1
    assert without.stderr == (
        f"lapwing: process {os.getpid()} has not imported torch (yet); without "
        "--torch, lapwing attach samples it\n"
    )
    both = attach(lapwing, tmp_path, "--iterations", 1, "--duration", "1s", job.pid)
    assert both.returncode == 2
    assert "not both" in both.stderr
    svg = attach(lapwing, tmp_path, "-o", "x.svg", job.pid)
    assert svg.returncode == 2
    assert "lapwing export makes others of it" in svg.stderr
    wait_until_it_trains(plain)
    refused = attach(lapwing, tmp_path, plain.pid)
    assert refused.returncode == 1
    assert refused.stderr == (
        f"lapwing: process {plain.pid} takes no orders: start it by 'lapwing run', or "
        "with KINETO_USE_DAEMON=1 in its environment; without --torch, lapwing attach "
        "samples it as it is\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_ends_the_waiting_and_leaves_nothing(
    lapwing: str, job: subprocess.Popen[str], tmp_path: Path
) -> None:
    """A stopped process does not ask, so there is time."""
    os.kill(job.pid, signal.SIGSTOP)
    try:
        waiting = subprocess.Popen(
            [lapwing, "attach", "--torch", str(job.pid)],
            cwd=tmp_path,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert waiting.stderr
        assert "waiting for process" in waiting.stderr.readline()
        time.sleep(0.2)
        waiting.send_signal(signal.SIGINT)
        _, err = waiting.communicate(timeout=10)
    finally:
        os.kill(job.pid, signal.SIGCONT)
    assert waiting.returncode == 1
    assert err == "lapwing: no window was taken: interrupted\n"
    assert not list(tmp_path.glob(".lapwing/runs/*.lap"))


@contextmanager
def recorded(
    lapwing: str, folder: Path, *words: str
) -> Iterator[subprocess.Popen[str]]:
    """A training that plain `lapwing run` started, which knows nothing of attaching."""
    process = subprocess.Popen(
        [lapwing, "run", "--no-summary", "-o", "job.lap", "--", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=environment(),
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    return process.stdout.readline().rstrip("\n")


def profiler_steps(path: Path) -> int:
    """How many whole steps torch's profiler has marked."""
    return len({e["name"] for e in events(path, ph="X") if "ProfilerS" in e["name"]})


def test_a_job_of_lapwing_run_takes_windows_of_its_next_steps(
    lapwing: str, torch_python: str, tmp_path: Path
) -> None:
    """Any number of them, by steps or by time, with memory too; and it goes on as if
    nobody had been there."""
    with recorded(lapwing, tmp_path, torch_python, str(TRAINING)) as job:
        pid = int(line_of(job))
        words = ["--iterations", "3", "-o", "w.json"]
        window = attach(lapwing, tmp_path, "--torch=shapes,memory,stack", *words, pid)
        has_stacks = survives_stacks(torch_python)
        if not has_stacks:
            assert "crashes when its profiler records stacks" in window.stderr
            window = attach(lapwing, tmp_path, "--torch=shapes,memory", *words, pid)
        assert window.returncode == 0, window.stderr
        second = attach(lapwing, tmp_path, "--duration", "200ms", job.pid)
        assert second.returncode == 0, second.stderr
        out, err = job.communicate(timeout=60)
    assert job.returncode == 0
    assert int(out) > 6
    # What is said is said by us, but for a warning of torch's that comes with memory.
    others = [line for line in err.splitlines() if not line.startswith("lapwing: ")]
    assert all("Memory block of unknown size" in line for line in others), err

    trace = tmp_path / "w.json"
    assert profiler_steps(trace) == 3
    linear = events(trace, cat="cpu_op", name="aten::linear")
    assert len(linear) == 3 * 3
    assert linear[0]["args"]["Input Dims"][0] == [16, 32]
    assert events(trace, name="[memory]")
    functions = events(trace, cat="python_function")
    assert any("train_step" in e["name"] for e in functions) == has_stacks
    assert "recorded no memory" not in window.stderr

    (run,) = tmp_path.glob(".lapwing/runs/*.lap")
    (trace,) = (run / "traces").iterdir()
    assert trace.name == f"pid{pid}-000001.pt.trace.json.gz"
    starts = [e["ts"] for e in events(trace, cat="cpu_op", name="aten::linear")]
    assert max(starts) - min(starts) > 0.15e6
    assert len(starts) == 3 * profiler_steps(trace)
    assert not list(Path("/tmp").glob(f"lapwing-*/order-{pid}"))


STORY = """
import os, signal, sys, time, torch
story = sys.argv[1]
model = torch.nn.Linear(8, 8)
def call():
    with torch.no_grad():
        model(torch.ones(2, 8))
    time.sleep(0.01)
    return torch.autograd._profiler_enabled()
print(os.getpid(), flush=True)
while not call():
    pass
# Now it is in a window.
if story == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
elif story == "own":
    with torch.profiler.profile():
        call()
elif story == "fork":
    child = os.fork()
    if child == 0:
        call()
        sys.exit()
    assert os.waitpid(child, 0)[1] == 0
while call():
    pass
print("over")
"""


@pytest.mark.parametrize(
    ("story", "said"),
    [
        ("fork", ""),
        ("kill", "ended before its window was over"),
        ("own", "started torch's profiler itself in the window, and two cannot run"),
    ],
)
def test_whatever_a_job_does_in_its_window_there_is_a_trace_or_a_sentence(
    lapwing: str, torch_python: str, tmp_path: Path, story: str, said: str
) -> None:
    """It does not even train: its steps are the calls of a model."""
    words = [torch_python, "-c", STORY, story]
    with recorded(lapwing, tmp_path, *words) as job:
        pid = int(line_of(job))
        window = attach(lapwing, tmp_path, "--iterations", 5, "-o", "w.json", pid)
        out, err = job.communicate(timeout=60)
    assert window.returncode == (1 if said else 0), window.stderr
    if said:
        assert f"lapwing: process {pid} {said}" in window.stderr
        assert [p.name for p in tmp_path.iterdir()] == ["job.lap"]
    else:
        assert profiler_steps(tmp_path / "w.json") == 5
    assert out == ("" if story == "kill" else "over\n"), err
    others = [line for line in err.splitlines() if not line.startswith("lapwing: ")]
    # Kineto announces the program's own, and 3.12 and later warn of a fork.
    known = {"own": "USDT:", "fork": "fork"}.get(story, "nothing")
    assert all(known in line for line in others), err


LAUNCHER = (
    "import os, subprocess, sys, torch\n"
    "ranks = [subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE,\n"
    "    env=os.environ | {'RANK': str(rank), 'WORLD_SIZE': '2'})\n"
    "    for rank in range(2)]\n"
    "sys.stdin.read()\n"
    "for rank in ranks: rank.communicate()\n"
)


def common_time(run: Path) -> float:
    """How many us the windows of both ranks have in common."""
    traces = sorted((run / "traces").iterdir())
    names = [f"rank{rank}-000001.pt.trace.json.gz" for rank in range(2)]
    assert [trace.name for trace in traces] == names
    times = [[e["ts"] for e in events(t, cat="cpu_op")] for t in traces]
    common: float = min(map(max, times)) - max(map(min, times))
    return common


def test_ranks_of_a_recorded_job_take_their_windows_at_one_time(
    lapwing: str, torch_python: str, tmp_path: Path
) -> None:
    """Two ranks below a launcher, which has torch as well, but makes no step."""
    words = [torch_python, "-c", LAUNCHER, torch_python, str(TRAINING)]
    with recorded(lapwing, tmp_path, *words, str(tmp_path / "meet")) as job:
        for _ in range(2):
            line_of(job)
        done = attach(lapwing, tmp_path, "--iterations", 4, "-o", "w.lap", job.pid)
        assert done.returncode == 0, done.stderr
        job.communicate(timeout=60)
    assert job.returncode == 0
    assert "1 of 3 processes made no step meanwhile" in done.stderr
    assert common_time(tmp_path / "w.lap") > 0
    traces = (tmp_path / "w.lap" / "traces").iterdir()
    assert [profiler_steps(trace) for trace in traces] == [4, 4]


@pytest.mark.skipif(not IS_LONG, reason="LAPWING_LONG is not set")
def test_ranks_take_their_windows_at_one_time(
    lapwing: str, torch_python: str, sockets: Path, tmp_path: Path
) -> None:
    """Two ranks below a launcher, which has torch as well, but runs no op."""
    words = [torch_python, "-c", LAUNCHER, torch_python, str(TRAINING)]
    job = subprocess.Popen(
        [*words, str(tmp_path / "meet")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment() | attachable(sockets),
    )
    try:
        assert job.stdout
        pids = sorted(int(job.stdout.readline()) for _ in range(2))
        done = attach(lapwing, tmp_path, "--duration", "500ms", "-o", "w.lap", job.pid)
        assert done.returncode == 0, done.stderr
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        job.kill()
        job.communicate()
    assert "ran nothing of torch in the window; it is left out" in done.stderr
    assert common_time(tmp_path / "w.lap") > 0.3e6
    ranks = subprocess.run(
        [lapwing, "report", "w.lap", "ranks", "--json"],
        cwd=tmp_path,
        capture_output=True,
    )
    assert [row["rank"] for row in json.loads(ranks.stdout)["rows"]] == [0, 1]
