"""Two persistent workers and two epochs. Batches carry what making them took."""

from __future__ import annotations

import os
import time

import stopwatch
import torch
from stopwatch import BATCH, Net, Points, Stopwatch
from torch import Tensor, nn
from torch.utils.data import DataLoader, default_collate

Sample = tuple[Tensor, int]
fetch_s = 0.0  # of the batch that this worker makes


class TimedPoints(Points):
    def __getitems__(self, indices: list[int]) -> list[Sample]:
        global fetch_s
        start = time.perf_counter()
        samples = [self[i] for i in indices]
        fetch_s = time.perf_counter() - start
        return samples


def collate(samples: list[Sample]) -> tuple[Tensor, Tensor, dict[str, float]]:
    start = time.perf_counter()
    x, y = default_collate(samples)
    x = (x - x.mean(0)) / (x.std(0) + 1)
    times = {"pid": os.getpid(), "fetch": fetch_s, "collate": 0.0}
    times["collate"] = time.perf_counter() - start
    return x, y, times


def run(watch: Stopwatch) -> None:
    model, criterion = Net(), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(
        TimedPoints(10),
        batch_size=BATCH,
        num_workers=2,
        collate_fn=collate,
        persistent_workers=True,
    )
    for _ in range(2):
        for x, y, times in watch.batches(loader):
            worker = watch.workers.setdefault(int(times.pop("pid")), {})
            for name, seconds in times.items():
                worker.setdefault(name, []).append(seconds)
            with watch.phase("forward"):
                output = model(x)
            with watch.phase("loss"):
                loss = criterion(output, y)
            with watch.phase("backward"):
                loss.backward()
            with watch.phase("optimizer"):
                optimizer.step()
            with watch.phase("zero_grad"):
                optimizer.zero_grad()
            watch.steps += 1


stopwatch.main(__name__, run)
