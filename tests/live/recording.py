"""Running programs under `lapwing run` and asking what was recorded."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

PROGRAMS = Path(__file__).resolve().parents[1] / "programs"


def run(
    lapwing: str,
    words: list[str],
    folder: Path,
    *,
    mode: tuple[str, ...] = ("--calls",),
    **options: Any,
) -> subprocess.CompletedProcess[str]:
    """`lapwing run MODE --no-summary -o FOLDER/x.lap WORDS`, with what it printed."""
    options.setdefault("capture_output", True)
    options.setdefault("timeout", 120)
    output = str(folder / "x.lap")
    command = [lapwing, "run", *mode, "--no-summary", "-o", output, *words]
    return subprocess.run(command, cwd=folder, text=True, **options)


def view(lapwing: str, folder: Path, name: str) -> dict[str, Any]:
    """A view of the run in FOLDER, as `lapwing report --json` prints it."""
    command = [lapwing, "report", str(folder / "x.lap"), name, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    table: dict[str, Any] = json.loads(done.stdout)
    return table


def calls(lapwing: str, folder: Path) -> Counter[str]:
    """How often functions were called, by their bare names, in all processes."""
    counts: Counter[str] = Counter()
    for row in view(lapwing, folder, "functions")["rows"]:
        counts[row["function"]] += row["calls"]
    return counts


def counts_in(lapwing: str, folder: Path, file_name: str) -> dict[str, tuple[int, int]]:
    """(calls, primitive calls) of the functions in FILE_NAME, by their bare names."""
    found: dict[str, tuple[int, int]] = {}
    for row in view(lapwing, folder, "functions")["rows"]:
        place = row["place"] or ""  # builtins have none
        if Path(place.rpartition(":")[0]).name == file_name:
            old = found.get(row["function"], (0, 0))
            found[row["function"]] = (
                old[0] + row["calls"],
                old[1] + row["primitive_calls"],
            )
    return found


def self_s(lapwing: str, folder: Path, function: str) -> float:
    rows = view(lapwing, folder, "functions")["rows"]
    return sum(row["self_ns"] for row in rows if row["function"] == function) / 1e9


def run_info(folder: Path) -> dict[str, Any]:
    info: dict[str, Any] = json.loads((folder / "x.lap" / "run.json").read_text())
    return info
