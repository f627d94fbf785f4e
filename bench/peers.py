"""A virtualenv with the peers for each Python, made once and kept in the cache."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import places

LIST = places.PROJECT / "bench" / "peers.txt"
TRACES_LIST = places.PROJECT / "bench" / "kineto_peers.txt"


@dataclass(frozen=True)
class Environment:
    """One Python to measure with."""

    minor: str
    python: Path  # the virtualenv's
    lapwing: Path | None  # works on any Python, so it is in none of the virtualenvs
    missing: dict[str, str]  # peers that could not be installed, and why


def wanted(path: Path) -> list[str]:
    """The pinned requirements, one a peer."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def install(python: Path, requirement: str) -> str | None:
    """Install one peer; gives back why not, or None when it is there.

    pip runs outside the virtualenv: not every Python here has one of its own. Nor has
    every one its headers, so a peer without a wheel for it is left out.
    """
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q"]
    command += ["--disable-pip-version-check", "--only-binary", ":all:", requirement]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == 0:
        return None
    errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR: ")]
    if not errors:
        return f"pip left with {done.returncode}"
    return errors[-1].removeprefix("ERROR: ")


def prepare_for_traces() -> Environment:
    """That with the readers of torch's traces, of the Python that runs this."""
    base = Path(sys.base_prefix, "bin", f"python3.{sys.version_info.minor}")
    return prepare("kineto", base, None, TRACES_LIST)


def prepare(
    minor: str, base: Path, lapwing: Path | None, peers: Path = LIST
) -> Environment:
    """The virtualenv for BASE, ready to measure with; MINOR is its name."""
    folder = places.cache() / "bench-venvs" / minor
    python = folder / "bin" / "python"
    done = folder / "peers.txt"
    text = "\n".join([str(base), *wanted(peers)])
    missing: dict[str, str] = {}
    if done.exists() and done.read_text(encoding="utf-8") == text:
        return Environment(minor, python, lapwing, missing)
    print(f"bench: making {folder}", file=sys.stderr)
    subprocess.run(
        [str(base), "-m", "venv", "--clear", "--without-pip", str(folder)], check=True
    )
    for requirement in wanted(peers):
        reason = install(python, requirement)
        if reason is not None:
            missing[requirement.split("==")[0]] = reason
    if not missing:
        done.write_text(text, encoding="utf-8")
    return Environment(minor, python, lapwing, missing)
