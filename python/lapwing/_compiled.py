"""torch.compile takes lapwing.step() and its like for nothing at all.

To dynamo a function it does not know is a reason to break its graph: a compiled
training would be slower for being annotated, recorded or not. So dynamo is told what
they do to tensors: nothing. What is inside a compiled function is therefore not heard
of; a phase around it is.

Torch is never imported for that: we wait until the program has imported torch._dynamo.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from types import ModuleType
from typing import Any

from lapwing._agent import agent

AWAITED = "torch._dynamo"


def tell(dynamo: ModuleType) -> None:
    """Tell DYNAMO, which the program has imported; a torch that cannot be told (before
    2.5) breaks its graphs."""
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
    except Exception as error:  # the program comes first
        if agent.is_programs(error):
            raise


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
    if dynamo := sys.modules.get(AWAITED):
        tell(dynamo)
    else:
        agent.await_import(AWAITED, tell)
