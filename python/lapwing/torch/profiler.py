"""torch.profiler.profiler, and torch.profiler as well, with our `profile`.

So `from torch.profiler import profile, record_function` is changed in one word, and so
is an import of any module in torch.profiler: they are found here by both names, as
lapwing.torch.itt and lapwing.torch.profiler.itt.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import torch.profiler as _package
import torch.profiler.profiler as _module

from lapwing.torch._profile import profile

__all__ = ["profile", *(name for name in _package.__all__ if name != "profile")]
__path__ = [os.path.dirname(__file__)]
OURS = "lapwing.torch.profiler"
profiler = sys.modules[__name__] = sys.modules[OURS]  # also for OURS + ".profiler"


def __getattr__(name: str) -> Any:
    for module in (_module, _package):
        if hasattr(module, name):
            return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(_module), *dir(_package)})
