"""A training of tensors so small that a step takes about a millisecond, which on some
machines is two layers and on others eight.

    python tiny.py STEPS LAYERS

Epochs are whole, so there may be a few steps more.
"""

from __future__ import annotations

import sys

import torch
from step_times import StepTimes
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

BATCH = 4


def main() -> None:
    steps, layers = int(sys.argv[1]), int(sys.argv[2])
    torch.set_num_threads(1)
    torch.manual_seed(0)
    features = torch.randn(256 * BATCH, 8)
    data = TensorDataset(features, features.sum(1, keepdim=True).tanh())
    loader = DataLoader(data, BATCH, shuffle=True)
    inner = [
        layer for _ in range(layers - 2) for layer in (nn.Tanh(), nn.Linear(16, 16))
    ]
    model = nn.Sequential(nn.Linear(8, 16), *inner, nn.Tanh(), nn.Linear(16, 1))
    criterion = nn.MSELoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, foreach=False)
    times = StepTimes("tiny")
    while times.count < steps:
        times.begin()
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss = criterion(model(inputs), targets)
            loss.backward()
            optimizer.step()
            times.end()
        times.close()
    times.tell()


if __name__ == "__main__":
    main()
