"""`lapwing dump` shows where real threads are."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from standing import PROGRAM, line_of, standing


def dump(lapwing: str, *words: str | int) -> subprocess.CompletedProcess[str]:
    command = [lapwing, "dump", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=30)


def stacks_of(
    lapwing: str, *words: str | int
) -> list[dict[str, list[dict[str, object]]]]:
    done = dump(lapwing, "--json", *words)
    assert done.returncode == 0, done.stderr
    stacks = json.loads(done.stdout)["stacks"]
    assert isinstance(stacks, list)
    return stacks


def places(stack: dict[str, list[dict[str, object]]]) -> list[tuple[object, object]]:
    """(function, line) of the frames of the program itself, innermost first."""
    frames = stack["frames"]
    return [(f["function"], f["line"]) for f in frames if f["file"] == str(PROGRAM)]


def test_every_thread_of_every_process_is_where_it_stands(
    lapwing: str, python: str
) -> None:
    with standing(python) as program:
        stacks = stacks_of(lapwing, program.pid)
    by_function = {places(stack)[0][0]: stack for stack in stacks}
    assert set(by_function) == {"waits", "deep", "busy", "child_runs"}

    waiting = by_function["waits"]
    assert waiting is stacks[-1]  # where the most are comes last
    assert len(waiting["threads"]) == 3
    assert places(waiting)[0] == ("waits", line_of("waits"))
    assert {t["state"] for t in waiting["threads"]} == {"wait"}
    assert all(t["pid"] == program.pid for t in waiting["threads"])

    assert places(by_function["deep"])[1:] == [("deep", line_of("deep"))] * 10
    (busy,) = by_function["busy"]["threads"]
    assert busy["tid"] == busy["pid"] == program.pid
    (child,) = by_function["child_runs"]["threads"]
    assert child["pid"] == program.child


def test_only_those_asked_for(lapwing: str, python: str) -> None:
    with standing(python) as program:
        alone = stacks_of(lapwing, "--no-children", program.pid)
        child = stacks_of(lapwing, program.child)
        twice = stacks_of(lapwing, program.pid, program.child, program.pid)
    assert {t["pid"] for s in alone for t in s["threads"]} == {program.pid}
    assert {t["pid"] for s in child for t in s["threads"]} == {program.child}
    assert sum(len(s["threads"]) for s in twice) == 6


def state_of(pid: int) -> str:
    stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    return stat.rsplit(")", 1)[1].split()[0]


def test_a_stopped_process_is_shown_as_it_stands(lapwing: str, python: str) -> None:
    """It stays stopped: whoever waited for it would wait until the test ends."""
    with standing(python) as program:
        for pid in (program.pid, program.child):
            os.kill(pid, signal.SIGSTOP)
            while state_of(pid) != "T":  # it stops when it gets to it
                time.sleep(0.001)
        done = dump(lapwing, program.pid)
        assert state_of(program.pid) == state_of(program.child) == "T"
    assert done.returncode == 0
    assert f"process {program.pid}: Python 3." in done.stdout
    assert done.stdout.count(" (stopped)\n") == 2
    assert f"    waits ({PROGRAM}:{line_of('waits')})\n" in done.stdout


def test_fifty_threads_take_no_time(lapwing: str, python: str) -> None:
    with standing(python, threads=50) as program:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        stacks = stacks_of(lapwing, program.pid)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert len(stacks[-1]["threads"]) == 50
    # Not the time that passed: the machine may have other things to do.
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 0.5


def test_a_shell_that_started_python_will_do(lapwing: str, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    code = f"import time; open({str(ready)!r}, 'w'); time.sleep(1000)"
    words = ["sh", "-c", '"$0" -c "$1"; true', sys.executable, code]
    process = subprocess.Popen(words, start_new_session=True)
    try:
        while not ready.exists():
            time.sleep(0.01)
        done = dump(lapwing, process.pid)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert done.returncode == 0, done.stderr
    assert "<module> (<string>:1)" in done.stdout
    assert "1 process more is not a Python that can be looked into" in done.stdout


def test_what_is_not_there_or_not_python_is_a_sentence(lapwing: str) -> None:
    process = subprocess.Popen(["sleep", "1000"])
    try:
        done = dump(lapwing, process.pid)
        assert done.returncode == 1
        assert done.stdout == ""
        assert done.stderr.startswith(f"lapwing: process {process.pid} runs ")
        assert done.stderr.endswith("sleep, which is not Python\n")
    finally:
        process.kill()
        process.wait()
    done = dump(lapwing, process.pid)
    assert done.returncode == 1
    assert done.stderr == f"lapwing: there is no process {process.pid}\n"


@pytest.mark.parametrize("word", ["0", "-1", "1e3", "99999999999", ""])
def test_what_is_no_process_number_is_told_so(lapwing: str, word: str) -> None:
    done = dump(lapwing, "--", word)
    assert done.returncode == 2
    assert f"dump: '{word}' is not the number of a process" in done.stderr


def test_without_memory_it_is_a_sentence_or_less_is_shown(
    lapwing: str, python: str
) -> None:
    with standing(python) as program:
        for request in range(1, 80):
            done = subprocess.run(
                [lapwing, "dump", str(program.pid)],
                env=os.environ | {"LAPWING_TEST_FAIL_ALLOC": str(request)},
                capture_output=True,
                text=True,
                timeout=30,
            )
            assert done.returncode in (0, 1), (request, done.stderr)
            assert bool(done.stderr) == bool(done.returncode), request
            assert done.returncode == 0 or done.stderr.startswith("lapwing: "), request
