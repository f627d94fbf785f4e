"""Check the programs here against cProfile, on every Python: check.py [VERSION PATH]...

The programs say how often their functions are called. Tests hold a profiler to these
numbers, so the numbers themselves have to be right: where cProfile can see all that a
program does (one thread, one process, no hook of its own) it must agree. The others
are only run, as each checks its own work. The Pythons are those of tools/pythons.sh
unless given.
"""

from __future__ import annotations

import json
import marshal
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parent

COUNTED = ("recursion", "generators", "coroutines", "raising", "specialised")
RUN = (
    ("threads",),
    ("small_stack",),
    *(("own_hooks", how) for how in ("setprofile", "settrace", "threading", "late")),
    *(
        ("processes", kind)
        for kind in (
            "os-fork os-fork-exit fork spawn forkserver subprocess exec pool nested"
        ).split()
    ),
)


def run(*command: str) -> dict[str, dict[str, dict[str, int]]]:
    """What the program of COMMAND says of itself; exits if it fails."""
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"check.py: exit code {done.returncode}: {' '.join(command)}")
    said = json.loads(done.stdout.splitlines()[-1])
    assert isinstance(said, dict)
    return said


def seen_by_cprofile(profile: Path, program: Path) -> dict[str, dict[str, int]]:
    """Calls of PROGRAM's functions by name, from a file that cProfile wrote."""
    seen: dict[str, dict[str, int]] = {}
    for (file, _, name), numbers in marshal.loads(profile.read_bytes()).items():
        if file == str(program):
            primitive, calls = numbers[:2]
            row = seen.setdefault(name, {"calls": 0, "primitive": 0})
            row["calls"] += calls
            row["primitive"] += primitive
    return seen


def differences(python: str, name: str) -> list[str]:
    """Where program NAME and cProfile disagree under PYTHON."""
    program = FOLDER / f"{name}.py"
    with tempfile.TemporaryDirectory() as folder:
        profile = Path(folder, "cprofile.prof")
        said = run(python, "-m", "cProfile", "-o", str(profile), str(program))
        seen = seen_by_cprofile(profile, program)
    return [
        f"{name}: {function}: says {counts}, cProfile saw {seen.get(function)}"
        for function, counts in said["functions"].items()
        if seen.get(function) != counts
    ]


def pythons() -> list[str]:
    """VERSION PATH pairs in a row, as they come on the command line."""
    if len(sys.argv) > 1:
        return sys.argv[1:]
    tool = FOLDER.parents[1] / "tools" / "pythons.sh"
    return subprocess.check_output([str(tool), "--first"], text=True).split()


def main() -> None:
    """Check each Python and say what was found."""
    wrong = 0
    words = pythons()
    for version, python in zip(words[::2], words[1::2], strict=True):
        counted: tuple[str, ...] = COUNTED
        if version.startswith("3.10."):
            counted = tuple(name for name in COUNTED if name != "recursion")
        found = [line for name in counted for line in differences(python, name)]
        hooks = [] if version.startswith(("3.10.", "3.11.")) else ["monitoring"]
        others = [*RUN, *(("own_hooks", hook) for hook in hooks)]
        for name, *args in others:
            run(python, str(FOLDER / f"{name}.py"), *args)
        print(
            f"{version}: cProfile agrees with {len(counted)} programs"
            f" but for {len(found)} functions; {len(others)} more ran",
            flush=True,
        )
        for line in found:
            print(f"  {line}")
        wrong += len(found)
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
