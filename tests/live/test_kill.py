"""Death at any moment: of the program, of the recorder, and by the disk.

The program under test (counting.py) keeps its own count in a file it maps, with the
time, so that what a recording holds can be compared with what was really done.
"""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from recording import PROGRAMS, calls, run, run_info, view

sys.path.insert(0, str(PROGRAMS))
import counting  # noqa: E402

COUNTING = str(PROGRAMS / "counting.py")
MOMENTS = 100
BEHIND_NS = 100_000_000


def read_count(path: Path) -> tuple[int, int, list[tuple[int, int]]]:
    return counting.read(path.read_bytes())


def wait_until_it_counts(path: Path) -> int:
    """The program's process id, once it has made a call."""
    for _ in range(6000):
        if path.exists() and path.stat().st_size == counting.FILE_BYTES:
            pid, made, _ = read_count(path)
            if made:
                return pid
        time.sleep(0.005)
    raise AssertionError("the program never began")


def start(
    lapwing: str,
    python: str,
    run_folder: Path,
    count: Path,
    *more: str,
    timeline: bool = False,
    options: tuple[str, ...] = (),
) -> subprocess.Popen[str]:
    words = [lapwing, "run", "--calls=timeline" if timeline else "--calls"]
    words += [*options, "--no-summary", "-o", str(run_folder / "x.lap"), "--"]
    return subprocess.Popen(
        [*words, python, COUNTING, str(count), *more],
        cwd=run_folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def kill_once(lapwing: str, python: str, folder: Path, after_s: float) -> None:
    folder.mkdir()
    program = start(lapwing, python, folder, folder / "count")
    pid = wait_until_it_counts(folder / "count")
    time.sleep(after_s)
    os.kill(pid, signal.SIGKILL)
    _, complaint = program.communicate(timeout=60)
    assert program.returncode == -signal.SIGKILL, complaint
    _, made, _ = read_count(folder / "count")
    # The call that was being made may be counted by one of the two only.
    assert made - 1 <= calls(lapwing, folder)["step"] <= made + 1
    assert run_info(folder)["exit_code"] == 128 + signal.SIGKILL


def test_nothing_is_lost_of_a_program_killed_at_any_of_100_moments(
    lapwing: str, python: str, tmp_path: Path
) -> None:
    dice = random.Random(3)
    with ThreadPoolExecutor(max_workers=4) as pool:
        killed = [
            pool.submit(
                kill_once, lapwing, python, tmp_path / str(i), dice.uniform(0, 0.4)
            )
            for i in range(MOMENTS)
        ]
        for future in killed:
            future.result()


@pytest.mark.parametrize(
    ("how", "code"),
    [("exit", 3), ("segfault", -signal.SIGSEGV), ("abort", -signal.SIGABRT)],
)
def test_nothing_is_lost_of_a_program_that_ends_abruptly(
    lapwing: str, python: str, tmp_path: Path, how: str, code: int
) -> None:
    words = ["--", python, COUNTING, str(tmp_path / "count"), "20000", how]
    done = run(lapwing, words, tmp_path)
    assert done.returncode == code, done.stderr
    assert calls(lapwing, tmp_path)["step"] == 20000
    assert not list(tmp_path.glob("core*"))


def waited_ns(pid: int) -> int:
    """How long the threads of PID were ready to run and had no processor so far."""
    waited = 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):  # it has ended meanwhile
            waited += int((thread / "schedstat").read_text().split()[1])
    return waited


def kill_recorder(lapwing: str, python: str, folder: Path, after_s: float) -> int:
    """How far behind, in ns, the recording was when the recorder was killed, besides
    the time in which the machine did not let it run."""
    folder.mkdir()
    program = start(lapwing, python, folder, folder / "count", "3000000")
    wait_until_it_counts(folder / "count")
    time.sleep(after_s)
    waits: list[tuple[int, int]] = []  # (when, how long it had waited by then)
    for _ in range(2):
        waits.append((time.monotonic_ns(), waited_ns(program.pid)))
        time.sleep(BEHIND_NS / 1e9)
    at_the_end = waited_ns(program.pid)
    killed_ns = time.monotonic_ns()
    program.kill()
    out, _ = program.communicate(timeout=120)  # until the program itself has ended
    assert out == "counted 3000000\n"
    recorded = calls(lapwing, folder)["step"]
    _, made, moments = read_count(folder / "count")
    assert made == 3000000
    # The first call that is lost was made after the last moment of the recorded ones,
    # and by the first moment after them.
    lost = [ns for ns, by_then in moments if by_then > recorded]
    assert moments[0][1] <= recorded, "that was longer ago than the program remembers"
    behind_ns = max(0, killed_ns - lost[0]) if lost else 0
    before = max((by for when, by in waits if when <= killed_ns - behind_ns), default=0)
    return max(0, behind_ns - (at_the_end - before))


