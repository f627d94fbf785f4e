"""Processes that are odd, go wrong or are none of ours, looked at by `dump`, `attach`
and the sampler itself: each is read, or refused in a sentence, and nothing hangs.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import sampling
from sampling import PROGRAMS

NO_PROCESS = 2**22 + 1  # more than the kernel gives out
BUSY = """
import sys, time
def spin():
    while True:
        time.sleep(0.001)
def outer():
    print("ready", flush=True)
    spin()
outer()
"""

WAIT = "import time; time.sleep(60)"


def lapwing_on(
    lapwing: str, *words: str, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [lapwing, *words], capture_output=True, text=True, timeout=60, cwd=cwd
    )


@contextmanager
def busy(python: str, *options: str, **more: object) -> Iterator[int]:
    with sampling.running([python, *options, "-c", BUSY], **more) as program:
        yield program.pid


def check_dump(lapwing: str, pid: int) -> str:
    time.sleep(0.1)  # it is on its way there from saying "ready"
    done = lapwing_on(lapwing, "dump", str(pid))
    assert done.returncode == 0, done.stderr
    assert "spin (<string>:5)" in done.stdout
    assert "outer (<string>:8)" in done.stdout
    return done.stdout


def check_refused(lapwing: str, pid: int, sentence: str, folder: Path) -> None:
    """Both say the same, once, and leave nothing behind."""
    for words in (["dump"], ["attach", "--duration", "1s", "-o", "x.lap"]):
        done = lapwing_on(lapwing, *words, str(pid), cwd=folder)
        assert done.returncode == 1
        assert done.stdout == ""
        assert done.stderr == f"lapwing: {sentence}\n"
    assert list(folder.iterdir()) == []


# ---- what cannot be looked at --------------------------------------------------------


def test_no_such_process(lapwing: str, tmp_path: Path) -> None:
    sentence = f"there is no process {NO_PROCESS}"
    check_refused(lapwing, NO_PROCESS, sentence, tmp_path)


def test_a_process_that_is_not_python(lapwing: str, tmp_path: Path) -> None:
    program = shutil.which("sleep")
    assert program
    with subprocess.Popen([program, "60"]) as process:
        time.sleep(0.1)
        path = os.path.realpath(program)
        sentence = f"process {process.pid} runs {path}, which is not Python"
        check_refused(lapwing, process.pid, sentence, tmp_path)
        process.kill()


def test_a_process_that_has_ended(lapwing: str, tmp_path: Path) -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    name = Path(f"/proc/{pid}/comm").read_text().strip()
    sentence = (
        f"process {pid} ({name}) has ended; its parent {os.getpid()} has not taken "
        "notice yet"
    )
    check_refused(lapwing, pid, sentence, tmp_path)
    os.waitpid(pid, 0)


def test_a_thread_of_the_kernel(lapwing: str, tmp_path: Path) -> None:
    comm = Path("/proc/2/comm")
    name = comm.read_text().strip() if comm.exists() else ""
    if name != "kthreadd":
        pytest.skip("no thread of the kernel is seen here")
    sentence = f"process 2 ({name}) has no memory of its own: it belongs to the kernel"
    check_refused(lapwing, 2, sentence, tmp_path)


# ---- what is odd, and can ------------------------------------------------------------


def test_a_process_that_is_stopped(lapwing: str, python: str) -> None:
    with busy(python) as pid:
        time.sleep(0.1)
        os.kill(pid, signal.SIGSTOP)
        assert "(stopped)" in check_dump(lapwing, pid)


@pytest.mark.parametrize("option", ["-I", "-S", "-E"])
def test_a_python_without_its_environment(
    lapwing: str, python: str, option: str
) -> None:
    with busy(python, option) as pid:
        check_dump(lapwing, pid)


def copy_of(python: str, folder: Path) -> tuple[Path, dict[str, str]]:
    """The interpreter's program under another name, and how it finds its library."""
    show = "import sys; print(sys.base_prefix); print(sys._base_executable)"
    prefix, program = subprocess.check_output(
        [python, "-c", show], text=True
    ).splitlines()
    copy = folder / "interpreter"
    shutil.copy(os.path.realpath(program), copy)
    libraries = f"{prefix}/lib:{os.environ.get('LD_LIBRARY_PATH', '')}"
    return copy, {**os.environ, "PYTHONHOME": prefix, "LD_LIBRARY_PATH": libraries}


@pytest.mark.parametrize("how", ["removed", "replaced"])
def test_a_program_that_is_no_more_what_it_was_on_disk(
    lapwing: str, python: str, how: str, tmp_path: Path
) -> None:
    copy, env = copy_of(python, tmp_path)
    with busy(str(copy), env=env) as pid:
        copy.unlink()
        if how == "replaced":
            shutil.copy("/bin/true", copy)
        check_dump(lapwing, pid)


def test_a_program_started_by_another_loader(
    lapwing: str, python: str, tmp_path: Path
) -> None:
    copy, env = copy_of(python, tmp_path)
    program = copy.read_bytes()
    loader = re.search(rb"/[^\0']*ld-linux[^\0']*", program)
    assert loader
    words = [loader[0].decode(), str(copy)]
    if program.startswith(b"#!"):  # tools/debian_python.py does so already
        words, env = [python], dict(os.environ)
    with busy(*words, env=env) as pid:
        check_dump(lapwing, pid)


