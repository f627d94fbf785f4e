"""A training that goes on until its standard input is closed, to attach to.

Prints its pid when it trains, and at the end how many steps it made. With RANK and
WORLD_SIZE set it is one rank of a job, whose processes meet through the file that is
its argument. Each step has exactly three linear layers, and takes 5 ms or more.
"""

import os
import select
import sys
import time

import torch
from torch import nn


def train_step(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    batch = torch.ones(16, 32)
    optimizer.zero_grad()
    loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    layers = [nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32), nn.Linear(32, 1)]
    model: nn.Module = nn.Sequential(*layers)
    if "RANK" in os.environ:
        rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        meet = f"file://{sys.argv[1]}"
        torch.distributed.init_process_group("gloo", meet, rank=rank, world_size=size)
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    steps = 0
    goes_on = True
    while goes_on:
        train_step(model, optimizer)
        steps += 1
        if steps == 1:
            print(os.getpid(), flush=True)
        time.sleep(0.005)
        ended = bool(select.select([sys.stdin], [], [], 0)[0])
        if "RANK" in os.environ:  # all leave after the same step
            flag = torch.tensor(int(ended))
            torch.distributed.all_reduce(flag, torch.distributed.ReduceOp.MAX)
            ended = bool(flag)
        goes_on = not ended
    print(steps)
    if "RANK" in os.environ:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
