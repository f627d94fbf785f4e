"""What the suites of `make test` found, in one form, and which skips are allowed.

Every suite writes build/results/SUITE.json; tests/all.py adds them up. A test that
is skipped without a line in tests/may_skip.txt counts as failed.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build" / "results"
MAY_SKIP = ROOT / "tests" / "may_skip.txt"


@dataclass
class Result:
    name: str
    outcome: str  # passed, failed or skipped
    message: str = ""  # why it failed or was skipped
    seconds: float = 0.0


def write(suite: str, results: list[Result]) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    text = json.dumps([asdict(r) for r in results], indent=1)
    (FOLDER / f"{suite}.json").write_text(text + "\n")


def read(suite: str) -> list[Result]:
    path = FOLDER / f"{suite}.json"
    if not path.exists():
        return []
    return [Result(**row) for row in json.loads(path.read_text())]


def forget(suite: str) -> None:
    (FOLDER / f"{suite}.json").unlink(missing_ok=True)


def _matches(pattern: str, text: str) -> bool:
    """Only * is special: test names hold brackets."""
    parts = (re.escape(part) for part in pattern.split("*"))
    return re.fullmatch(".*".join(parts), text, re.DOTALL) is not None


def _allowed() -> list[tuple[str, str]]:
    lines = MAY_SKIP.read_text().splitlines()
    rows = [line for line in lines if line.strip() and not line.startswith("#")]
    return [(row.split(None, 1)[0], row.split(None, 1)[1].strip()) for row in rows]


def judge(result: Result) -> Result:
    """A skip that is not on the list becomes a failure."""
    if result.outcome != "skipped":
        return result
    for name, reason in _allowed():
        if _matches(name, result.name) and _matches(reason, result.message):
            return result
    message = f"skipped ({result.message}), which tests/may_skip.txt does not allow"
    return Result(result.name, "failed", message, result.seconds)
