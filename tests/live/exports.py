"""Exporting a story, and what our own report says of it."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SPEEDSCOPE = (
    ROOT / ".venv" / "node" / "node_modules" / "speedscope" / "dist" / "release"
)


def export(lapwing: str, folder: Path, form: str, name: str = "out") -> Path:
    """FOLDER/x.lap in another form; where it is."""
    path = folder / name
    words = [lapwing, "export", folder / "x.lap", "--to", form, "-o", path]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return path


def whole(lapwing: str, folder: Path) -> dict[str, Any]:
    """Everything in FOLDER/x.lap, from our own JSON."""
    text = export(lapwing, folder, "json", "whole.json").read_text()
    document: dict[str, Any] = json.loads(text)
    return document


def functions(lapwing: str, folder: Path) -> list[dict[str, Any]]:
    """The rows of `lapwing report functions`."""
    words = [lapwing, "report", folder / "x.lap", "functions", "--json"]
    rows: list[dict[str, Any]] = json.loads(subprocess.check_output(words))["rows"]
    return rows


def by_name(rows: list[dict[str, Any]], column: str) -> Counter[str]:
    """Sums of a column by the bare names of functions; those of zero are left out."""
    sums: Counter[str] = Counter()
    for row in rows:
        sums[row["function"]] += row.get(column) or 0
    return +sums


def span_name(document: dict[str, Any], span: dict[str, Any]) -> str:
    """What a span of whole() is called."""
    mark: str | None = span.get("mark")
    return mark or document["functions"][span["function"]]["name"]
