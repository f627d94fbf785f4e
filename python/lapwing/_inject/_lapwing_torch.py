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
    has_ops = agent.watch_ops(torch)
    if ",steps=1" in config:
        _Profiler(torch, agent, folder, config).start(not has_ops)


class _Profiler:
    """torch's own, as the run's options or somebody who attaches want it."""

    def __init__(self, torch: ModuleType, agent: Any, folder: str, config: str) -> None:
        self.torch = torch
        self.agent = agent
        self.folder = folder
        self.config = config
        self.modules: dict[str, Any] = {}
        self.windows: Any = None

    def start(self, lacks_ops: bool) -> None:
        self.agent.on_order(self.ordered)
        if ",torch=" in self.config:
            window = self.load("_lapwing_window")
            words = self.config, self.torch, self.agent
            self.windows = window.start(*words, lacks_ops)

    def load(self, name: str) -> Any:
        """A module of this folder, which is not in sys.modules."""
        from _frozen_importlib_external import SourceFileLoader

        if name not in self.modules:
            loader = SourceFileLoader(name, f"{self.folder}/{name}.py")
            module = ModuleType(name)
            loader.exec_module(module)
            self.modules[name] = module
        return self.modules[name]

    def ordered(self) -> None:
        """There may be an order for this process."""
        window, order = self.load("_lapwing_window"), self.load("_lapwing_order")
        if self.windows is None:
            windows = window.Windows(self.torch, self.agent)
            try:
                windows.start()
                windows.find_foreign()
            except Exception as error:
                if self.agent.is_programs(error):
                    raise
                if refused := order.read(self.config, window):
                    refused.fail(
                        f"has torch {self.torch.__version__}, which lacks what its "
                        f"profiler is driven by ({error}): {window.OLDEST} and later "
                        "have it"
                    )
                return
            self.windows = windows
        order.take(self.config, self.windows, window)
