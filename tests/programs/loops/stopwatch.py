"""What the loops share: a stopwatch of their own, a small network, a slow dataset.

Each loop is a program that trains for a fraction of a second and times its own phases
with perf_counter, by hand, as a person would. `stopwatch.main(run)` prints, as one line
of JSON, what it found and when it ran, for whoever timed it from outside.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

BATCH, FEATURES, CLASSES = 96, 192, 10


class Stopwatch:
    """The seconds of each phase, time by time, by its name."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = {}
        self.workers: dict[int, dict[str, list[float]]] = {}  # by process id
        self.steps = 0

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            taken = time.perf_counter() - start
            self.seconds.setdefault(name, []).append(taken)

    def batches(self, loader: Any, name: str = "data") -> Iterator[Any]:
        """What LOADER yields; its last question, that it has no more, counts too."""
        iterator = iter(loader)
        while True:
            with self.phase(name):
                try:
                    batch = next(iterator)
                except StopIteration:
                    return
            yield batch


class Net(nn.Module):
    def __init__(self, outputs: int = CLASSES, width: int = 384) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(FEATURES, width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, outputs),
        )

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.layers(x)
        return result


class Points(Dataset[tuple[Tensor, int]]):
    """Samples that take a while to make."""

    def __init__(self, batches: int) -> None:
        self.count = batches * BATCH

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        x = torch.arange(FEATURES, dtype=torch.float32) * (index % 31)
        for _ in range(3):
            x = x.sin() + 0.01
        return x, index % CLASSES


def hand_made(index: int) -> tuple[Tensor, Tensor]:
    """A batch without a loader. It is large: what Python takes to come to a phase is in
    the loop's times and not in ours, and shall be little of the step.
    """
    count = 4 * BATCH
    generator = torch.Generator().manual_seed(index)
    x = torch.randn(count, FEATURES, generator=generator)
    return x, torch.randint(CLASSES, (count,), generator=generator)


def measure(name: str, run: Callable[[Stopwatch], None]) -> dict[str, Any]:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    watch = Stopwatch()
    start = time.monotonic_ns()
    run(watch)
    return {
        "loop": name,
        "start_ns": start,
        "end_ns": time.monotonic_ns(),
        "steps": watch.steps,
        "seconds": watch.seconds,
        "workers": watch.workers,
    }


def main(name: str, run: Callable[[Stopwatch], None]) -> None:
    if name == "__main__":
        print(json.dumps(measure("", run)))
