"""Recording torch's ops and asking for them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any


def record(
    lapwing: str, options: list[str], command: list[str], folder: Path, **more: Any
) -> str:
    """What the program printed under `lapwing run OPTIONS`."""
    words = [
        lapwing,
        "run",
        "-q",
        "--no-summary",
        "-o",
        str(folder / "x.lap"),
        *options,
    ]
    done = subprocess.run(
        [*words, "--", *command], capture_output=True, text=True, timeout=120, **more
    )
    assert done.returncode == 0, done.stderr
    assert "lapwing:" not in done.stderr  # torch itself may have words
    return done.stdout


def report(lapwing: str, folder: Path, *options: str) -> dict[str, Any]:
    """`lapwing report ops` of the run."""
    words = [lapwing, "report", str(folder / "x.lap"), "ops", "--json", "-n", "0"]
    done = subprocess.run([*words, *options], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    table: dict[str, Any] = json.loads(done.stdout)
    return table


def refused(lapwing: str, folder: Path, *options: str) -> str:
    """What `lapwing report ops` says where it has nothing to show."""
    words = [lapwing, "report", str(folder / "x.lap"), "ops", *options]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 1
    return done.stderr


def ops(lapwing: str, folder: Path, *options: str) -> dict[str, int]:
    """How often each op and range was there."""
    rows = report(lapwing, folder, *options)["rows"]
    return {row["name"]: row["calls"] for row in rows}
