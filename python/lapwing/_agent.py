"""The agent's extension, loaded once a process.

Under ``lapwing run`` it is there already, out of sight: the program that watches us put
it in, maybe from another installation. Otherwise it is the one beside this file.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lapwing import _lapwing as agent
else:

    def _load():
        if loaded := sys.modules.get("_lapwing"):
            return loaded
        path = str(INJECT_FOLDER / "_lapwing.abi3.so")
        loader = importlib.machinery.ExtensionFileLoader("_lapwing", path)
        spec = importlib.util.spec_from_file_location("_lapwing", path, loader=loader)
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
        running = module.running()
        if running is None:
            raise ImportError("lapwing works in a process's main interpreter only")
        sys.modules["_lapwing"] = running
        return running


INJECT_FOLDER = Path(__file__).parent / "_inject"

if not TYPE_CHECKING:
    agent = _load()

__all__ = ["INJECT_FOLDER", "agent"]
