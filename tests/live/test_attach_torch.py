"""`lapwing attach --torch`: a window of torch's own profiler out of a running training.

The trainings are real and know nothing of us; only how often their torch asks is set to
every second instead of every five, and where, so that tests do not meet.
"""

from __future__ import annotations

import gzip
import json
import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
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
        assert err == ""


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


def test_a_window_by_duration_has_what_was_asked_for(
    lapwing: str, job: subprocess.Popen[str], tmp_path: Path
) -> None:
    words = ["--torch=shapes,stack", "--duration", "300ms", "-o", "w.pt.trace.json.gz"]
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
    assert any("train_step" in e["name"] for e in events(file, cat="python_function"))

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
    (run,) = tmp_path.glob(".lapwing/runs/*-attached_training.lap")
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
        f"lapwing: process {plain.pid} takes no orders: start it by 'lapwing run "
        "--attachable', or with KINETO_USE_DAEMON=1 in its environment; without "
        "--torch, lapwing attach samples it as it is\n"
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


def test_a_job_of_lapwing_run_is_asked_through_it(
    lapwing: str, torch_python: str, sockets: Path, tmp_path: Path
) -> None:
    """`lapwing run` answers until somebody attaches, and again after that."""
    job = subprocess.Popen(
        [lapwing, "run", "--attachable", "--no-summary", "-o", "job.lap", "--"]
        + [torch_python, str(TRAINING)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=environment() | {"KINETO_CONFIG": str(sockets / "kineto.conf")},
    )
    try:
        assert job.stdout
        pid = int(job.stdout.readline())
        window = attach(lapwing, tmp_path, "--iterations", 2, "-o", "w.json", pid)
        assert window.returncode == 0, window.stderr
        assert events(tmp_path / "w.json", cat="cpu_op", name="aten::linear")
        out, err = job.communicate(timeout=60)
    finally:
        job.kill()
    assert job.returncode == 0
    assert int(out) > 1
    # What is said is said by us: torch prints nothing.
    assert all(line.startswith("lapwing: ") for line in err.splitlines()), err


@pytest.mark.skipif(not IS_LONG, reason="LAPWING_LONG is not set")
def test_ranks_take_their_windows_at_one_time(
    lapwing: str, torch_python: str, sockets: Path, tmp_path: Path
) -> None:
    """Two ranks below a launcher, which has torch as well, but runs no op."""
    launcher = (
        "import os, subprocess, sys, torch\n"
        "ranks = [subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE,\n"
        "    env=os.environ | {'RANK': str(rank), 'WORLD_SIZE': '2'})\n"
        "    for rank in range(2)]\n"
        "sys.stdin.read()\n"
        "for rank in ranks: rank.communicate()\n"
    )
    words = [torch_python, "-c", launcher, torch_python, str(TRAINING)]
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
    traces = sorted((tmp_path / "w.lap" / "traces").iterdir())
    names = [f"rank{rank}-000001.pt.trace.json.gz" for rank in range(2)]
    assert [trace.name for trace in traces] == names
    spans = []
    for trace in traces:
        ops = [e["ts"] for e in events(trace, cat="cpu_op")]
        spans.append((min(ops), max(ops)))
    common = min(end for _, end in spans) - max(start for start, _ in spans)
    assert common > 0.3e6
    ranks = subprocess.run(
        [lapwing, "report", "w.lap", "ranks", "--json"],
        cwd=tmp_path,
        capture_output=True,
    )
    assert [row["rank"] for row in json.loads(ranks.stdout)["rows"]] == [0, 1]
