"""Steps that are many small ops, or few large ones.

    python ops.py small|large STEPS [--batch N] [--torch-profiler] [--count]
        [--alternate]

small is a recurrent network, written out, on tensors of a few numbers: about a thousand
ops a step. large is a convolutional one on N images, so that a step takes as long as
is wanted, whatever the machine. --torch-profiler has all steps inside torch.profiler;
--count tells how many ops torch.profiler sees in one; --alternate has torch tell nobody
of its ops in every other step, and tells how many times as long the others take.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Callable
from contextlib import nullcontext

import torch
from step_times import WARM_UP, StepTimes
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile


class Recurrent(nn.Module):
    """A gated cell, op by op."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gate = nn.Linear(2 * width, width)
        self.new = nn.Linear(2 * width, width)

    def forward(self, inputs: Tensor) -> Tensor:
        state = torch.zeros_like(inputs[0])
        for x in inputs:
            both = torch.cat((x, state), dim=1)
            gate = torch.sigmoid(self.gate(both))
            state = gate * state + (1 - gate) * torch.tanh(self.new(both))
        return state


def convolutions() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(64, 64, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, 10),
    )


def make_step(size: str, batch: int) -> Callable[[], None]:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if size == "small":
        model: nn.Module = Recurrent(8)
        inputs = torch.randn(8, 4, 8)
    else:
        model = convolutions()
        inputs = torch.randn(batch, 3, 48, 48)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, foreach=False)

    def step() -> None:
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()

    return step


def count_ops(step: Callable[[], None]) -> int:
    step()
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        step()
    events = profiler.events() or ()
    return sum(not event.is_user_annotation for event in events)


def alternate(step: Callable[[], None], steps: int) -> float:
    """The time of steps whose ops are told over that of those whose ops are not."""
    spent_ns = {True: 0, False: 0}
    order = [True, False]
    for _ in range(WARM_UP):
        step()
    for _ in range(steps // 2):
        random.shuffle(order)
        for is_told in order:
            torch.autograd._enable_record_function(is_told)
            start_ns = time.perf_counter_ns()
            step()
            spent_ns[is_told] += time.perf_counter_ns() - start_ns
    return spent_ns[True] / spent_ns[False]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("size", choices=("small", "large"))
    parser.add_argument("steps", type=int)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--torch-profiler", action="store_true")
    parser.add_argument("--count", action="store_true")
    parser.add_argument("--alternate", action="store_true")
    args = parser.parse_args()
    step = make_step(args.size, args.batch)
    if args.count:
        print(count_ops(step))
        return
    if args.alternate:
        print(json.dumps({"told_over_not": alternate(step, args.steps)}))
        return
    times = StepTimes(args.size)
    with (
        profile(activities=[ProfilerActivity.CPU])
        if args.torch_profiler
        else nullcontext()
    ):
        times.begin()
        for _ in range(args.steps):
            step()
            times.end()
        times.close()
    times.tell()


if __name__ == "__main__":
    main()
