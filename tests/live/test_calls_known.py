"""`lapwing run` on programs that know how often their functions are called."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from recording import PROGRAMS, counts_in, run

ONE_PROCESS = (
    "recursion",
    "small_stack",
    "generators",
    "coroutines",
    "raising",
    "specialised",
    "threads",
    "own_hooks setprofile",
    "own_hooks settrace",
    "own_hooks threading",
    "own_hooks late",
)


def check(lapwing: str, folder: Path, options: list[str], command: list[str]) -> None:
    done = run(lapwing, [*options, "--", *command], folder)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    found = counts_in(lapwing, folder, Path(command[1]).name)
    expected = {
        name: (count["calls"], count["primitive"])
        for name, count in said["functions"].items()
    }
    assert {name: found.get(name) for name in expected} == expected


@pytest.mark.parametrize("calls", ["python", "builtins"])
@pytest.mark.parametrize("program", ONE_PROCESS)
def test_counts_are_exact(
    lapwing: str, python: str, program: str, calls: str, tmp_path: Path
) -> None:
    name, *arguments = program.split()
    options = ["--calls", "--c-calls"] if calls == "builtins" else ["--calls"]
    command = [python, str(PROGRAMS / f"{name}.py"), *arguments]
    check(lapwing, tmp_path, options, command)


def test_a_programs_own_monitoring_tools_find_their_ids(
    lapwing: str, python: str, tmp_path: Path
) -> None:
    show = "import sys; print(hasattr(sys, 'monitoring'))"
    if subprocess.check_output([python, "-c", show], text=True).strip() == "True":
        command = [python, str(PROGRAMS / "own_hooks.py"), "monitoring"]
        check(lapwing, tmp_path, ["--calls"], command)


def test_a_program_may_profile_itself(
    lapwing: str, python: str, tmp_path: Path
) -> None:
    """cProfile inside a recorded program works, and neither hides calls."""
    script = tmp_path / "selfish.py"
    script.write_text(
        "import cProfile\n"
        "def leaf(): pass\n"
        "def work():\n"
        "    for _ in range(1000): leaf()\n"
        "work()\n"
        "p = cProfile.Profile(); p.runcall(work); p.create_stats()\n"
        "print([nc for (_, _, n), (_, nc, *_) in p.stats.items() if n == 'leaf'])\n"
        "work()\n"
    )
    done = run(lapwing, ["--calls", "--", python, str(script)], tmp_path)
    assert done.stdout == "[1000]\n"
    assert counts_in(lapwing, tmp_path, "selfish.py")["leaf"] == (3000, 3000)