def test_a_killed_recorder_leaves_all_but_the_last_100_ms_and_the_program_runs_on(
    lapwing: str, python: str, tmp_path: Path
) -> None:
    dice = random.Random(5)
    behind_ns = [
        kill_recorder(lapwing, python, tmp_path / str(i), dice.uniform(0, 0.4))
        for i in range(8)
    ]
    print("behind, ms:", [round(ns / 1e6) for ns in behind_ns])
    assert max(behind_ns) <= BEHIND_NS


def test_a_run_whose_recorder_was_killed_says_so(
    lapwing: str, python: str, tmp_path: Path
) -> None:
    kill_recorder(lapwing, python, tmp_path / "0", 0.2)
    rows = subprocess.run(
        [lapwing, "runs", "--in", str(tmp_path / "0"), "--json"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert '"cut off"' in rows


class SmallDisk:
    """192 KB of disk; where we may not mount, a limit on the recorder's files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        options = ["-t", "tmpfs", "-o", "size=192k", "tmpfs", str(folder)]
        mount = subprocess.run(["mount", *options], capture_output=True)
        self.is_mounted = mount.returncode == 0

    def fill(self, recorder: int) -> None:
        if not self.is_mounted:
            self._limit(recorder, 100)
            return
        filler = self.folder / "filler"
        with filler.open("wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(b"x" * 4096)

    def free(self, recorder: int) -> None:
        if self.is_mounted:
            (self.folder / "filler").unlink()
        else:
            self._limit(recorder, resource.RLIM_INFINITY)

    def _limit(self, recorder: int, size: int) -> None:
        _, hard = resource.prlimit(recorder, resource.RLIMIT_FSIZE)
        resource.prlimit(recorder, resource.RLIMIT_FSIZE, (size, hard))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[SmallDisk]:
    folder = tmp_path / "small"
    folder.mkdir()
    disk = SmallDisk(folder)
    yield disk
    if disk.is_mounted:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_is_told_and_does_not_disturb_the_program(
    lapwing: str, python: str, tmp_path: Path, small_disk: SmallDisk
) -> None:
    count = tmp_path / "count"
    folder = small_disk.folder
    program = start(lapwing, python, folder, count, "1000000", timeline=True)
    wait_until_it_counts(count)
    small_disk.fill(program.pid)
    out, complaint = program.communicate(timeout=120)
    assert program.returncode == 0, complaint
    assert out == "counted 1000000\n"
    notes = view(lapwing, folder, "functions")["notes"]
    assert any("missing" in note and "spans" in note for note in notes), notes


def test_no_call_is_lost_to_a_disk_that_is_full_for_a_while(
    lapwing: str, python: str, tmp_path: Path, small_disk: SmallDisk
) -> None:
    count = tmp_path / "count"
    program = start(lapwing, python, small_disk.folder, count, "1500000")
    wait_until_it_counts(count)
    small_disk.fill(program.pid)
    time.sleep(0.5)
    small_disk.free(program.pid)
    _, complaint = program.communicate(timeout=120)
    assert program.returncode == 0, complaint
    assert calls(lapwing, small_disk.folder)["step"] == 1500000


def segment_bytes(run: Path) -> int:
    sizes = 0
    for file in run.glob("*.seg*"):
        with suppress(FileNotFoundError):  # it has just been replaced
            sizes += file.stat().st_size
    return sizes


def test_the_run_keeps_to_its_maximum_size(
    lapwing: str, python: str, tmp_path: Path
) -> None:
    count, options = tmp_path / "count", ("--max-size", "1M")
    program = start(
        lapwing, python, tmp_path, count, "6000000", timeline=True, options=options
    )
    largest = 0
    while program.poll() is None:
        largest = max(largest, segment_bytes(tmp_path / "x.lap"))
        time.sleep(0.01)
    assert program.returncode == 0, program.communicate()
    # At any moment, with the segment that is being written and the one being replaced.
    assert largest <= 1.1 * 2**20
    assert segment_bytes(tmp_path / "x.lap") <= 2**20
    assert calls(lapwing, tmp_path)["step"] == 6000000
    notes = view(lapwing, tmp_path, "functions")["notes"]
    assert any("spans (dropped to keep the run small" in note for note in notes), notes
