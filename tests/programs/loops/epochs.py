"""Three epochs, each with an evaluation after it; the model is replaced in between."""

from __future__ import annotations

import stopwatch
import torch
from stopwatch import BATCH, Net, Points, Stopwatch
from torch import nn
from torch.utils.data import DataLoader


def train(watch: Stopwatch, model: nn.Module, criterion: nn.Module) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    model.train()
    for x, y in watch.batches(DataLoader(Points(6), batch_size=BATCH)):
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


@torch.no_grad()
def evaluate(watch: Stopwatch, model: nn.Module, criterion: nn.Module) -> float:
    model.eval()
    total = 0.0
    for x, y in watch.batches(DataLoader(Points(3), batch_size=BATCH)):
        with watch.phase("eval"):
            output = model(x)
        with watch.phase("eval"):
            loss = criterion(output, y)
        total += loss.item()
    return total


def run(watch: Stopwatch) -> None:
    criterion = nn.CrossEntropyLoss()
    for _ in range(3):
        model = Net()
        train(watch, model, criterion)
        evaluate(watch, model, criterion)


stopwatch.main(__name__, run)