NATIVE_THREADS = """
import ctypes, time
libc = ctypes.CDLL(None)
for i in range(200):
    thread = ctypes.c_ulong()
    libc.pthread_create(ctypes.byref(thread), None, libc.pause, None)
"""


def test_two_hundred_threads_without_python(lapwing: str, python: str) -> None:
    with sampling.running([python, "-c", NATIVE_THREADS + BUSY]) as program:
        done = lapwing_on(lapwing, "dump", "--json", str(program.pid))
        assert done.returncode == 0, done.stderr
        sampled = sampling.sample(program.pid, 1000, 5, 500)
    counts = sampled.counts
    assert counts["stacks"] == counts["samples"]
    assert {row[4][-1][2] for row in sampled.rows if row[4][-1][0] != "(moving)"} == {
        "spin"
    }


def test_a_thread_whose_state_has_run_nothing(lapwing: str, python: str) -> None:
    words = [python, str(PROGRAMS / "recorded.py")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout and program.stdout.readline()
        done = lapwing_on(lapwing, "dump", str(program.pid))
        sampled = sampling.sample(program.pid, 1000, 5, 100)
        program.kill()
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("entry_generator") == 1
    counts = sampled.counts
    assert counts["stacks"] == 3 * counts["samples"]
    nothing = sum(row[0] for row in sampled.rows if row[4] == [("(no Python)",)])
    assert nothing == counts["samples"]


# ---- what changes while it is watched ------------------------------------------------


def test_a_process_that_dies(python: str) -> None:
    with busy(python) as pid:
        process = sampling.start(pid, 1000, 30, 10**9)
        time.sleep(0.3)
        os.kill(pid, signal.SIGKILL)
        sampled = sampling.finish(process, timeout=5)
    assert sampled.counts["has_ended"]
    assert sampled.samples > 50


@pytest.mark.parametrize("another", ["sleep", "python"])
def test_a_process_that_becomes_another_program(python: str, another: str) -> None:
    words = {"sleep": ["sleep", "60"], "python": [python, "-c", WAIT]}[another]
    script = BUSY.replace(
        "        time.sleep(0.001)",
        "        time.sleep(0.001)\n"
        "        if time.perf_counter() - start > 0.4:\n"
        f"            os.execvp({words[0]!r}, {words!r})",
    ).replace("import sys, time", "import os, time\nstart = time.perf_counter()")
    with sampling.running([python, "-c", script]) as program:
        sampled = sampling.sample(program.pid, 1000, 20, 10**9)
        assert program.poll() is None
    assert sampled.counts["has_ended"]
    names = {f[2] for row in sampled.rows for f in row[4] if len(f) > 2}
    assert "spin" in names


FORK_STORM = """
import os, sys, time
def child():
    end = time.perf_counter() + 0.003
    while time.perf_counter() < end: pass
    os._exit(0)
print("ready", flush=True)
end = time.perf_counter() + 2
count = 0
while time.perf_counter() < end:
    pids = []
    for _ in range(8):
        pid = os.fork()
        if pid == 0: child()
        pids.append(pid)
    for pid in pids: os.waitpid(pid, 0)
    count += 8
"""


def test_a_storm_of_forks(lapwing: str, python: str, tmp_path: Path) -> None:
    with sampling.running([python, "-c", FORK_STORM]) as program:
        words = ["attach", "--no-summary", "-o", "x.lap", str(program.pid)]
        done = lapwing_on(lapwing, *words, cwd=tmp_path)
        assert program.wait(10) == 0
    assert done.returncode == 0, done.stderr
    report = lapwing_on(lapwing, "report", "x.lap", "functions", cwd=tmp_path)
    assert report.returncode == 0, report.stderr
    assert "<module>" in report.stdout


def take_pid(pid: int, words: list[str]) -> subprocess.Popen[str] | None:
    """A process with that PID, if the kernel lets us choose."""
    last = Path("/proc/sys/kernel/ns_last_pid")
    for _ in range(200):
        try:
            last.write_text(str(pid - 1))
        except OSError:
            return None
        process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        if process.pid == pid:
            return process
        process.kill()
        process.communicate()
    return None


def test_another_process_with_its_pid(python: str) -> None:
    first = subprocess.Popen([python, "-c", BUSY], stdout=subprocess.PIPE, text=True)
    assert first.stdout and first.stdout.readline()
    process = sampling.start(first.pid, 200, 20, 10**9)
    time.sleep(0.3)
    first.kill()
    first.communicate()
    script = BUSY.replace("spin", "other")
    second = take_pid(first.pid, [python, "-c", script])
    sampled = sampling.finish(process)
    if second is None:
        pytest.skip("no right to choose a PID")
    second.kill()
    second.communicate()
    assert sampled.counts["has_ended"]
    names = {f[2] for row in sampled.rows for f in row[4] if len(f) > 2}
    assert "spin" in names
    assert "other" not in names
