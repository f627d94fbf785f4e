"""Just enough of the `pyperf` module for pyperformance's scripts to load anywhere.

The real pyperf starts worker processes, calibrates loops and needs installing for
each Python. Here a script's `Runner` only notes what it was asked to measure, and
pyperf_program.py runs that a fixed number of times: the same calls each time, which
is what a comparison of call counts needs.
"""

from __future__ import annotations

import argparse
import sys
import types
from collections.abc import Callable, Coroutine
from time import perf_counter
from typing import Any, NamedTuple


class Benchmark(NamedTuple):
    """Something a script asked to be measured: its name, and how to run it."""

    name: str
    run: Callable[[int], object]  # takes the number of loops


class Runner:
    """Stands in for pyperf.Runner in one script."""

    arguments: list[str] = []  # the script's own, in place of sys.argv
    found: list[Benchmark] = []  # by the script that is being loaded

    def __init__(self, **_options: object) -> None:
        self.metadata: dict[str, object] = {}
        self.argparser = argparse.ArgumentParser()

    def parse_args(self) -> argparse.Namespace:
        """The script's own options, from Runner.arguments."""
        return self.argparser.parse_args(Runner.arguments)

    def bench_func(
        self, name: str, func: Callable[..., object], *args: object, **_: object
    ) -> None:
        """Note a function to be called once a loop."""

        def run(loops: int) -> None:
            for _ in range(loops):
                func(*args)

        Runner.found.append(Benchmark(name, run))

    def bench_time_func(
        self, name: str, func: Callable[..., float], *args: object, **_: object
    ) -> None:
        """Note a function that loops by itself."""
        Runner.found.append(Benchmark(name, lambda loops: func(loops, *args)))

    def bench_async_func(
        self,
        name: str,
        func: Callable[..., Coroutine[Any, Any, object]],
        *args: object,
        **_: object,
    ) -> None:
        """Note a coroutine function to be run once a loop, in a loop of its own.

        Only here is asyncio wanted, and importing it takes nearly half of a short run.
        """
        import asyncio

        def run(loops: int) -> None:
            for _ in range(loops):
                asyncio.run(func(*args))

        Runner.found.append(Benchmark(name, run))


def install() -> None:
    """Let `import pyperf` find this, even where the real one is installed."""
    module = types.ModuleType("pyperf")
    vars(module).update(Runner=Runner, perf_counter=perf_counter)
    sys.modules["pyperf"] = module
