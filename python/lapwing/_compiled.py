"""torch.compile takes lapwing.step() and its like for nothing at all.

To dynamo a function it does not know is a reason to break its graph: a compiled
training would be slower for being annotated, recorded or not. So dynamo is told what
they do to tensors: nothing. What is inside a compiled function is therefore not heard
of; a phase around it is.

Torch is never imported for that: we wait until the program has imported torch._dynamo.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from lapwing._agent import agent

AWAITED = "torch._dynamo"


class Waiting:
    """On sys.meta_path until the program imports AWAITED; the others find it."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != AWAITED:
            return None
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        for finder in sys.meta_path:
            if spec := finder.find_spec(name, path, target):
                tell_after(spec)
                return spec
        return None


def tell_after(spec: ModuleSpec) -> None:
    """Have the module of SPEC followed by tell()."""
    loader: Any = spec.loader
    execute = getattr(loader, "exec_module", None)
    if execute is None:
        return

    def execute_and_tell(module: ModuleType) -> None:
        del loader.exec_module  # the class's own is there again
        execute(module)
        tell()

    try:
        loader.exec_module = execute_and_tell
    except AttributeError:  # a loader of somebody else's: then as without us
        pass


def tell() -> None:
    """Tell dynamo; a torch that cannot be told (before 2.5) breaks its graphs."""
    try:
        from torch._dynamo.decorators import (  # type: ignore[import-not-found,unused-ignore]
            substitute_in_graph,
        )

        for function, nothing in (
            (agent.step, step),
            (agent.mark, mark),
            (agent.counter, counter),
            (agent.phase, phase),
            (agent.is_recording, is_recording),
        ):
            substitute_in_graph(function, skip_signature_check=True)(nothing)
    except Exception:  # the program comes first
        pass


def step(*, begin: bool = True) -> None:
    return None


def mark(name: str, /) -> None:
    return None


def counter(name: str, value: object, /) -> None:
    return None


def phase(name: Any, /) -> AbstractContextManager[None]:
    return nullcontext()


def is_recording() -> bool:
    return False


def hide() -> None:
    """Tell dynamo as soon as there is one."""
    if AWAITED in sys.modules:
        tell()
    else:
        sys.meta_path.insert(0, Waiting())
