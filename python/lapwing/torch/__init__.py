"""torch.profiler, repaired, and in the run: a script changes one import. ::

    import lapwing.torch as profiler           # was: import torch.profiler as profiler

    with profiler.profile(
        schedule=profiler.schedule(wait=1, warmup=1, active=3),
        on_trace_ready=profiler.tensorboard_trace_handler("log"),
    ) as p:
        for batch in loader:
            train(batch)
            p.step()
    print(p.key_averages().table(sort_by="self_cpu_time_total"))

`profile` is a subclass of torch's own, so everything torch does it does too, and
isinstance() holds. What is different:

- export_chrome_trace() may be called any number of times;
- the table has its columns in the order of its heads also with stacks and FLOPs, holds
  ops and no Python functions (which with_stack=True mixes in; they stay with
  key_averages(python_functions=True)), and sort_by an unknown column is an error that
  lists the known ones;
- a schedule that never recorded says so when the profiler stops;
- in a process that is being recorded (`lapwing run`), each window's trace is also put
  into the run, where `lapwing report ops`, `kernels`, `overview` find it.

Whatever else torch.profiler has is here too, as it is there, and its modules: `from
torch.profiler import ...` becomes `from lapwing.torch.profiler import ...`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

try:
    import torch.profiler as _torch_profiler
except ImportError as error:
    raise ImportError(
        "lapwing.torch needs PyTorch, which this Python cannot import: install torch "
        f"where the program runs ({error})"
    ) from error

from lapwing.torch import profiler as profiler
from lapwing.torch._profile import profile

if TYPE_CHECKING:
    from torch.profiler import (
        DeviceType,
        ExecutionTraceObserver,
        ProfilerAction,
        ProfilerActivity,
        kineto_available,
        record_function,
        schedule,
        supported_activities,
        tensorboard_trace_handler,
    )

__all__ = [
    "DeviceType",
    "ExecutionTraceObserver",
    "ProfilerAction",
    "ProfilerActivity",
    "kineto_available",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]


def __getattr__(name: str) -> Any:
    try:
        return getattr(_torch_profiler, name)
    except AttributeError:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message) from None


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(_torch_profiler)})
