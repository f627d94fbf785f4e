"""Where things are: the project, its cache, the benchmark programs, the Pythons."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
RESULTS = PROJECT / "bench" / "results"
MAKE_RUN = PROJECT / "build" / "release" / "make_run"
PROGRAM = PROJECT / "tests" / "programs" / "pyperf_program.py"


def cache() -> Path:
    """What is kept from one run to the next."""
    given = os.environ.get("LAPWING_CACHE")
    return Path(given) if given else Path.home() / ".cache" / "lapwing"


def benchmarks() -> Path:
    """pyperformance's scripts; bench/run.sh has installed them."""
    found = sorted(
        PROJECT.glob(
            ".venv/lib/python*/site-packages/pyperformance/data-files/benchmarks"
        )
    )
    if not found:
        raise FileNotFoundError("pyperformance is not in .venv; start bench/run.sh")
    return found[0]


def pythons(minors: list[str]) -> dict[str, Path]:
    """One interpreter a minor version, of those that are to be had."""
    tool = str(PROJECT / "tools" / "pythons.sh")
    lines = subprocess.check_output([tool, "--first", *minors], text=True).splitlines()
    found = {}
    for line in lines:
        version, path = line.split(" ", 1)
        found[".".join(version.split(".")[:2])] = Path(path)
    return found


def lapwing(given: str | None) -> Path | None:
    """The program under test: GIVEN, else the one in .venv, else on PATH."""
    if given:
        return Path(given).resolve() if Path(given).exists() else None
    built = PROJECT / ".venv" / "bin" / "lapwing"
    on_path = shutil.which("lapwing")
    if built.exists():
        return built
    return Path(on_path) if on_path else None
