"""The usual loop: a loader, a model, a criterion, an optimizer."""

from __future__ import annotations

import stopwatch
import torch
from stopwatch import BATCH, Net, Points, Stopwatch
from torch import nn
from torch.utils.data import DataLoader


def run(watch: Stopwatch) -> None:
    model, criterion = Net(), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for x, y in watch.batches(DataLoader(Points(16), batch_size=BATCH)):
        with watch.phase("zero_grad"):
            optimizer.zero_grad()
        with watch.phase("forward"):
            output = model(x)
        with watch.phase("loss"):
            loss = criterion(output, y)
        with watch.phase("backward"):
            loss.backward()
        with watch.phase("optimizer"):
            optimizer.step()
        watch.steps += 1


stopwatch.main(__name__, run)
