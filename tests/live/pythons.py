"""The Pythons of this machine by version, for tests that want some by name."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent

# Those that the sampler knows: all in `make matrix`, else one of each kind (frames that
# are objects, a data stack, offsets that the interpreter tells).
WANTED = os.environ.get("LAPWING_VERSIONS", "").split()
SAMPLED = ["3.9", *WANTED] if WANTED else ["3.9", "3.11", "3.13"]


@cache
def interpreters() -> dict[str, str]:
    """The path of one CPython of each minor version, such as "3.11"."""
    listed = subprocess.check_output(
        [ROOT / "tools" / "pythons.sh", "--all", "--first", "--local"],
        text=True,
        stderr=subprocess.DEVNULL,
    )
    rows = (line.split() for line in listed.splitlines())
    return {".".join(version.split(".")[:2]): path for version, path in rows}


def interpreter(version: str) -> str:
    if version not in interpreters():
        pytest.skip(f"no CPython {version} on this machine")
    return interpreters()[version]
