#!/usr/bin/env python3
"""Writes the recording of a training to be advised on: make_advice.py STORY FOLDER.

As in make_steps.py, times are chosen so that what is found can be worked out by hand.
"""

from __future__ import annotations

import sys
from pathlib import Path

from make_run import MS, Process, write_run
from make_steps import LOADER, LOOP, START, TORCH, Loop, trainer

WORKERS = "_MultiProcessingDataLoaderIter"
NEXT = f"{LOOP}22 __next__@{TORCH}/utils/data/dataloader.py:700:708"
FETCH = f"fetch@{TORCH}/utils/data/_utils/fetch.py:50:52 __getitem__@data.py:30:33"
AUGMENT = FETCH + " augment@data.py:40:45"
GB = 1 << 30
IN_WORKER = f"_worker_loop@{TORCH}/utils/data/_utils/worker.py:200:349 "


def use(process: Process, cpus: int, own: float, others: float = 0) -> None:
    """So many processors, and how many were in use all the time, until long after."""
    process.meta["end_ns"] = b"20000000000"
    process.counter("machine cpus", START * MS, cpus)
    process.counter("machine cpu [%]", START * MS, 100 * (own + others))
    process.counter("cpu [%]", START * MS, 100 * own)
    process.counter("machine memory [bytes]", START * MS, 16 * GB)
    process.counter("machine memory used [bytes]", START * MS, 14 * GB)


def train(loop: Loop, batches: int, data: float, made: float = 0) -> None:
    """Steps of 10 ms and their data, of which the last MADE are in augment()."""
    for _ in range(batches):
        start = loop.now
        loop.go(data - made, f"{NEXT} {FETCH}" if made else NEXT)
        loop.go(made, f"{NEXT} {AUGMENT}")
        loop.close(f"data@{LOADER if made else WORKERS}", start)
        loop.learn()


def calm() -> list[Process]:
    """200 steps of 10.7 ms with nothing to find: data 0.4, other 0.3, 8 CPUs."""
    process = trainer()
    loop = Loop(process)
    loop.begin()
    for _ in range(200):
        train(loop, 1, 0.4, 0.2)
        loop.go(0.3, f"{LOOP}27 log_metrics@log.py:8:12")
    loop.data(0.1)
    use(process, 8, 1)
    return [process]


def crowded() -> list[Process]:
    """The same, and for a second 15 of 16 GB were in use, of which the training had 12;
    a GB was swapped out."""
    (process,) = calm()
    peak = (START + 800) * MS
    process.counter("rss [bytes]", START * MS, 9 * GB)
    process.counter("rss [bytes]", peak - 100 * MS, 12 * GB)
    process.counter("machine memory used [bytes]", peak, 15 * GB)
    process.counter("machine swap used [bytes]", peak, 1 * GB)
    process.counter("machine memory used [bytes]", peak + 1000 * MS, 14 * GB)
    return [process]


def crowded_by_workers() -> list[Process]:
    """200 steps of 10.4 ms in a container with 8 GB: the training has 2 of them, two
    workers 2.75 each, once what they share is divided, as it was when each had 1 GB
    less."""
    processes = enough()
    training = processes[0]
    training.counter("container memory limit [bytes]", START * MS, 8 * GB)
    training.counter("container memory used [bytes]", START * MS, 4 * GB)
    training.counter("container memory used [bytes]", (START + 100) * MS, 7.5 * GB)
    for process, pss in zip(processes, (2, 2.75, 2.75), strict=True):
        process.counter("rss [bytes]", START * MS, 4 * GB)
        process.counter("pss [bytes]", START * MS, (pss - 1) * GB)
        process.counter("rss [bytes]", (START + 100) * MS, 5 * GB)
    return processes


def crowded_by_others() -> list[Process]:
    """Of the 16 GB that the machine has, 15 are in use, 2 of them by the training."""
    (process,) = calm()
    process.counter("rss [bytes]", START * MS, 2 * GB)
    process.counter("machine memory used [bytes]", (START + 800) * MS, 15 * GB)
    return [process]


