"""A compiled model (no code is generated, so that it is quick), compiled both ways."""

from __future__ import annotations

import stopwatch
import torch
from stopwatch import BATCH, Net, Points, Stopwatch
from torch import nn
from torch.utils.data import DataLoader


def run(watch: Stopwatch) -> None:
    wrapped, criterion = torch.compile(Net(), backend="eager"), nn.CrossEntropyLoss()
    in_place = Net()
    in_place.compile(backend="eager")
    parameters = [*wrapped.parameters(), *in_place.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.01)
    loader = DataLoader(Points(12), batch_size=BATCH)
    for i, (x, y) in enumerate(watch.batches(loader)):
        with watch.phase("forward"):
            output = (in_place if i % 2 else wrapped)(x)
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
