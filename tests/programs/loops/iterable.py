"""An IterableDataset, whose loader knows no length."""

from __future__ import annotations

from collections.abc import Iterator

import stopwatch
import torch
from stopwatch import BATCH, Net, Points, Stopwatch
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset


class Stream(IterableDataset[tuple[Tensor, int]]):
    def __iter__(self) -> Iterator[tuple[Tensor, int]]:
        points = Points(10)
        return (points[i] for i in range(len(points)))


def run(watch: Stopwatch) -> None:
    model, criterion = Net(), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for x, y in watch.batches(DataLoader(Stream(), batch_size=BATCH)):
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
