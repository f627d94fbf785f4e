"""Children of every kind are recorded, each once, with exact counts."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from packages import environment
from pythons import interpreter
from recording import PROGRAMS, calls, run, run_info, view

KINDS = (
    "os-fork os-fork-exit fork spawn forkserver subprocess exec pool nested"
).split()


@pytest.mark.parametrize("kind", KINDS)
def test_calls_in_children_are_exact(
    lapwing: str, python: str, tmp_path: Path, kind: str
) -> None:
    words = ["--", python, str(PROGRAMS / "processes.py"), kind, "3", "4000"]
    done = run(lapwing, words, tmp_path)
    assert done.returncode == 0, done.stderr
    known = json.loads(done.stdout)
    counts = calls(lapwing, tmp_path)
    for name, expected in known["functions"].items():
        assert counts[name] == expected["calls"], name
    assert not run_info(tmp_path).get("losses")
    assert len(view(lapwing, tmp_path, "processes")["rows"]) >= known["processes"]


def test_time_spent_as_another_program_is_not_pythons(
    lapwing: str, python: str, tmp_path: Path
) -> None:
    script = (
        "import os\n"
        "def becomes_another(): os.execvp('sleep', ['sleep', '1'])\n"
        "def waits_for_it():\n"
        "    if os.fork() == 0: becomes_another()\n"
        "    os.wait()\n"
        "waits_for_it()\n"
    )
    assert run(lapwing, ["--", python, "-c", script], tmp_path).returncode == 0
    rows = view(lapwing, tmp_path, "functions")["rows"]
    total_ns = {row["function"]: row["total_ns"] for row in rows}
    assert total_ns["waits_for_it"] > 0.99e9
    assert total_ns["becomes_another"] < total_ns["waits_for_it"] - 0.99e9


def test_many_processes_at_once(lapwing: str, python: str, tmp_path: Path) -> None:
    words = ["--", python, str(PROGRAMS / "processes.py"), "os-fork", "100", "50"]
    done = run(lapwing, words, tmp_path)
    assert done.returncode == 0, done.stderr
    assert calls(lapwing, tmp_path)["leaf"] == 100 * 50
    assert len(view(lapwing, tmp_path, "processes")["rows"]) == 101


def test_ranks_are_taken_from_the_environment(
    lapwing: str, python: str, tmp_path: Path
) -> None:
    script = (
        "import os, subprocess, sys\n"
        "child = [sys.executable, '-c', 'import time; time.sleep(0.2)']\n"
        "for rank in range(3):\n"
        "    subprocess.run(child, env={**os.environ, 'RANK': str(rank)})\n"
    )
    assert run(lapwing, ["--", python, "-c", script], tmp_path).returncode == 0
    rows = view(lapwing, tmp_path, "processes")["rows"]
    ranks = [row["rank"] for row in rows if row["rank"] is not None]
    assert sorted(ranks) == [0, 1, 2]


def test_the_ranks_of_torchrun_are_recorded(lapwing: str, tmp_path: Path) -> None:
    script = (
        "import torch.distributed as dist\n"
        "def step(i): pass\n"
        "dist.init_process_group('gloo')\n"
        "for i in range(100): step(i)\n"
        "dist.barrier()\n"
        "dist.destroy_process_group()\n"
    )
    (tmp_path / "train.py").write_text(script)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    done = run(lapwing, ["--", *torchrun, "train.py"], tmp_path)
    assert done.returncode == 0, done.stderr
    assert calls(lapwing, tmp_path)["step"] == 200
    rows = view(lapwing, tmp_path, "processes")["rows"]
    assert sorted(str(row["rank"]) for row in rows) == ["0", "1", "None"]


# More than wait at a recorder's socket, which are 4,096 at most (1,024 are asked for).
FORKS_PAST_A_STOPPED_RECORDER = """
import os, signal, subprocess, sys
os.kill(os.getppid(), signal.SIGSTOP)
for _ in range(1100):
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
subprocess.run([sys.executable, "-c", "pass"], check=True)
os.kill(os.getppid(), signal.SIGCONT)
"""


def test_who_could_not_wait_for_a_stopped_recorder_is_counted(
    lapwing: str, tmp_path: Path
) -> None:
    words = ["--", interpreter("3.11"), "-c", FORKS_PAST_A_STOPPED_RECORDER]
    done = run(lapwing, words, tmp_path)
    assert done.returncode == 0, done.stderr
    table = view(lapwing, tmp_path, "processes")
    notes = "\n".join(table["notes"])
    forked = int(re.findall(r"missing: (\d+) processes of .*\(forked", notes)[0])
    started = int(re.findall(r"missing: (\d+) process.*\(could not", notes)[0])
    assert len(table["rows"]) + forked == 1 + 1100
    assert started == 1


SLOW_TO_SAY_HELLO = """
import subprocess, sys, time
def work():
    end = time.thread_time() + 0.3
    while time.thread_time() < end: pass
if len(sys.argv) > 1:
    children = [subprocess.Popen([sys.executable, __file__]) for _ in range(8)]
    sys.exit(any(child.wait() for child in children))
