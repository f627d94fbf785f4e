"""Which thread is which, and what each does, while threads sleep, wake and begin.
One that has slept since it was read is not read again; one that woke for a moment is.
"""

from __future__ import annotations

import pytest
import sampling
from pythons import interpreter

# Three functions of one size, called from one place, so that the sleeping stacks differ
# in nothing but the code of the frame on top. Beside them threads that never wake.
SLEEPERS = """
import sys, threading, time

def short():
    time.sleep(0.002)

def middle():
    time.sleep(0.004)

def longer():
    time.sleep(0.006)

def wait():
    threading.Event().wait()

for _ in range(40):
    threading.Thread(target=wait, daemon=True).start()
print("ready", flush=True)
while True:
    for sleep in (short, middle, longer):
        sleep()
"""
SECONDS = 4


@pytest.mark.parametrize("version", sampling.VERSIONS)
def test_sleepers_are_seen_as_they_slept(version: str) -> None:
    """Sleep ends late by about the same time whatever was asked for, so the shares are
    only nearly 2 : 4 : 6; stacks kept too long would make them equal."""
    with sampling.running([interpreter(version), "-c", SLEEPERS]) as program:
        sampled = sampling.sample(program.pid, 2_000, SECONDS, 10**9)
    spent = sampled.leaves(weighted=True)
    by_name = {frame[2]: ns for frame, ns in spent.items() if len(frame) > 2}
    short, middle, longer = (by_name[name] for name in ("short", "middle", "longer"))
    assert short < 0.85 * middle < 0.85 * 0.95 * longer, by_name
    assert short + middle + longer > 0.8e9 * SECONDS, by_name
    waiting = sum(
        weight
        for _count, weight, _tid, _state, frames in sampled.rows
        if any(len(frame) > 2 and frame[2] == "wait" for frame in frames)
    )
    assert waiting > 0.8 * 40e9 * SECONDS, "the others are there all the time"


# The state of a new thread is made by the one that starts it, and names it at first.
STARTERS = """
import threading, time

def work():
    end = time.monotonic() + 0.01
    while time.monotonic() < end:
        sum(range(50))

print("ready", flush=True)
while True:
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""


@pytest.mark.parametrize("version", sampling.VERSIONS)
def test_a_new_thread_is_not_taken_for_its_starter(version: str) -> None:
    with sampling.running([interpreter(version), "-c", STARTERS]) as program:
        sampled = sampling.sample(program.pid, 5_000, SECONDS, 10**9)
    seen = {
        tid
        for _count, _weight, tid, _state, frames in sampled.rows
        if any(len(frame) > 2 and frame[2] == "work" for frame in frames)
    }
    assert len(seen) > 100
    assert program.pid not in seen
