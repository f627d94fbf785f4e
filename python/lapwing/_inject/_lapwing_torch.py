"""What is done once the watched program has imported torch; see sitecustomize.py.

Runs in somebody else's program, right after torch's own code: nothing here imports
torch, prints or raises.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any


def imported(torch: ModuleType, agent: Any, folder: str, config: str) -> None:
    """TORCH is there, and AGENT, the extension, as CONFIG says, is to see what it does.
    FOLDER is where this file is."""
    agent.watch_steps(torch)
    agent.watch_ops(torch)
    if ",torch=" in config:
        _take_windows(torch, folder, config)


def _take_windows(torch: ModuleType, folder: str, config: str) -> None:
    """Of torch's own profiler, as CONFIG says."""
    from _frozen_importlib_external import SourceFileLoader

    loader = SourceFileLoader("_lapwing_window", folder + "/_lapwing_window.py")
    windows = ModuleType("_lapwing_window")  # not in sys.modules
    loader.exec_module(windows)
    windows.start(config, torch)
