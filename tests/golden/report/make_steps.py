#!/usr/bin/env python3
"""Writes the recording of a training to report on: make_steps.py STORY FOLDER.

Times are chosen so that what a report has to say can be worked out by hand: they are
written at each story, in milliseconds.
"""

from __future__ import annotations

import sys
from pathlib import Path

from make_run import MS, Process, write_run

START = 1100  # ms: when the first batch is asked for
EVERY = 1  # ms between samples
LOADER = "_SingleProcessDataLoaderIter"
LOOP = "<module>@train.py:1:90 main@train.py:60:70 fit@train.py:20:"
TORCH = "/home/me/project/.venv/lib/python3.11/site-packages/torch"


class Loop:
    """A thread that trains. What it does, it does one after the other."""

    def __init__(self, process: Process, tid: int = 4242) -> None:
        self.process = process
        self.thread = process.thread(tid, "MainThread", 1000 * MS, 4000 * MS)
        self.now = START * MS

    def go(self, ms: float, path: str = LOOP + "30") -> None:
        """So much time passes in a function; there are samples of it."""
        end = self.now + round(ms * MS)
        tick = -(-self.now // (EVERY * MS)) * EVERY * MS
        for time in range(tick, end, EVERY * MS):
            self.process.sample(self.thread, path, EVERY * MS, time=time)
        self.now = end

    def phase(self, name: str, ms: float, path: str = "") -> None:
        """ "forward@Net" for so long."""
        start = self.now
        self.go(ms, path or f"{LOOP}30 {name.partition('@')[0]}@model.py:5:9")
        self.close(name, start)

    def close(self, name: str, start: int) -> None:
        self.process.span(self.thread, f"%{name}", start, self.now - start)

    def begin(self, loader: str = LOADER) -> None:
        """A pass over a loader."""
        self.close(f"loader_pass@{loader}", self.now)

    def data(self, ms: float) -> None:
        self.phase(f"data@{LOADER}", ms, f"{LOOP}22 __next__@{TORCH}/loader.py:7:8")

    def learn(self, update: bool = True) -> None:
        """10 ms: forward 3, loss 1, backward 4, optimizer 1.5, zero_grad 0.5."""
        self.phase("forward@Net", 3)
        self.go(1, LOOP + "25 cross_entropy@losses.py:3:4")
        self.phase("backward", 4)
        if update:
            self.phase("optimizer@SGD", 1.5)
            self.phase("zero_grad@SGD", 0.5)

    def evaluate(self, batches: int) -> None:
        """Each batch data 2, eval 3, and 1 beside; then StopIteration."""
        self.begin()
        for _ in range(batches):
            self.data(2)
            self.phase("eval@Net", 3)
            self.go(1)
        self.data(0.5)


def trainer(number: int = 1, pid: int = 4242, **meta: object) -> Process:
    process = Process(number, pid=pid, command="train.py", python="3.11.7", **meta)
    process.meta.setdefault("exit_code", b"0")
    process.meta |= {"start_ns": b"1000000000", "end_ns": b"4000000000"}
    return process


def loader() -> list[Process]:
    """Two epochs of 55 batches, each of 20 ms: data 2, 10 as learnt, 7 of logging and 1
    more. The first batch of an epoch waits 40 ms for its data, batch 30 logs for 50 ms,
    and the epoch ends with StopIteration (0.5), 4 batches of evaluation and 20 ms of a
    checkpoint."""
    process = trainer()
    loop = Loop(process)
    log = f"{LOOP}27 log_metrics@log.py:8:12 dump@/usr/lib/python3.11/json/x.py:1:9"
    loop.evaluate(0)  # a look at nothing before the training
    for epoch in range(2):
        loop.begin()
        for batch in range(55):
            loop.data(40 if batch == 0 else 2)
            loop.learn()
            loop.go(50 if (epoch, batch) == (0, 30) else 7, log)
            loop.go(1)
        loop.data(0.5)
        loop.evaluate(4)
        loop.go(20, LOOP + f"33 save@{TORCH}/serialization.py:9:30")
    return [process]


def lightning() -> list[Process]:
    """Lightning's loop: 60 batches of 13 ms, then 30 of evaluation, 13 ms each: data 2,
    eval 3, and 8 for metrics in the person's validation_step."""
    process = trainer()
    loop = Loop(process)
    fit = "/home/me/project/.venv/lib/python3.11/site-packages/lightning/pytorch"
    step = (
        f"<module>@train.py:1:90 fit@{fit}/trainer/trainer.py:500:560 "
        "validation_step@model.py:40:45 metrics@metrics.py:8:12"
    )
    loop.begin()
    for _ in range(60):
        loop.data(2)
        loop.learn()
        loop.go(1)
    loop.data(0.5)
    loop.begin()
    for _ in range(30):
        loop.data(2)
        loop.phase("eval@Net", 3)
        loop.go(8, step)
    loop.data(0.5)
    return [process]


def accumulation() -> list[Process]:
    """12 batches of 12 ms (data 2, learnt 8); every fourth is 2 ms longer, by an update
    and its zero_grad. The last 2 are not enough for one, and the loop ends."""
    process = trainer()
    loop = Loop(process)
    loop.begin()
    for batch in range(14):
        loop.data(2)
        loop.learn(update=batch % 4 == 3)
        loop.go(2)
    return [process]


def optimizers() -> list[Process]:
    """A GAN without a loader, 6 steps of 20 ms: critic and generator in turn. The first
    has no gradient of the generator."""
    process = trainer()
    loop = Loop(process)
    for _ in range(6):
        loop.phase("eval@Generator", 1)
        loop.phase("forward@Critic", 2)
        loop.phase("forward@Critic", 2)
        loop.go(0.5)
        loop.phase("backward", 3)
        loop.phase("optimizer@Adam", 1.5)
        loop.phase("zero_grad@Adam", 0.5)
        loop.phase("forward@Generator", 2)
        loop.phase("forward@Critic", 2)
        loop.go(0.5)
        loop.phase("backward", 3)
        loop.go(1)
        loop.phase("optimizer@Adam", 1)
    return [process]


def closures() -> list[Process]:
    """LBFGS without a loader, 5 steps of 30 ms: 3 closures (forward 3, loss 1, backward
    4), 1 ms of its own around each, and 3 at last."""
    process = trainer()
    loop = Loop(process)
    for _ in range(5):
        start = loop.now
        for _ in range(3):
            loop.go(1)
            loop.phase("zero_grad@LBFGS", 0)
            loop.phase("forward@Net", 3)
            loop.go(1)
            loop.phase("backward", 4)
        loop.go(3)
        loop.close("optimizer@LBFGS", start)
    return [process]


def by_hand() -> list[Process]:
    """Batches without a loader, 12 steps of 12 ms (forward 3, loss 1, backward 4,
    optimizer 2, 2 of other); after the sixth, 3 evaluations of 5 ms each, 1 apart."""
    process = trainer()
    loop = Loop(process)
    for step in range(12):
        loop.learn()
        loop.go(2)
        if step == 5:
            for _ in range(3):
                loop.phase("eval@Net", 5)
                loop.go(1)
    return [process]


def marked() -> list[Process]:
    """lapwing.step() every 20 ms, 6 times; 5 ms of each in a phase of the program's
    own. A seventh is begun."""
    process = trainer()
    loop = Loop(process)
    for step in range(7):
        start = loop.now
        loop.data(1)
        loop.learn()
        if step == 6:
            break
        loop.phase("augment", 5)
        loop.go(4)
        loop.close("step", start)
    return [process]


def zipped() -> list[Process]:
    """Two loaders a step, 2 epochs of 5 steps of 14 ms: data 1 and 2, 10 as learnt, 1
    of other. The first of the loaders says that an epoch is over."""
    process = trainer()
    loop = Loop(process)
    for _ in range(2):
        loop.begin()
        loop.begin()
        for _ in range(5):
            loop.data(1)
            loop.data(2)
            loop.learn()
            loop.go(1)
        loop.data(0.25)
        loop.go(3)
    return [process]


def killed() -> list[Process]:
    """4 steps of 13 ms, and a fifth in whose forward the process was killed."""
    process = trainer(exit_code=137)
    loop = Loop(process)
    loop.begin()
    for _ in range(4):
        loop.data(2)
        loop.learn()
        loop.go(1)
    loop.data(2)
    return [process]


def one() -> list[Process]:
    """One step of 12 ms, and StopIteration."""
    process = trainer()
    loop = Loop(process)
    loop.begin()
    loop.data(2)
    loop.learn()
    loop.data(0.5)
    return [process]


def reading() -> list[Process]:
    """A loader that nobody learns from."""
    process = trainer()
    loop = Loop(process)
    for _ in range(5):
        loop.data(2)
        loop.go(1)
    return [process]


def inference() -> list[Process]:
    """A model called 12 times for 4 ms, without a loader."""
    process = trainer()
    loop = Loop(process)
    for _ in range(12):
        loop.phase("eval@Net", 4)
        loop.go(2)
    return [process]


def thinned() -> list[Process]:
    """10 steps of 13 ms; spans of 500 ms lost; 10 more."""
    process = trainer()
    loop = Loop(process)
    loop.begin()
    for part in range(2):
        for _ in range(10):
            loop.data(2)
            loop.learn()
            loop.go(1)
        if part == 0:
            start = loop.now - 2 * MS
            loop.go(500)
            process.dropped = (start, loop.now, 190)
    return [process]


def ranks() -> list[Process]:
    """Two ranks of 6 steps: 13 ms, and 16 by a slower loader."""
    processes = [trainer(1 + n, 4242 + n, rank=n) for n in range(2)]
    for number, process in enumerate(processes):
        loop = Loop(process, 4242 + number)
        loop.begin()
        for _ in range(6):
            loop.data(2 + 3 * number)
            loop.learn()
            loop.go(1)
        loop.data(0.5)
    return processes


def workers() -> list[Process]:
    """6 batches of 12 ms, made by two workers in turn: fetch 8 with collate 2 in it,
    one batch every 24 ms; the second worker is half as fast. The dataset, behind a
    Subset, takes a third of fetch to load and half of it to augment."""
    fetch = (
        f"<module>@train.py:1:90 _worker_loop@{TORCH}/utils/data/_utils/worker.py:9:99 "
        f"fetch@{TORCH}/utils/data/_utils/fetch.py:50:54 "
        f"<listcomp>@{TORCH}/utils/data/_utils/fetch.py:54:54 "
        f"__getitem__@{TORCH}/utils/data/dataset.py:400:420 __getitem__@data.py:20:"
    )
    main = trainer()
    loop = Loop(main)
    loop.begin()
    for _ in range(6):
        loop.data(2)
        loop.learn()
    loop.data(0.5)
    processes = [main]
    for number in range(2):
        worker = trainer(2 + number, 4250 + number, ppid=4242)
        helper = Loop(worker, 4250 + number)
        for _ in range(3):
            start = helper.now
            helper.go(2 * (1 + number), fetch + "22 load@data.py:5:9")
            helper.go(
                3 * (1 + number), fetch + "23 augment@data.py:40:45 roll@data.py:60:61"
            )
            helper.go(1 * (1 + number), fetch + "24")
            helper.phase("collate", 2 * (1 + number))
            helper.close("fetch@_MapDatasetFetcher", start)
            helper.go(16 - 8 * number)
        processes.append(worker)
    return processes


def fetched() -> list[Process]:
    """The same without workers: 6 batches of 20 ms, fetch 8 with collate 2 in it."""
    process = trainer()
    loop = Loop(process)
    for _ in range(6):
        outer = loop.now
        loop.go(1)
        start = loop.now
        loop.go(6)
        loop.phase("collate", 2)
        loop.close("fetch@_MapDatasetFetcher", start)
        loop.go(1)
        loop.close(f"data@{LOADER}", outer)
        loop.learn()
    return [process]


if __name__ == "__main__":
    write_run(globals()[sys.argv[1]](), Path(sys.argv[2]))
