"""torch_unchanged.py FOLDER: trains a little, and prints all by which a program could
see that somebody has tampered with torch: signatures, sources, pickles, tracebacks,
graph breaks. With and without a profiler it must print the same.
"""

from __future__ import annotations

import copy
import gc
import hashlib
import inspect
import io
import logging
import pickle
import sys
import threading
import traceback
import warnings
import weakref
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset


def show(name: str, value: object) -> None:
    print(f"{name}: {value}")


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Linear(4, 8)
        self.two = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[1] != 4:
            raise ValueError("four features, please")
        result: Tensor = self.two(torch.relu(self.one(x)))
        return result


def train(model: nn.Module, epochs: int = 2) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = TensorDataset(torch.randn(12, 4), torch.randint(3, (12,)))
    criterion = nn.CrossEntropyLoss()
    for _ in range(epochs):
        for x, y in DataLoader(data, batch_size=4):
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()


def see_objects() -> None:
    for thing in (
        nn.Module.__call__,
        torch.autograd.backward,
        torch.autograd.grad,
        torch.autograd.profiler.record_function.__enter__,
        torch.autograd.profiler.record_function.__exit__,
        torch.optim.SGD.step,
        torch.optim.Optimizer.zero_grad,
        torch.utils.data.dataloader._BaseDataLoaderIter.__next__,
        torch.utils.data.dataloader._MultiProcessingDataLoaderIter._reset,
        torch.utils.data._utils.fetch._MapDatasetFetcher.fetch,
    ):
        source = digest(inspect.getsource(thing).encode())
        show(thing.__qualname__, f"{inspect.signature(thing)} {source}")
        show("is a function", (inspect.isfunction(thing), thing.__module__))
    for method in (
        torch.Tensor.to,
        torch.Tensor.cuda,
        torch._C._ImperativeEngine.run_backward,
    ):
        show("method", (repr(method), type(method).__name__))
    for of in (nn.Module, nn.Linear, Net, torch.autograd.profiler.record_function):
        show(of.__name__, sorted(vars(of)))
    optimizer: Any = sys.modules["torch.optim.optimizer"]
    hooks = [
        optimizer._global_optimizer_pre_hooks,
        optimizer._global_optimizer_post_hooks,
    ]
    show("hooks", [len(hook) for hook in hooks])


def see_models(folder: Path) -> None:
    torch.manual_seed(0)
    model = Net()
    train(model)
    show("vars", sorted(vars(model)))
    show("repr", repr(model))
    show(
        "state",
        digest(pickle.dumps({k: v.tolist() for k, v in model.state_dict().items()})),
    )
    dumped = pickle.dumps(model)  # its storages have their addresses in it
    show("pickle", (len(dumped), b"lapwing" in dumped))
    copied = copy.deepcopy(model)
    show("copy", torch.equal(copied(torch.ones(1, 4)), model(torch.ones(1, 4))))
    torch.save(model, folder / "model.pt")
    again = torch.load(folder / "model.pt", weights_only=False)
    show("saved", torch.equal(again(torch.ones(1, 4)), model(torch.ones(1, 4))))
    watched = weakref.ref(model)
    train(model, 1)
    del model
    show("dies at once", watched() is None)
    gc.collect()
    show(
        "hidden iterators",
        sum("DataLoaderIter" in type(o).__name__ for o in gc.get_objects()),
    )


def see_failures() -> None:
    model, x = Net(), torch.ones(2, 4)
    loss = model(x).sum()
    loss.backward()
    for fail in (lambda: model(x.T), loss.backward, lambda: x.to("nowhere")):
        try:
            fail()
        except Exception:
            text = traceback.format_exc()
            show(
                "failure",
                [
                    line
                    for line in text.splitlines()
                    if "Error" in line or "File" in line
                ],
            )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    try:
        optimizer.step(lambda: 1 / 0)  # type: ignore[arg-type,return-value]
    except ZeroDivisionError:
        show("closure", len(traceback.format_exc().splitlines()))
    broken = TensorDataset(torch.ones(2, 4))
    try:
        list(DataLoader(broken, sampler=[0, 7]))
    except IndexError:
        show("dataset", len(traceback.format_exc().splitlines()))


class Logged(Tensor):
    seen: list[str] = []

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        cls.seen.append(getattr(func, "__name__", str(func)))
        return super().__torch_function__(func, types, args, kwargs or {})


class Mode(TorchFunctionMode):
    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        Logged.seen.append("mode " + getattr(func, "__name__", str(func)))
        return func(*args, **(kwargs or {}))


def see_overrides() -> None:
    model = Net()
    with Mode():
        nn.MSELoss()(model(torch.ones(2, 4)), torch.zeros(2, 3)).backward()
        torch.ones(2).to("meta")
    x = torch.ones(2, 4).as_subclass(Logged)
    model(x).sum().backward()
    x.to(torch.float64).to("meta")
    nn.MSELoss()(x, x)
    show("overridden", Logged.seen)


def see_graphs() -> None:
    import torch._dynamo
    from torch._dynamo.utils import counters

    torch._logging.set_logs(all=logging.ERROR)  # a warning there has the time in it
    model = Net()
    train(model)
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    in_place = Net()
    in_place.compile(backend="eager", fullgraph=True)
    train(compiled)
    train(in_place)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x: Tensor) -> Tensor:
        with torch.profiler.record_function("mine"):
            loss = model(x.to(torch.float32)).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        quick = torch.compile(step, backend="eager")
        for _ in range(3):
            quick(torch.ones(2, 4))
    show("warned", sorted({str(w.message).splitlines()[0] for w in warned}))
    show(
        "counters",
        {k: sorted(v.items()) for k, v in sorted(counters.items()) if k != "inductor"},
    )
    script = torch.jit.script(scripted)
    show("script", script(torch.ones(2)).tolist())
    straight = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    show("trace", torch.jit.trace(straight, torch.ones(2, 4)).code)
    show("fx", torch.fx.symbolic_trace(straight).code)
    train(torch.fx.symbolic_trace(straight))
    train(straight)


def scripted(x: Tensor) -> Tensor:
    with torch.autograd.profiler.record_function("mine"):
        return x.to(torch.float64) + 1


def see_wrappers(folder: Path) -> None:
    train(nn.DataParallel(Net()))
    store = torch.distributed.FileStore(str(folder / "store"), 1)
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    train(nn.parallel.DistributedDataParallel(Net()))
    torch.distributed.destroy_process_group()
    model = Net()
    x = torch.ones(2, 4, requires_grad=True)
    checkpoint(model, x, use_reentrant=False).sum().backward()
    checkpoint(model, x, use_reentrant=True).sum().backward()
    threads = [threading.Thread(target=train, args=(Net(),)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    buffer = io.BytesIO()
    torch.save(model.state_dict(), buffer)
    show("state size", len(buffer.getvalue()))


def see_interpreter() -> None:
    show("finders", [getattr(f, "__name__", type(f).__name__) for f in sys.meta_path])
    show(
        "modules",
        [name for name in sys.modules if "lapwing" in name],
    )
    spec = torch.__spec__
    assert spec and spec.loader
    show("loader", (type(spec.loader).__name__, sorted(vars(spec.loader))))


def main() -> None:
    folder = Path(sys.argv[1])
    torch.set_num_threads(1)
    see_interpreter()
    see_models(folder)
    see_objects()
    see_failures()
    see_overrides()
    see_wrappers(folder)
    see_graphs()


if __name__ == "__main__":
    main()
