"""tests/programs/standing.py, running."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pythons import ROOT

PROGRAM = ROOT / "tests" / "programs" / "standing.py"


@dataclass
class Standing:
    pid: int
    child: int


def line_of(mark: str) -> int:
    """The line that ends in `# line: MARK`."""
    lines = PROGRAM.read_text().splitlines()
    return 1 + next(
        n for n, line in enumerate(lines) if line.endswith(f"# line: {mark}")
    )


@contextmanager
def standing(python: str, threads: int = 3) -> Iterator[Standing]:
    words = [python, "-W", "ignore", PROGRAM, str(threads)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    pid, child = map(int, process.stdout.readline().split())
    time.sleep(0.05)  # from its word to its loop
    try:
        yield Standing(pid, child)
    finally:
        for number in (child, pid):
            try:
                os.kill(number, signal.SIGKILL)
            except ProcessLookupError:
                pass  # it has ended by itself
        process.wait()
        process.stdout.close()
