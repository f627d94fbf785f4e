"""What is made from the program itself works where it is used."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"


def completed(folder: Path, *words: str) -> set[str]:
    """What bash offers for the last of the words."""
    script = """
    source "$1"; shift
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
    _lapwing
    printf '%s\\n' "${COMPREPLY[@]}"
    """
    done = subprocess.run(
        ["bash", "-c", script, "bash", DOCS / "completions" / "lapwing.bash", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    assert not done.stderr
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("rep", {"report"}),
        ("report --rev", {"--reverse"}),
        ("report fun", {"functions"}),
        ("report out", {"out.prof"}),
        ("report --from s", {"samples"}),
        ("report -s cumu", {"cumulative"}),
        ("export --to pst", {"pstats"}),
        ("export -o out", {"out.prof"}),
        ("help sh", {"shell"}),
        ("shell out", {"out.prof"}),
    ],
)
def test_bash_completes(tmp_path: Path, words: str, offered: set[str]) -> None:
    (tmp_path / "out.prof").touch()
    assert completed(tmp_path, "lapwing", *words.split()) == offered


def test_the_manual_has_every_command_and_option(lapwing: str) -> None:
    manual = (DOCS / "lapwing.1").read_text().replace("\\-", "-")
    listed = subprocess.check_output([lapwing, "--help"], text=True)
    names = listed.partition("Commands:")[2].partition("Options:")[0].splitlines()
    for name in (line.split()[0] for line in names if line.strip()):
        assert f".SS lapwing {name}\n" in manual
        text = subprocess.check_output([lapwing, name, "--help"], text=True)
        for word in text.replace("[=", " ").split():
            if word.startswith("--") and word[2:].isalpha() and word != "--help":
                assert f"\\fB{word}\\fR" in manual or word in manual, (name, word)
