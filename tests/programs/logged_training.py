"""Two epochs of a training whose logging takes a third of each step, with evaluation.

It says how many steps of what kind it made, and what it spent on logging.
"""

from __future__ import annotations

import json
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

EPOCHS, BATCHES, EVALS, BATCH = 2, 24, 4, 16
spent = 0.0


def log_metrics(history: list[float]) -> str:
    global spent
    start = time.perf_counter()
    text = ""
    while time.perf_counter() - start < 0.02:
        text = json.dumps({"history": history, "last": history[-1]})
    spent += time.perf_counter() - start
    return text


def work(x: torch.Tensor) -> torch.Tensor:
    """Something that takes a while and that gradients go through."""
    end = time.perf_counter() + 0.02
    while time.perf_counter() < end:
        x = x * 1.0
    return x


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.layer(work(x))
        return result


def fit(model: nn.Module, loader: DataLoader[tuple[torch.Tensor, ...]]) -> float:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    history: list[float] = []
    start = time.perf_counter()
    for x, y in loader:
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        history.append(loss.item())
        log_metrics(history)  # the line to find
    return time.perf_counter() - start


def main() -> None:
    torch.manual_seed(0)
    data = TensorDataset(
        torch.randn(BATCHES * BATCH, 8), torch.randn(BATCHES * BATCH, 1)
    )
    some = TensorDataset(*data[: EVALS * BATCH])
    model = Net()
    seconds = 0.0
    for _ in range(EPOCHS):
        model.train()
        seconds += fit(model, DataLoader(data, batch_size=BATCH))
        model.eval()
        with torch.no_grad():
            for x, _y in DataLoader(some, batch_size=BATCH):
                model(x)
    counts = {"steps": EPOCHS * BATCHES, "evals": EPOCHS * EVALS, "epochs": EPOCHS}
    print(json.dumps({**counts, "logging_share": spent / seconds}))


main()
