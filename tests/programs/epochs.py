"""Four trainings of three epochs with an evaluation each, every one in a thread of its
own, which is named for how its loop asks its loader.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

EPOCHS, BATCHES, EVALS, BATCH = 3, 4, 2, 4
Batches = Callable[[Any], Iterator[Any]]


def until_it_stops(loader: Any) -> Iterator[Any]:
    yield from loader


def as_many_as_there_are(loader: Any) -> Iterator[Any]:
    """As Lightning does: it never hears that the loader has no more."""
    yield from islice(iter(loader), len(loader))


def one_ahead(loader: Any) -> Iterator[Any]:
    """As accelerate does, to know which is the last."""
    batches = iter(loader)
    batch = next(batches)
    for following in batches:
        yield batch
        batch = following
    yield batch


def train(batches_of: Batches, **options: Any) -> None:
    def loader(batches: int) -> DataLoader[Any]:
        data = TensorDataset(torch.randn(batches * BATCH, 8))
        return DataLoader(data, batch_size=BATCH, **options)

    training, evaluation = loader(BATCHES), loader(EVALS)
    model = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(EPOCHS):
        for (x,) in batches_of(training):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
        with torch.no_grad():
            for (x,) in batches_of(evaluation):
                model(x)


def main() -> None:
    torch.set_num_threads(1)
    workers = {"num_workers": 1, "persistent_workers": True}
    for name, batches_of, options in (
        ("stops", until_it_stops, {}),
        ("counts", as_many_as_there_are, {}),
        ("ahead", one_ahead, {}),
        ("persistent", as_many_as_there_are, workers),
    ):
        thread = threading.Thread(
            target=train, args=[batches_of], kwargs=options, name=name
        )
        thread.start()
        thread.join()


if __name__ == "__main__":
    main()
