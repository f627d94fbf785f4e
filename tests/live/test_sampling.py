"""`lapwing run` and `lapwing attach` on samples: whatever Python, however it starts."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from packages import environment
from pythons import SAMPLED, interpreter
from recording import PROGRAMS, view

BURN = """
import sys, threading, time

def burn(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass

def rest(seconds):
    time.sleep(seconds)

start = time.perf_counter()
thread = threading.Thread(target=rest, args=(0.8,), name="waiter")
thread.start()
burn(0.8)
thread.join()
if "times" in sys.argv:
    print(time.perf_counter() - start)
"""

WORKERS = """
import multiprocessing, sys, time

def work(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass

if __name__ == "__main__":
    multiprocessing.set_start_method(sys.argv[1])
    workers = [multiprocessing.Process(target=work, args=(1.0,)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
"""


def sample(
    lapwing: str, words: list[str], folder: Path, **options: Any
) -> subprocess.CompletedProcess[str]:
    command = [lapwing, "run", "--no-summary", "-o", str(folder / "x.lap"), *words]
    return subprocess.run(
        command, cwd=folder, text=True, capture_output=True, timeout=120, **options
    )


def functions(lapwing: str, folder: Path) -> dict[str, dict[str, Any]]:
    return {row["function"]: row for row in view(lapwing, folder, "functions")["rows"]}


@pytest.mark.parametrize("version", SAMPLED)
def test_a_run_is_sampled_by_default(
    lapwing: str, version: str, tmp_path: Path
) -> None:
    (tmp_path / "burn.py").write_text(BURN)
    done = sample(lapwing, ["--", interpreter(version), "burn.py", "times"], tmp_path)
    assert done.returncode == 0
    whole_ns = float(done.stdout) * 1e9
    seen = functions(lapwing, tmp_path)
    # A sample stands for the 5 ms around it; the first ones may come late.
    assert 0.4e9 < seen["burn"]["self_ns"] < whole_ns + 50e6
    assert 0.4e9 < seen["rest"]["self_ns"] < whole_ns + 50e6
    threads = view(lapwing, tmp_path, "threads")["rows"]
    assert len(threads) == 2


def test_calls_take_no_samples_unless_asked(
    lapwing: str, python: str, tmp_path: Path
) -> None:
    (tmp_path / "burn.py").write_text(BURN)
    sample(lapwing, ["--calls", "--", python, "burn.py"], tmp_path)
    run_json = json.loads((tmp_path / "x.lap" / "run.json").read_text())
    assert "samples_taken" not in json.dumps(run_json)
    assert functions(lapwing, tmp_path)["burn"]["calls"] == 1


@pytest.mark.parametrize("option", ["-I", "-S", "-E"])
def test_a_python_that_keeps_the_agent_out_is_sampled(
    lapwing: str, python: str, tmp_path: Path, option: str
) -> None:
    (tmp_path / "burn.py").write_text(BURN)
    done = sample(lapwing, ["--", python, option, "burn.py"], tmp_path)
    assert done.returncode == 0
    assert functions(lapwing, tmp_path)["burn"]["self_ns"] > 0.1e9


def test_what_a_class_calls_to_make_an_object_is_seen(
    lapwing: str, python: str, tmp_path: Path
) -> None:
    """Once it is called often, the interpreter has a frame of its own around it."""
    (tmp_path / "made.py").write_text(
        "import time\n"
        "def work(seconds):\n"
        "    end = time.perf_counter() + seconds\n"
        "    while time.perf_counter() < end:\n"
        "        pass\n"
        "class Thing:\n"
        "    def __init__(self, seconds):\n"
        "        work(seconds)\n"
        "def make(seconds):\n"
        "    return Thing(seconds)\n"
        "for _ in range(1000):\n"
        "    make(0)\n"
        "make(1)\n"
    )
    sample(lapwing, ["--", python, "made.py"], tmp_path)
    seen = functions(lapwing, tmp_path)
    assert seen["work"]["self_ns"] > 0.7e9
    assert seen["make"]["total_ns"] > 0.7e9


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_children_are_sampled_each_apart(
    lapwing: str, python: str, tmp_path: Path, method: str
) -> None:
    (tmp_path / "workers.py").write_text(WORKERS)
    done = sample(lapwing, ["--", python, "workers.py", method], tmp_path)
    assert done.returncode == 0
    rows = view(lapwing, tmp_path, "processes")["rows"]
    busy = [row for row in rows if row["time_ns"] > 0.5e9]
    assert len(busy) >= 3, rows  # the two workers and their parent
    assert functions(lapwing, tmp_path)["work"]["self_ns"] > 1.2e9


def test_marks_are_kept_beside_samples(
    lapwing: str, python: str, tmp_path: Path
) -> None:
    (tmp_path / "marks.py").write_text(
        "import lapwing, time\n"
        "for _ in range(3):\n"
        "    with lapwing.record('epoch'):\n"
        "        time.sleep(0.02)\n"
    )
    words = ["--", python, "marks.py"]
    done = sample(lapwing, words, tmp_path, env=environment())
    assert done.returncode == 0, done.stderr
    words = [lapwing, "export", str(tmp_path / "x.lap"), "--to", "chrome"]
    trace = json.loads(subprocess.run(words, capture_output=True, check=True).stdout)
    assert sum(event.get("name") == "epoch" for event in trace["traceEvents"]) == 3


def test_where_reading_is_refused_it_goes_through_a_descriptor(
    lapwing: str, python: str, tmp_path: Path
) -> None:
    wrapper = tmp_path / "no_process_vm"
    subprocess.run(["cc", "-o", wrapper, PROGRAMS / "no_process_vm.c"], check=True)
    (tmp_path / "burn.py").write_text(BURN)
    words = [
        wrapper,
        lapwing,
        "run",
        "--no-summary",
        "-o",
        "x",
        "--",
        python,
        "burn.py",
    ]
    done = subprocess.run(
        words, cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0
    assert "through a descriptor that they hand over" in done.stderr
    assert functions(lapwing, tmp_path)["burn"]["self_ns"] > 0.4e9


@pytest.mark.parametrize("version", SAMPLED)
def test_attach_to_one_that_runs(lapwing: str, version: str, tmp_path: Path) -> None:
    (tmp_path / "burn.py").write_text(BURN.replace("0.8", "30"))
    words = [interpreter(version), "burn.py"]
    with subprocess.Popen(words, cwd=tmp_path) as program:
        try:
            wait_for_python(lapwing, program.pid)
            words = ["attach", "--duration", "1s", "--no-summary", "-o", "x"]
            done = subprocess.run(
                [lapwing, *words, str(program.pid)],
                cwd=tmp_path,
                capture_output=True,
                text=True,
                timeout=60,
            )
            assert done.returncode == 0, done.stderr
            assert program.poll() is None
            seen = functions(lapwing, tmp_path)
            assert seen["burn"]["self_ns"] > 0.4e9
            assert seen["rest"]["self_ns"] > 0.4e9
        finally:
            program.kill()


def test_attach_ends_with_the_process_or_at_ctrl_c(
    lapwing: str, python: str, tmp_path: Path
) -> None:
    (tmp_path / "burn.py").write_text(BURN.replace("0.8", "3"))
    for stop in (False, True):
        with subprocess.Popen([python, "burn.py"], cwd=tmp_path) as program:
            wait_for_python(lapwing, program.pid)
            words = [lapwing, "attach", "--no-summary", "-o", f"x{stop}"]
            with subprocess.Popen([*words, str(program.pid)], cwd=tmp_path) as attached:
                if stop:
                    time.sleep(1)
                    attached.send_signal(signal.SIGINT)
                assert attached.wait(30) == 0
            assert (program.poll() is None) == stop
        run_json = json.loads((tmp_path / f"x{stop}.lap" / "run.json").read_text())
        assert run_json["state"] == "finished"


def wait_for_python(lapwing: str, pid: int) -> None:
    """Until the interpreter in PID has come up."""
    for _ in range(200):
        words = [lapwing, "dump", str(pid)]
        if b"burn" in subprocess.run(words, capture_output=True).stdout:
            return
        time.sleep(0.05)
    raise AssertionError(f"no Python came up in {pid}")


def test_targets_that_cannot_be_sampled_get_a_sentence(
    lapwing: str, tmp_path: Path
) -> None:
    def attach(pid: object) -> str:
        done = subprocess.run(
            [lapwing, "attach", str(pid)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=30,
        )
        assert done.returncode in (1, 2)
        assert done.stderr.count("\n") == 1
        assert not list(tmp_path.iterdir())
        return done.stderr

    with subprocess.Popen(["sleep", "30"]) as sleeper:
        assert "is not Python" in attach(sleeper.pid)
        sleeper.kill()
    assert "there is no process 4194305" in attach(4194305)
    assert "not the number of a process" in attach("train.py")
    zombie = subprocess.Popen([sys.executable, "-c", ""])
    time.sleep(0.5)
    assert "has ended" in attach(zombie.pid)
    zombie.wait()
