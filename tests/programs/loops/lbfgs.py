"""LBFGS: the optimizer's step calls a closure that runs forward and backward."""

from __future__ import annotations

import stopwatch
import torch
from stopwatch import BATCH, Net, Points, Stopwatch
from torch import Tensor, nn
from torch.utils.data import DataLoader


def run(watch: Stopwatch) -> None:
    model, criterion = Net(), nn.CrossEntropyLoss()
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=3)
    for x, y in watch.batches(DataLoader(Points(6), batch_size=BATCH)):

        def closure(x: Tensor = x, y: Tensor = y) -> Tensor:
            with watch.phase("zero_grad"):
                optimizer.zero_grad()
            with watch.phase("forward"):
                output = model(x)
            with watch.phase("loss"):
                loss: Tensor = criterion(output, y)
            with watch.phase("backward"):
                loss.backward()
            return loss

        with watch.phase("optimizer"):
            optimizer.step(closure)
        watch.steps += 1


stopwatch.main(__name__, run)
