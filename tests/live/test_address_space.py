"""Programs whose address space is limited (`ulimit -v`) keep it for themselves."""

from __future__ import annotations

import resource
import subprocess
from pathlib import Path

import pytest
from pythons import interpreter
from recording import calls, run, view

LIMIT = 800_000 << 10
VERSIONS = ["3.10", "3.11", "3.12", "3.13"]
MODES = ["", "--calls", "--calls=timeline", "--ops=all"]

# Of its own it needs 200 MB, once in each process, while two threads live.
NEEDS_200_MB = """
import os, subprocess, sys, threading
def called():
    return len(bytearray(200 << 20))
thread = threading.Thread(target=called)
thread.start()
thread.join()
pid = os.fork()
if pid == 0:
    called()
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
subprocess.run([sys.executable, "-c", "bytearray(200 << 20)"], check=True)
print(called())
"""


def limit() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("mode", MODES)
def test_a_program_with_little_address_space_gets_what_it_asks_for(
    lapwing: str, tmp_path: Path, mode: str, version: str
) -> None:
    options = [mode] if mode else []
    done = subprocess.run(
        [lapwing, "run", *options, "--no-summary", "-o", "x.lap", "--"]
        + [interpreter(version), "-c", NEEDS_200_MB],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        preexec_fn=limit,
    )
    assert (done.returncode, done.stdout) == (0, f"{200 << 20}\n"), done.stderr
    assert len(view(lapwing, tmp_path, "processes")["rows"]) == 3
    if mode.startswith("--calls"):
        assert calls(lapwing, tmp_path)["called"] == 3


MAPPED = """
import threading
def mapped_mb():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * 4096 >> 20
def wait(n):
    for lock in begun[n], ended:
        lock.wait()
threading.stack_size(256 << 10)
ended = threading.Event()
begun = [threading.Barrier(2) for _ in range(20)]
threads = [threading.Thread(target=wait, args=(n,)) for n in range(20)]
print(mapped_mb())
for thread, barrier in zip(threads, begun):
    thread.start()
    barrier.wait()
print(mapped_mb())
ended.set()
for thread in threads:
    thread.join()
print(mapped_mb())
"""


def mapped(words: list[str], folder: Path) -> list[int]:
    done = subprocess.run(
        [*words, "-c", MAPPED],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return [int(line) for line in done.stdout.split()]


@pytest.mark.parametrize("mode", MODES)
def test_what_is_mapped_at_start_is_small_and_a_ring_goes_with_its_thread(
    lapwing: str, python: str, tmp_path: Path, mode: str
) -> None:
    options = [mode] if mode else []
    alone = mapped([python], tmp_path)
    watched = mapped(
        [lapwing, "run", *options, "--no-summary", "-o", "x.lap", "--", python],
        tmp_path,
    )
    at_start, with_threads, after = (w - a for w, a in zip(watched, alone, strict=True))
    assert at_start < 32
    # malloc has an arena a thread, which may differ: 64 MB is the noise of one.
    if mode == "--calls=timeline":
        assert with_threads >= 20 * 8
    assert after < with_threads + 64
    assert after < 32 + 64


NO_ROOM_FOR_RINGS = """
import resource, threading
def called(): pass
def work(n):
    called()
    begun[n].wait()
    ended.wait()
threading.stack_size(256 << 10)
ended = threading.Event()
begun = [threading.Barrier(2) for _ in range(20)]
threads = [threading.Thread(target=work, args=(n,)) for n in range(20)]
threads[0].start()
begun[0].wait()
with open("/proc/self/statm") as file:
    pages = int(file.read().split()[0])
most = pages * 4096 + (40 << 20)
resource.setrlimit(resource.RLIMIT_AS, (most, most))
for thread, barrier in zip(threads[1:], begun[1:]):
    thread.start()
    barrier.wait()
ended.set()
for thread in threads:
    thread.join()
print("done")
"""


def test_without_room_for_a_ring_calls_are_exact_and_spans_are_said_to_be_lost(
    lapwing: str, python: str, tmp_path: Path
) -> None:
    words = ["--calls=timeline", "--", python, "-c", NO_ROOM_FOR_RINGS]
    done = run(lapwing, words, tmp_path)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    assert calls(lapwing, tmp_path)["called"] == 20
    said = subprocess.run(
        [lapwing, "report", "x.lap"], cwd=tmp_path, capture_output=True, text=True
    )
    assert "no address space for a ring" in said.stdout