def clipping() -> list[Process]:
    """200 steps of 13 ms, 3 of them in what a library has torch do: nothing to find."""
    process = trainer()
    loop = Loop(process)
    library = TORCH.replace("torch", "accelerate")
    clip = f"{LOOP}28 clip_grad_norm_@{library}/accelerator.py:900:920"
    loop.begin()
    for _ in range(200):
        train(loop, 1, 0.4, 0.2)
        loop.go(0.6, clip)
        loop.go(2, f"{clip} clip_grad_norm_@{TORCH}/nn/utils/clip_grad.py:180:220")
    loop.data(0.1)
    use(process, 8, 1)
    return [process]


def augmenting(cpus: int = 8) -> list[Process]:
    """200 steps of 22 ms: 12 for a batch, 9 of them in augment()."""
    process = trainer()
    loop = Loop(process)
    loop.begin()
    train(loop, 200, 12, 9)
    loop.data(0.5)
    use(process, cpus, 1)
    return [process]


def augmenting_on_one() -> list[Process]:
    """The same on a machine with one processor."""
    return augmenting(1)


def worker(
    number: int, batches: int, ms: float, start: int = START * MS, every: float = 0
) -> Process:
    """It makes a batch in so much time, three quarters of that in augment(), and begins
    the next EVERY so often, or at once."""
    process = trainer(1 + number, 4250 + number, ppid=4242)
    helper = Loop(process, 4250 + number)
    helper.now = start
    for _ in range(batches):
        start = helper.now
        helper.go(ms / 4, IN_WORKER + FETCH)
        helper.go(ms * 3 / 4, IN_WORKER + AUGMENT)
        helper.close("fetch@_MapDatasetFetcher", start)
        helper.now = max(helper.now, start + round(every * MS))
    process.counter("cpu [%]", START * MS, 100 * ms / max(ms, every))
    return process


def too_few(steps: int = 200) -> list[Process]:
    """Steps of 20 ms, 10 of them waiting: two workers make a batch in 40."""
    process = trainer()
    loop = Loop(process)
    train(loop, steps, 10)
    use(process, 8, 0.5, 2)
    return [process, worker(1, steps // 2, 40), worker(2, steps // 2, 40)]


def brief() -> list[Process]:
    """The same, but over when workers would just have started."""
    return too_few(20)


def enough() -> list[Process]:
    """200 steps of 10.4 ms: two workers make a batch in 15, and wait."""
    process = trainer()
    loop = Loop(process)
    train(loop, 200, 0.4)
    use(process, 8, 1, 2)
    return [process, worker(1, 100, 15, every=20.8), worker(2, 100, 15, every=20.8)]


def restarted() -> list[Process]:
    """4 epochs of 40 steps of 12 ms. Two new workers for each take 100 ms to start and
    20 to end; the first step waits 60, though a batch is made in 8."""
    loader = f"{TORCH}/utils/data/dataloader.py"
    process = trainer()
    processes = [process]
    loop = Loop(process)
    for epoch in range(4):
        loop.begin(WORKERS)
        loop.go(100, f"{LOOP}21 __iter__@{loader}:480:487 __init__@{loader}:1101:1176")
        processes += [worker(2 * epoch + n, 20, 8, loop.now, 24) for n in (1, 2)]
        train(loop, 1, 60)
        train(loop, 39, 2)
        start = loop.now
        loop.go(20, f"{NEXT} _shutdown_workers@{loader}:1606:1650")
        loop.close(f"data@{WORKERS}", start)
    use(process, 8, 1)
    return processes


def uneven() -> list[Process]:
    """100 steps of 20 ms, 10 of them waiting: one worker makes a batch in 16, the other
    in 40."""
    process = trainer()
    loop = Loop(process)
    train(loop, 100, 10)
    use(process, 8, 0.5, 2)
    return [process, worker(1, 50, 16, every=40), worker(2, 50, 40)]


def shards() -> list[Process]:
    """80 steps: 40 of 10 ms, then 40 of 15 that wait for 5, when one of two workers,
    with a batch in 15, is left alone."""
    process = trainer()
    loop = Loop(process)
    train(loop, 40, 0)
    alone = loop.now
    train(loop, 40, 5)
    use(process, 8, 0.5, 2)
    one = worker(1, 20, 15, every=20)
    both = worker(2, 20, 15, every=20)
    more = worker(3, 40, 15, alone)
    both.spans += [
        (start, ms, 0, both.stack("%fetch@_MapDatasetFetcher"))
        for start, ms, _, _ in more.spans
    ]
    return [process, one, both]


if __name__ == "__main__":
    write_run(globals()[sys.argv[1]](), Path(sys.argv[2]))
