"""Gradient accumulation: four batches to an update, the last one clipped."""

from __future__ import annotations

import stopwatch
import torch
from stopwatch import BATCH, Net, Points, Stopwatch
from torch import nn
from torch.utils.data import DataLoader


def run(watch: Stopwatch) -> None:
    model, criterion = Net(), nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(model.parameters())
    loader = DataLoader(Points(16), batch_size=BATCH)
    for i, (x, y) in enumerate(watch.batches(loader)):
        with watch.phase("forward"):
            output = model(x)
        with watch.phase("loss"):
            loss = criterion(output, y)
        with watch.phase("backward"):
            (loss / 4).backward()
        if i % 4 == 3:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            with watch.phase("optimizer"):
                optimizer.step()
            with watch.phase("zero_grad"):
                optimizer.zero_grad()
        watch.steps += 1


stopwatch.main(__name__, run)
