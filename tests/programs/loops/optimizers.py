"""Two optimizers for two parts of one model, and a loss that is a function."""

from __future__ import annotations

import stopwatch
import torch
from stopwatch import BATCH, FEATURES, Net, Points, Stopwatch
from torch import nn
from torch.utils.data import DataLoader


def run(watch: Stopwatch) -> None:
    encoder, head = Net(outputs=FEATURES), Net()
    model = nn.Sequential(encoder, head)
    optimizers = [
        torch.optim.SGD(encoder.parameters(), lr=0.01),
        torch.optim.Adam(head.parameters()),
    ]
    for x, y in watch.batches(DataLoader(Points(12), batch_size=BATCH)):
        with watch.phase("forward"):
            output = model(x)
        loss = nn.functional.cross_entropy(output, y)
        with watch.phase("backward"):
            loss.backward()
        for optimizer in optimizers:
            with watch.phase("optimizer"):
                optimizer.step()
            with watch.phase("zero_grad"):
                optimizer.zero_grad()
        watch.steps += 1


stopwatch.main(__name__, run)
