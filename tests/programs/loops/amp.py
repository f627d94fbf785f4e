"""Mixed precision: autocast, and a scaler whose step calls the optimizer's."""

from __future__ import annotations

from typing import Any

import stopwatch
import torch
from stopwatch import BATCH, Net, Points, Stopwatch
from torch import nn
from torch.utils.data import DataLoader


class Timed(torch.optim.SGD):
    """The scaler calls step(), so only the optimizer itself can time it."""

    watch: Stopwatch

    def step(self, *args: Any, **kwargs: Any) -> Any:
        with self.watch.phase("optimizer"):
            return super().step(*args, **kwargs)


def run(watch: Stopwatch) -> None:
    model, criterion = Net(), nn.CrossEntropyLoss()
    Timed.watch = watch
    optimizer = Timed(model.parameters(), lr=0.01, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
    for x, y in watch.batches(DataLoader(Points(12), batch_size=BATCH)):
        with watch.phase("zero_grad"):
            optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            with watch.phase("forward"):
                output = model(x)
            with watch.phase("loss"):
                loss = criterion(output, y)
        scaled = scaler.scale(loss)
        with watch.phase("backward"):
            scaled.backward()
        with watch.phase("scaler"):
            scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        with watch.phase("scaler"):
            scaler.step(optimizer)
        with watch.phase("scaler"):
            scaler.update()
        watch.steps += 1


stopwatch.main(__name__, run)
