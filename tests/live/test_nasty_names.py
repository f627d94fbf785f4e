"""No name of a foreign file or program steers a terminal or runs in a spreadsheet.

One profile whose functions, files and threads have the worst names goes through every
view, in every form, and through every writer of text.
"""

from __future__ import annotations

import csv
import io
import json
import pty
import os
import subprocess
import unicodedata
from pathlib import Path

import pytest

NAMES = [
    "\x1b[31mred\x1b[0m",
    "\x1b]0;title\x07",
    "c1 \x9b31m",
    "\u202egnp.exe",
    "\u2066isolated\u2069",
    "\ufeffmark",
    "\U000e0041tag",
    "nul\0",
    "two\nlines",
    "=cmd|' /C calc'!A0",
    "+1+1",
    "-2+3",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    " =1",
    "\uff1d1",
    "a|b`c`<script>alert(1)</script>&amp;\"q\",'",
    "x" * 1_000_000,
]
# What a spreadsheet takes for a formula; Excel also where input is East Asian.
FORMULA = tuple("=+-@\t\r\uff1d\uff0b\uff0d\uff20")
VIEWS = ["functions", "tree", "callers", "callees", "threads", "summary", "processes"]
WRITERS = ["collapsed", "callgrind", "chrome", "csv", "json", "markdown", "speedscope", "svg"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nasty")
    frames = [{"name": n, "file": f"{n[:99]}.py", "line": 3} for n in NAMES]
    profile = {
        "type": "sampled",
        "name": "\x1b]0;thread\x07",
        "unit": "nanoseconds",
        "startValue": 0,
        "endValue": len(NAMES) * 10**6,
        "samples": [[i] for i in range(len(NAMES))],
        "weights": [10**6] * len(NAMES),
    }
    document = {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "shared": {"frames": frames},
        "profiles": [profile],
    }
    (folder / "nasty.json").write_text(json.dumps(document))
    return folder


def harmful(shown: bytes) -> set[str]:
    """The characters of what was SHOWN that no terminal should be sent."""
    return {
        f"U+{ord(c):04X}"
        for c in shown.decode("utf-8")  # and it is UTF-8
        if unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp") and c not in "\r\n"
    }


def lapwing_shows(lapwing: str, folder: Path, *words: str) -> bytes:
    done = subprocess.run([lapwing, *words], cwd=folder, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert harmful(done.stderr) == set()
    return done.stdout


@pytest.mark.parametrize("form", ["", "--json", "--csv", "--markdown"])
@pytest.mark.parametrize("view", VIEWS)
def test_no_view_sends_a_terminal_what_is_not_printable(
    lapwing: str, folder: Path, view: str, form: str
) -> None:
    words = ["report", "nasty.json", view, *filter(None, [form])]
    assert harmful(lapwing_shows(lapwing, folder, *words)) == set()


@pytest.mark.parametrize("view", ["functions", "callers"])
def test_nor_does_the_text_of_pstats(lapwing: str, folder: Path, view: str) -> None:
    words = ["report", "nasty.json", view, "--style", "pstats"]
    assert harmful(lapwing_shows(lapwing, folder, *words)) == set()


@pytest.mark.parametrize("writer", WRITERS)
def test_nor_does_a_file_of_text(lapwing: str, folder: Path, writer: str) -> None:
    words = ["export", "nasty.json", "--to", writer]
    assert harmful(lapwing_shows(lapwing, folder, *words)) == set()


def test_no_cell_of_csv_is_a_formula_and_every_number_is_one(
    lapwing: str, folder: Path
) -> None:
    shown = lapwing_shows(lapwing, folder, "report", "nasty.json", "functions", "--csv")
    csv.field_size_limit(2_000_000)
    rows = list(csv.DictReader(io.StringIO(shown.decode(), newline="")))
    assert len(rows) == len(NAMES)
    for row in rows:
        float(row["self_ns"])
        assert not row["function"].lstrip(" ").startswith(FORMULA)
    functions = {row["function"] for row in rows}
    assert {"'=cmd|' /C calc'!A0", "'-2+3", "' =1", "two\\x0alines"} <= functions
    assert "a|b`c`<script>alert(1)</script>&amp;\"q\",'" in functions
    assert "x" * 1_000_000 in functions


def test_json_gives_every_name_back_as_it_was(lapwing: str, folder: Path) -> None:
    shown = lapwing_shows(lapwing, folder, "report", "nasty.json", "functions", "--json")
    assert {row["function"] for row in json.loads(shown)["rows"]} == set(NAMES)


def test_a_shell_shows_the_name_of_a_file_without_its_escapes(
    lapwing: str, folder: Path
) -> None:
    name = "\x1b]0;title\x07.json"
    (folder / name).write_bytes((folder / "nasty.json").read_bytes())
    main, terminal = pty.openpty()
    done = subprocess.run(
        [lapwing, "shell", name],
        cwd=folder,
        input=b"stats 1\nadd \x1b]0;nobody\x07\nhelp \x1b]0;nothing\x07\n\x1b]0;what\x07\n",
        stdout=terminal,
        stderr=terminal,
    )
    os.close(terminal)
    shown = b""
    try:
        while part := os.read(main, 65536):
            shown += part
    except OSError:  # that is how a pty ends
        pass
    os.close(main)
    assert done.returncode == 0
    assert b"title" in shown and b"nobody" in shown and b"what" in shown
    assert b"\x1b]0" not in shown and b"\x07" not in shown


def test_the_list_of_runs_shows_a_command_without_its_escapes(
    lapwing: str, tmp_path: Path
) -> None:
    run = tmp_path / ".lapwing" / "runs" / "a\x1b]0;title\x07.lap"
    run.mkdir(parents=True)
    command = "python3 \x1b[31m \u202e \x9b =1"
    about = {"format": "lapwing run", "major": 1, "minor": 0, "command": command}
    (run / "run.json").write_text(json.dumps(about))
    for form in [[], ["--json"], ["--csv"]]:
        shown = lapwing_shows(lapwing, tmp_path, "runs", *form)
        assert b"python3" in shown
        assert harmful(shown) == set()
