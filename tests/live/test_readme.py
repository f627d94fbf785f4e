"""The commands in README.md work, and print what it shows but for the numbers."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
README = PROJECT / "README.md"

# Enough of the demo to have every function that README shows, and samples of its
# logger, in seconds.
SMALL = {
    "train.py": ["--epochs", "12", "--classes", "8", "--images-per-class", "16"],
}


def shown() -> list[tuple[str, str]]:
    """(command, output) of each `$ ...` in README's console blocks."""
    found = []
    for block in re.findall(r"```console\n(.*?)```", README.read_text(), re.S):
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, _, output = part.partition("\n")
            found.append((command.split("  #")[0].strip(), output))
    return found


def words(text: str) -> set[str]:
    """What must come again: words, not numbers, places or names of machines."""
    return set(re.findall(r"(?<![\w./:-])[a-z_]{4,}(?![\w./:-])", text))


def test_every_command_of_the_readme_works(lapwing: str, tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(PROJECT / "examples")
    folders = f"{Path(lapwing).parent}:{Path(sys.executable).parent}"
    environment = {**os.environ, "PATH": f"{folders}:{os.environ['PATH']}"}
    commands = shown()
    assert len(commands) > 8
    for command, output in commands:
        arguments = shlex.split(command)
        for script, more in SMALL.items():
            if arguments[-1].endswith(script):
                arguments += more
        done = subprocess.run(
            arguments, cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, (command, done.stderr)
        printed = words(done.stdout + done.stderr)
        missing = words(output) - printed - {"vm", "commit"}
        # Which functions come first depends on the size of the training.
        functions = {word for word in missing if "_" in word or word == "forward"}
        assert missing - functions == set(), command
