"""patched_torch.py: trains a little, and prints all by which a program could see that
somebody has changed torch's classes. With and without a profiler it must print the
same.
"""

from __future__ import annotations

import copy
import inspect
import pickle
import sys
import warnings
from typing import Any

import torch
from torch import nn
from torch.autograd import profiler
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data import dataloader as loading
from torch.utils.data._utils import fetch as fetching

warnings.simplefilter("ignore")


def show(name: str, value: object) -> None:
    print(f"{name}: {value}")


def outcome(function: Any, *words: Any) -> str:
    try:
        text = repr(function(*words))
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
    return text.split(" at 0x")[0]


class Holder(nn.Module):
    """Keeps a range, as models do that annotate themselves."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.range = profiler.record_function("mine")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with self.range:
            result: torch.Tensor = self.layer(x)
        return result


class Named(profiler.record_function):
    """Makes its objects itself."""

    def __new__(cls, *words: Any) -> Named:
        return super().__new__(cls)


class Plain(profiler.record_function):
    pass


class OwnFetcher(fetching._MapDatasetFetcher):
    def __new__(cls, *words: Any) -> OwnFetcher:
        return super().__new__(cls)


CLASSES: list[Any] = [
    profiler.record_function,
    fetching._MapDatasetFetcher,
    fetching._IterableDatasetFetcher,
    loading._SingleProcessDataLoaderIter,
    loading._MultiProcessingDataLoaderIter,
    torch.amp.GradScaler,
    nn.Module,
]
BUILTINS: list[Any] = [
    profiler._prepare_profiler,
    profiler._enable_profiler,
    profiler._disable_profiler,
    torch._C._are_functorch_transforms_active,
    torch._C.TensorBase.to,
    torch._C.TensorBase.cuda,
    torch._C._ImperativeEngine.run_backward,
]


def see_classes() -> None:
    for of in CLASSES:
        name = of.__name__
        show(name, [(k, type(v).__name__) for k, v in sorted(vars(of).items())])
        show(f"{name} new", (of.__new__ is object.__new__, "__del__" in dir(of)))
        show(
            f"{name} init", (outcome(inspect.signature, of), type(of.__init__).__name__)
        )
        made = object.__new__(of)
        made.__dict__["_shutdown"] = True  # what a loader's iterator asks at its end
        show(f"{name} made", type(made) is of)
        show(f"{name} reduced", outcome(made.__reduce_ex__, 4)[:60])
        if not hasattr(of, "__del__"):
            show(f"{name} arguments", outcome(lambda o=of: object.__new__(o, 1)))
        show(f"{name} getattribute", type(of.__getattribute__).__name__)
    for builtin in BUILTINS:
        name = builtin.__name__
        show(name, (type(builtin).__name__, outcome(lambda b=builtin: b.__self__)[:30]))
        show(f"{name} doc", len(builtin.__doc__ or ""))
        show(f"{name} signature", outcome(inspect.signature, builtin))


def see_ranges() -> None:
    model = copy.deepcopy(Holder())
    show("copied", model(torch.ones(1, 2)).shape)
    show("ranges", [type(r).__name__ for r in (Named("a"), Plain("b"))])
    with Plain("c"), Named("d"), profiler.record_function("e") as range:
        show("range", (type(range).__name__, sorted(vars(range))))
    show("shallow", type(copy.copy(range)).__name__)


def see_batches() -> None:
    data = TensorDataset(torch.ones(8, 2))
    loader = DataLoader(data, batch_size=4)
    for _ in range(20):  # until a call of a class is specialised, if it can be
        for (x,) in loader:
            x.sum()
    iterator: Any = iter(loader)
    next(iterator)
    fetcher = iterator._dataset_fetcher
    show("fetch", (type(fetcher.fetch).__name__, fetcher.fetch.__func__.__name__))
    show("same", fetcher.fetch == fetcher.fetch)
    show("collate", fetcher.collate_fn is loader.collate_fn)
    show("pickled", len(pickle.dumps(fetcher)) > 0)
    show("deep", type(copy.deepcopy(fetcher)).__name__)
    method = fetcher.fetch
    show("method", len(method([0, 1])))
    own: Any = OwnFetcher(data, True, loader.collate_fn, False)
    show("own", len(own.fetch([0, 1])))
    workers: Any = iter(DataLoader(data, 4, num_workers=1, persistent_workers=True))
    show("reset", (type(workers._reset).__name__, workers._reset.__func__.__name__))
    show("workers", len(list(workers)))


def see_scaler() -> None:
    scaler = torch.amp.GradScaler("cpu")
    for name in ("step", "unscale_", "update"):
        method = getattr(scaler, name)
        show(name, (type(method).__name__, outcome(inspect.signature, method)))
        show(f"{name} self", method.__self__ is scaler)
    show("scaler", type(pickle.loads(pickle.dumps(scaler))).__name__)
    keep = scaler.update
    show("kept", (type(keep).__name__, keep == scaler.update))


def main() -> None:
    show("finders", [repr(f).split(" at 0x")[0] for f in sys.meta_path])
    show("modules", [name for name in sys.modules if "lapwing" in name])
    see_classes()
    see_ranges()
    see_batches()
    see_scaler()


if __name__ == "__main__":
    main()
