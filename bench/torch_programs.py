"""Two torch programs that are hard on a sampler; each times itself.

python bench/torch_programs.py loader STEPS     trains with two DataLoader workers
python bench/torch_programs.py threads STEPS    150 native threads, maps all the time
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

NATIVE_THREADS = 150


class Images(Dataset[torch.Tensor]):
    """Images that take some work to make."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> torch.Tensor:
        generator = torch.Generator().manual_seed(index)
        image = torch.rand(3, 32, 32, generator=generator)
        for _ in range(4):
            image = (image - image.mean()) / (image.std() + 1e-3)
        return image


class Timed:
    """Wall and processor seconds of a block."""

    def __enter__(self) -> Timed:
        self.wall, self.cpu = -time.perf_counter(), -time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.wall += time.perf_counter()
        self.cpu += time.process_time()


def loader(steps: int) -> Timed:
    """A small training whose workers and main process are both busy."""
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 32, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * 32 * 32, 10),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batches = iter(DataLoader(Images(8 * (steps + 10)), batch_size=8, num_workers=2))
    for _ in range(10):  # the workers' start is not the training
        next(batches)
    with Timed() as timed:
        for images in batches:
            optimizer.zero_grad()
            model(images).square().mean().backward()
            optimizer.step()
    return timed


def threads(steps: int) -> Timed:
    """Large allocations, each a map and its unmap, beside threads that only wait."""
    libc = ctypes.CDLL(None)
    for _ in range(NATIVE_THREADS):
        libc.pthread_create(ctypes.byref(ctypes.c_ulong()), None, libc.pause, None)
    assert len(os.listdir("/proc/self/task")) > NATIVE_THREADS
    with Timed() as timed:
        for _ in range(steps):
            sum(torch.empty(1 << 18).fill_(1.0)[:8].tolist())
    return timed


def main() -> None:
    name, steps = sys.argv[1], int(sys.argv[2])
    torch.set_num_threads(1)
    timed = {"loader": loader, "threads": threads}[name](steps)
    said = {"program": name, "measured_seconds": timed.wall, "cpu_seconds": timed.cpu}
    print(json.dumps(said), flush=True)
    os._exit(0)  # the native threads never end


if __name__ == "__main__":
    main()
