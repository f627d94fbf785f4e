"""A training that is slow for a reason that can be chosen, and taken away.

    training.py CAUSE                   once, with the cause
    training.py CAUSE --cured           once, with the change that is advised
    training.py CAUSE --both ROUNDS     in turn, so that the two can be compared

It prints, as one line of JSON, the seconds that its loops took. The work is real and
the same each time; only a storage that is slow is made of waiting. The causes are the
keys of CAUSES.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, get_worker_info

BATCH, FEATURES, WIDTH = 16, 64, 512


@dataclass(frozen=True)
class Way:
    """How to train."""

    epochs: int = 2
    batches: int = 50
    passes: int = 6  # through the model, each step: as much as a larger one takes
    rounds: int = 0  # of smoothing each image
    wait_s: float = 0  # for the storage, each image
    workers: int = 0
    persistent: bool = True
    log_every: int = 0  # steps; 0: never
    slow_worker: float = 1  # by how much the first worker's storage is slower


def augment(values: list[float], rounds: int) -> list[float]:
    """Smooth an image, in Python as people write it."""
    for _ in range(rounds):
        for i in range(1, len(values) - 1):
            values[i] = (values[i - 1] + values[i] + values[i + 1]) / 3  # smoothing
    return values


class Images(Dataset[tuple[Tensor, int]]):
    def __init__(self, way: Way) -> None:
        self.way = way
        self.images = torch.rand(BATCH, FEATURES)

    def __len__(self) -> int:
        return self.way.batches * BATCH

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image = self.images[index % BATCH]
        if self.way.wait_s:
            worker = get_worker_info()
            is_slow = worker is not None and worker.id == 0
            time.sleep(self.way.wait_s * (self.way.slow_worker if is_slow else 1))
        if self.way.rounds:
            image = torch.tensor(augment(image.tolist(), self.way.rounds))
        return image, index % 10


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(FEATURES, WIDTH),
            nn.ReLU(),
            nn.Linear(WIDTH, WIDTH),
            nn.ReLU(),
            nn.Linear(WIDTH, 10),
        )

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.layers(x)
        return result


def log_metrics(model: nn.Module, history: list[float]) -> str:
    """Statistics of all weights and the whole history, as loggers write them."""
    record = {"history": history}
    for name, value in model.named_parameters():
        record[name] = [float(q) for q in value.detach().abs().flatten()[:200]]
    return json.dumps(record)


def train(way: Way) -> float:
    """The seconds of the loops."""
    torch.manual_seed(0)
    model, criterion = Net(), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(
        Images(way),
        batch_size=BATCH,
        num_workers=way.workers,
        persistent_workers=way.workers > 0 and way.persistent,
    )
    history: list[float] = []
    start = time.perf_counter()
    for _ in range(way.epochs):
        for x, y in loader:  # the loop
            for _ in range(way.passes):
                loss = criterion(model(x), y)
                loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            history.append(loss.item())
            if way.log_every and len(history) % way.log_every == 0:
                log_metrics(model, history[-50:])  # the line that logs
    return time.perf_counter() - start


# Long enough, both the step and the training, for a worker to be worth what it costs.
DATA = Way(epochs=4, passes=18, rounds=72)
STORAGE = Way(batches=25, passes=18, wait_s=0.003, workers=1)
UNEVEN = Way(batches=20, wait_s=0.002, workers=2, slow_worker=4)
ANEW = Way(epochs=8, batches=10, workers=2, persistent=False)

# Each with what is advised.
CAUSES = {
    "nothing": (Way(), Way()),
    "logging": (Way(log_every=1), Way(log_every=10)),
    "data": (DATA, replace(DATA, workers=1)),
    "storage": (STORAGE, replace(STORAGE, workers=6)),
    "anew": (ANEW, replace(ANEW, persistent=True)),
    "uneven": (UNEVEN, replace(UNEVEN, wait_s=0.005, slow_worker=1)),
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("cause", choices=CAUSES)
    parser.add_argument("--cured", action="store_true")
    parser.add_argument("--both", type=int, default=0, metavar="ROUNDS")
    parser.add_argument("--workers", type=int, help="instead of the cure's own")
    args = parser.parse_args()
    torch.set_num_threads(1)
    ill, cured = CAUSES[args.cause]
    if args.workers is not None:
        cured = replace(cured, workers=args.workers)
    if args.both:
        pairs = [(train(ill), train(cured)) for _ in range(args.both)]
        print(
            json.dumps({"ill": [a for a, _ in pairs], "cured": [b for _, b in pairs]})
        )
    else:
        print(json.dumps({"seconds": train(cured if args.cured else ill)}))


if __name__ == "__main__":
    main()
