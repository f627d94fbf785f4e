"""Recording a program with `lapwing run` and reading the result back."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass
class Recording:
    """A finished `lapwing run`."""

    lapwing: str
    run: Path
    done: subprocess.CompletedProcess[str]

    def report(self, *words: str) -> Any:
        """A view of it, as JSON."""
        command = [self.lapwing, "report", str(self.run), *words, "--json"]
        shown = subprocess.run(command, capture_output=True, text=True)
        assert shown.returncode == 0, shown.stderr
        return json.loads(shown.stdout)

    def counts(self, file_name: str) -> dict[str, tuple[int, int]]:
        """(calls, primitive calls) of the functions in FILE_NAME, by name."""
        found: dict[str, tuple[int, int]] = {}
        for row in self.report("functions", "--limit", "0")["rows"]:
            if f"/{file_name}:" in f"/{row['place']}":
                old = found.get(row["function"], (0, 0))
                found[row["function"]] = (
                    old[0] + row["calls"],
                    old[1] + row["primitive_calls"],
                )
        return found

    def notes(self) -> str:
        """What the report says is missing."""
        return "\n".join(self.report("functions")["notes"])


def record(
    lapwing: str, folder: Path, *words: str, check: bool = True, **environment: str
) -> Recording:
    """`lapwing run -o FOLDER/x.lap WORDS...`"""
    run = folder / "x.lap"
    done = subprocess.run(
        [lapwing, "run", "-o", str(run), *words],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **environment},
    )
    assert not check or done.returncode == 0, done.stderr
    return Recording(lapwing, run, done)
