"""Batches made by hand, no loader; torch.autograd.backward by its own name."""

from __future__ import annotations

import stopwatch
import torch
from stopwatch import Net, Stopwatch
from torch import nn


def run(watch: Stopwatch) -> None:
    model, criterion = Net(), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for i in range(16):
        x, y = stopwatch.hand_made(i)
        with watch.phase("zero_grad"):
            optimizer.zero_grad()
        with watch.phase("forward"):
            output = model(x)
        with watch.phase("loss"):
            loss = criterion(output, y)
        with watch.phase("backward"):
            torch.autograd.backward(loss)
        with watch.phase("optimizer"):
            optimizer.step()
        watch.steps += 1


stopwatch.main(__name__, run)
