"""Two torch programs that are hard on a sampler. They run until they are killed.

    python bench/torch_programs.py loader FILE     trains with two DataLoader workers
    python bench/torch_programs.py threads FILE    150 native threads, maps all the time

FILE, of 16 bytes, is where they keep how many steps they have done, and when the last
one ended (CLOCK_MONOTONIC, in ns).
"""

from __future__ import annotations

import ctypes
import itertools
import mmap
import os
import sys
import time
from collections.abc import Iterator

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

NATIVE_THREADS = 150


class Images(IterableDataset[torch.Tensor]):
    """Images that take some work to make, without end."""

    def __iter__(self) -> Iterator[torch.Tensor]:
        generator = torch.Generator().manual_seed(0)
        while True:
            image = torch.rand(3, 32, 32, generator=generator)
            for _ in range(4):
                image = (image - image.mean()) / (image.std() + 1e-3)
            yield image


def loader() -> Iterator[None]:
    """The steps of a small training."""
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 32, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * 32 * 32, 10),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for images in DataLoader(Images(), batch_size=8, num_workers=2):
        optimizer.zero_grad()
        model(images).square().mean().backward()
        optimizer.step()
        yield


def threads() -> Iterator[None]:
    """Large allocations, each a map and its unmap, beside threads that only wait."""
    libc = ctypes.CDLL(None)
    for _ in range(NATIVE_THREADS):
        libc.pthread_create(ctypes.byref(ctypes.c_ulong()), None, libc.pause, None)
    assert len(os.listdir("/proc/self/task")) > NATIVE_THREADS
    while True:
        for _ in range(100):
            sum(torch.empty(1 << 18).fill_(1.0)[:8].tolist())
        yield


def main() -> None:
    torch.set_num_threads(1)
    with open(sys.argv[2], "r+b") as file:
        told = memoryview(mmap.mmap(file.fileno(), 16)).cast("Q")
    steps = {"loader": loader, "threads": threads}[sys.argv[1]]()
    for count in itertools.count(1):
        next(steps)
        told[1] = time.monotonic_ns()
        told[0] = count


if __name__ == "__main__":
    main()
