"""A training that holds so many bytes of memory: python hungry.py BYTES."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

import torch
from torch.utils.data import DataLoader

PIECE = 16 << 20


class Slow(torch.utils.data.Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 400

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(0.005)
        return torch.ones(8)


def in_use() -> int:
    """What this process has of memory that no file is behind."""
    found = re.search(r"RssAnon:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found
    return int(found[1]) * 1024


def main() -> None:
    held = []
    while in_use() < int(sys.argv[1]):
        held.append(b"x" * PIECE)
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for batch in DataLoader(Slow(), batch_size=4):  # the loop
        optimizer.zero_grad()
        model(batch).sum().backward()
        optimizer.step()


if __name__ == "__main__":
    main()
