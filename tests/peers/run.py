"""Run CPython's own tests of cProfile, profile and pstats with lapwing in their place.

    python tests/peers/run.py [VERSION...]

On every Python at hand from 3.10 to 3.13 that has its tests installed. A test that
passes bare must pass with lapwing, unless accepted.txt says why it does not; what is
listed there and passes is an error too, so that the list stays true.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "live"))

from packages import environment  # noqa: E402
from pythons import interpreters  # noqa: E402

VERSIONS = ("3.10", "3.11", "3.12", "3.13")
MODULES = ("test_cprofile", "test_profile", "test_pstats")


def accepted() -> dict[str, set[str]]:
    """The versions in which each test may fail. A line is TEST VERSION..., and the
    indented ones below say why."""
    found = {}
    for line in (HERE / "accepted.txt").read_text().splitlines():
        if line and not line.startswith(("#", " ")):
            name, *versions = line.split()
            found[name] = set(versions)
    return found


def outcomes(python: str, how: str, module: str) -> dict[str, str]:
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [python, HERE / "swapped.py", how, f"test.{module}"],
            cwd=folder,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=300,
        )
    if done.returncode != 0:
        return {"(all of it)": f"failed: {done.stderr[-500:]}"}
    found: dict[str, str] = json.loads(done.stdout)
    return {f"{module}.{name}": outcome for name, outcome in found.items()}


def compare(version: str, python: str, allowed: dict[str, set[str]]) -> Iterator[str]:
    for module in MODULES:
        bare = outcomes(python, "bare", module)
        swapped = outcomes(python, "lapwing", module)
        passed = sum(outcome == "ok" for outcome in swapped.values())
        print(f"{version} {module}: {passed} of {len(bare)} pass")
        for name in sorted({*bare, *swapped}):
            before, after = bare.get(name, "missing"), swapped.get(name, "missing")
            is_allowed = version in allowed.get(name, set())
            if before == "ok" != after and not is_allowed:
                yield f"{version} {name}: {after}"
            if after == "ok" and is_allowed:
                yield f"{version} {name}: passes; take it out of accepted.txt"


def main() -> int:
    wanted = sys.argv[1:] or VERSIONS
    allowed = accepted()
    found = 0
    for version in wanted:
        python = interpreters().get(version)
        if not python:
            print(f"{version}: not on this machine")
            continue
        has_tests = [python, "-c", "import test.test_cprofile"]
        if subprocess.run(has_tests, capture_output=True).returncode != 0:
            print(f"{version}: its tests are not installed")
            continue
        for line in compare(version, python, allowed):
            found += 1
            print(f"  {re.sub(r' at 0x[0-9a-f]+', '', line)}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