work()
"""


def test_who_says_hello_late_is_one_process_with_all_that_was_seen_of_it(
    lapwing: str, tmp_path: Path
) -> None:
    # Python runs the lines of .pth files before it comes to the agent.
    site = tmp_path / "lib" / "python3.11" / "site-packages"
    site.mkdir(parents=True)
    (site / "slow.pth").write_text("import time; time.sleep(1)\n")
    (tmp_path / "job.py").write_text(SLOW_TO_SAY_HELLO)
    words = ["--", interpreter("3.11"), "job.py", "parent"]
    where = {**os.environ, "PYTHONUSERBASE": str(tmp_path)}
    done = run(lapwing, words, tmp_path, mode=(), env=where)
    assert done.returncode == 0, done.stderr
    table = view(lapwing, tmp_path, "processes")
    assert len(table["rows"]) == 1 + 8
    assert len({row["pid"] for row in table["rows"]}) == 1 + 8
    assert "processes" not in {
        loss["unit"] for loss in run_info(tmp_path).get("losses") or []
    }
    # Seen while it slept, which was before the hello.
    assert all(row["lived_ns"] > 1e9 for row in table["rows"])


# A child that is recorded before it says hello, and has ended when that is heard.
STOPS_THE_RECORDER_BEFORE_ITS_HELLO = """
import glob, os, signal, time
end = time.monotonic() + 60
if "RECORDER" in os.environ:
    while not glob.glob("x.lap/p0002-*") and time.monotonic() < end:
        time.sleep(0.05)
    os.kill(int(os.environ["RECORDER"]), signal.SIGSTOP)
"""
STARTS_ONE_THAT_STOPS_THE_RECORDER = """
import os, signal, subprocess, sys
where = {**os.environ, "RECORDER": str(os.getppid())}
try:
    subprocess.run([sys.executable, "-c", "pass"], env=where, check=True)
finally:
    os.kill(os.getppid(), signal.SIGCONT)
"""


def test_a_hello_that_is_heard_after_the_end_of_its_process_makes_no_second_one(
    lapwing: str, tmp_path: Path
) -> None:
    site = tmp_path / "lib" / "python3.11" / "site-packages"
    site.mkdir(parents=True)
    (site / "stops.pth").write_text("import stops\n")
    (site / "stops.py").write_text(STOPS_THE_RECORDER_BEFORE_ITS_HELLO)
    words = ["--", interpreter("3.11"), "-c", STARTS_ONE_THAT_STOPS_THE_RECORDER]
    where = {**os.environ, "PYTHONUSERBASE": str(tmp_path)}
    done = run(lapwing, words, tmp_path, mode=(), env=where)
    assert done.returncode == 0, done.stderr
    assert len(view(lapwing, tmp_path, "processes")["rows"]) == 2
    assert "processes" not in {
        loss["unit"] for loss in run_info(tmp_path).get("losses") or []
    }


# Waits until it is recorded though it has no agent, and becomes a program that has one.
BECOMES_ANOTHER = """
import glob, os, sys, time
end = time.monotonic() + 60
while not glob.glob("x.lap/p0001-*") and time.monotonic() < end:
    time.sleep(0.05)
os.execv(sys.executable, [sys.executable, "-c", "pass"])
"""


def test_another_program_in_a_process_that_said_no_hello_is_its_successor(
    lapwing: str, tmp_path: Path
) -> None:
    words = ["--", interpreter("3.11"), "-S", "-c", BECOMES_ANOTHER]
    done = run(lapwing, words, tmp_path, mode=())
    assert done.returncode == 0, done.stderr
    rows = view(lapwing, tmp_path, "processes")["rows"]
    assert len(rows) == 2
    assert len({row["pid"] for row in rows}) == 1


RECORDS_ITSELF = """
import os, signal
import lapwing
def called(): pass
called()
recorder = os.getppid()
os.kill(recorder, signal.SIGKILL)
while os.getppid() == recorder:
    pass
pid = os.fork()
if pid == 0:
    with lapwing.record("own", output="own.lap"):
        called()
    os._exit(0)
print(os.waitpid(pid, 0)[1])
"""


@pytest.mark.parametrize("version", ["3.10", "3.11", "3.12", "3.13"])
def test_a_child_that_no_recorder_takes_may_record_itself(
    lapwing: str, tmp_path: Path, version: str
) -> None:
    done = subprocess.run(
        [lapwing, "run", "--calls", "-o", "x.lap", "--"]
        + [interpreter(version), "-c", RECORDS_ITSELF],
        cwd=tmp_path,
        env=environment(PATH=f"{Path(lapwing).parent}:{os.environ['PATH']}"),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, "0\n"), done.stderr
    (tmp_path / "x.lap").rename(tmp_path / "parent.lap")
    (tmp_path / "own.lap").rename(tmp_path / "x.lap")
    assert calls(lapwing, tmp_path)["called"] == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="not root: no root can be changed")
def test_a_child_elsewhere_costs_its_own_children_only(
    lapwing: str, python: str, tmp_path: Path
) -> None:
    """What it cannot reach may be there for all others."""
    (tmp_path / "root").mkdir()
    words = [python, PROGRAMS / "chrooted.py", tmp_path / "root"]
    done = subprocess.run(
        [lapwing, "run", "--calls", "--no-summary", "-o", tmp_path / "x.lap", *words],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    processes = json.loads(
        subprocess.check_output(
            [lapwing, "report", tmp_path / "x.lap", "processes", "--json"]
        )
    )
    assert len(processes["rows"]) == 5  # all but the one that was forked in there
