"""A training of many small parameters, and the same with what advice says changed.

tiny_ops.py tiny STEPS     an optimizer that goes from parameter to parameter
tiny_ops.py loop STEPS     a model that goes from row to row
tiny_ops.py large STEPS    as few parameters as there are tiny ones, but large
tiny_ops.py compare STEPS  prints what a step takes, in ms of its thread's own time, of
                           tiny, and of tiny with an optimizer that treats all
                           parameters at once: the medians of steps by turns
"""

import json
import statistics
import sys
import time

import torch

torch.set_num_threads(1)


class Net(torch.nn.Module):
    """A sum of COUNT vectors of SIZE."""

    def __init__(self, count: int, size: int) -> None:
        super().__init__()
        self.rows = torch.nn.ParameterList(torch.ones(size) for _ in range(count))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (torch.stack(tuple(self.rows)) * x).pow(2).mean()


class Rows(torch.nn.Module):
    """A layer, for each row of its input."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        total = torch.zeros(())
        for row in x:
            total = total + torch.tanh(self.layer(row)).pow(2).mean()
        return total / len(x)


class Training:
    def __init__(self, model: torch.nn.Module, x: torch.Tensor, fused: bool) -> None:
        self.model, self.x = model, x
        self.optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=fused)

    def step(self) -> None:
        self.optimizer.zero_grad()
        self.model(self.x).backward()
        self.optimizer.step()


def make(name: str) -> Training:
    if name == "tiny":
        return Training(Net(150, 16), torch.ones(16), fused=False)
    if name == "tiny fused":
        return Training(Net(150, 16), torch.ones(16), fused=True)
    if name == "large":
        return Training(Net(150, 4096), torch.ones(4096), fused=True)
    return Training(Rows(), torch.ones(100, 16), fused=True)


def compare(steps: int) -> dict[str, float]:
    names = ("tiny", "tiny fused")
    trainings = {name: make(name) for name in names}
    took: dict[str, list[float]] = {name: [] for name in names}
    for number in range(steps + 5):
        for name, training in trainings.items():
            start = time.thread_time()
            training.step()
            if number >= 5:
                took[name].append(1000 * (time.thread_time() - start))
    return {name: statistics.median(times) for name, times in took.items()}


def main() -> None:
    name, steps = sys.argv[1], int(sys.argv[2])
    if name == "compare":
        print(json.dumps(compare(steps)))
        return
    training = make(name)
    for _ in range(steps):
        training.step()


if __name__ == "__main__":
    main()
