"""`lapwing.record()`: a program that records itself, with a recorder of its own."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest
from packages import environment
from pythons import interpreter
from recording import calls, run_info

RECORDS = """
import os, sys, time
import lapwing
def step(): pass
def work():
    for _ in range(1000): step()
work()
began = time.monotonic()
with lapwing.record("part", output="x.lap"):
    work()
    {inside}
print("took %.3f" % (time.monotonic() - began))
work()
{after}
"""


def program(
    python: str, folder: Path, lapwing: str, inside: str = "pass", after: str = "pass"
) -> subprocess.CompletedProcess[str]:
    path = f"{Path(lapwing).parent}:{os.environ['PATH']}"
    return subprocess.run(
        [python, "-c", RECORDS.format(inside=inside, after=after)],
        cwd=folder,
        env=environment(PATH=path),
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_only_the_block_is_recorded_and_complete_when_it_ends(
    lapwing: str, python: str, tmp_path: Path
) -> None:
    after = "import json; print(json.load(open('x.lap/run.json'))['state'])"
    done = program(python, tmp_path, lapwing, after=after)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert done.stdout.splitlines()[-1] == "finished"
    assert calls(lapwing, tmp_path)["step"] == 1000


def test_starting_and_ending_a_recorder_is_quick(
    lapwing: str, python: str, tmp_path: Path
) -> None:
    """The best of some, since the machine may be busy; it is 0.05 s on one that is."""
    took = []
    for i in range(10):
        (tmp_path / str(i)).mkdir()
        done = program(python, tmp_path / str(i), lapwing)
        took.append(float(done.stdout.splitlines()[0].removeprefix("took ")))
        if took[-1] < 0.2:
            break
    assert min(took) < 0.2, took


def test_a_program_that_dies_inside_leaves_its_run(
    lapwing: str, python: str, tmp_path: Path
) -> None:
    done = program(python, tmp_path, lapwing, inside="os._exit(3)")
    assert done.returncode == 3
    for _ in range(200):
        if run_info(tmp_path)["state"] == "finished":
            break
        time.sleep(0.02)
    assert run_info(tmp_path)["state"] == "finished"
    assert calls(lapwing, tmp_path)["step"] == 1000


def test_the_recorder_is_no_child_of_the_program(
    lapwing: str, python: str, tmp_path: Path
) -> None:
    inside = (
        "\n    try: os.waitpid(-1, os.WNOHANG)"
        "\n    except ChildProcessError: print('no children')"
    )
    done = program(python, tmp_path, lapwing, inside=inside)
    assert "no children" in done.stdout, done.stderr


def test_forked_children_are_in_the_run(
    lapwing: str, python: str, tmp_path: Path
) -> None:
    inside = (
        "\n    if os.fork() == 0:\n        work()\n        os._exit(0)\n    os.wait()"
    )
    done = program(python, tmp_path, lapwing, inside=inside)
    assert done.returncode == 0, done.stderr
    assert calls(lapwing, tmp_path)["step"] == 2000


def test_a_run_that_cannot_be_written_is_an_error_in_the_program(
    lapwing: str, python: str, tmp_path: Path
) -> None:
    (tmp_path / "x.lap").write_text("in the way")
    done = program(python, tmp_path, lapwing)
    assert done.returncode == 1
    assert "x.lap" in done.stderr


# Raw locks and a thread that starts by C: it makes no recorded call in the second
# recording before it forks.
FORKS_IN_THE_SECOND = """
import _thread, os
import lapwing
def called(): pass
def forks():
    called()
    lived.release()
    second.acquire()
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    print(os.waitpid(pid, 0)[1])
    over.release()
lived, second, over = (_thread.allocate_lock() for _ in range(3))
for lock in (lived, second, over):
    lock.acquire()
with {first}:
    _thread.start_new_thread(forks, ())
    lived.acquire()
with lapwing.record("two", output="two.lap"):
    second.release()
    over.acquire()
"""


@pytest.mark.parametrize(
    "first", ['lapwing.record("one", output="one.lap")', "lapwing.Profile()"]
)
@pytest.mark.parametrize("version", ["3.10", "3.11", "3.12", "3.13"])
def test_a_thread_of_a_former_recording_may_fork_in_the_next(
    lapwing: str, tmp_path: Path, version: str, first: str
) -> None:
    done = subprocess.run(
        [interpreter(version), "-c", FORKS_IN_THE_SECOND.format(first=first)],
        cwd=tmp_path,
        env=environment(PATH=f"{Path(lapwing).parent}:{os.environ['PATH']}"),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr
