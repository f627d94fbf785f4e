"""On a terminal a table is no longer than the screen, its best rows first; a pager has
all when asked; a pipe, JSON and CSV have everything."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import termios
from pathlib import Path

import pytest

FUNCTIONS = 200
LINES = 30


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    lines = [f"main;f{i:03} {(FUNCTIONS - i) * 10**6}\n" for i in range(FUNCTIONS)]
    (tmp_path / "x.folded").write_text("".join(lines))
    return tmp_path


def show(lapwing: str, folder: Path, *words: str, **environ: str) -> str:
    """What a terminal of 30 lines gets."""
    main, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, 80, 0, 0))
    plain = {
        k: v for k, v in os.environ.items() if k not in ("LINES", "COLUMNS", "PAGER")
    }
    process = subprocess.Popen(
        [lapwing, "report", "x.folded", *words],
        cwd=folder,
        env={**plain, "TERM": "dumb", **environ},
        stdin=terminal,
        stdout=terminal,
    )
    os.close(terminal)
    shown = b""
    try:
        while part := os.read(main, 65536):
            shown += part
    except OSError:  # that is how a pty ends
        pass
    os.close(main)
    assert process.wait() == 0
    return shown.decode().replace("\r\n", "\n")


def functions(shown: str) -> list[str]:
    return [word for word in shown.split() if word[0] == "f" and word[1:].isdigit()]


@pytest.mark.parametrize("view", ["functions", "tree", "callers"])
def test_a_long_table_fits_the_screen_with_the_best_rows(
    lapwing: str, folder: Path, view: str
) -> None:
    shown = show(lapwing, folder, view, "--min-share", "0")
    assert shown.count("\n") < LINES
    assert functions(shown)[:3] == ["f000", "f001", "f002"]
    assert len(functions(shown)) > 5
    assert "--limit 0" in shown


def test_a_number_of_rows_that_was_asked_for_is_not_cut(
    lapwing: str, folder: Path
) -> None:
    assert len(functions(show(lapwing, folder, "functions", "--limit", "0"))) == 200
    assert len(functions(show(lapwing, folder, "functions", "100"))) > 95


def test_json_and_csv_are_whole_on_a_terminal(lapwing: str, folder: Path) -> None:
    for form in ("--json", "--csv"):
        assert f"f{FUNCTIONS - 1}" in show(lapwing, folder, "functions", form)


def test_a_pipe_is_not_cut_to_a_screen(lapwing: str, folder: Path) -> None:
    words = [lapwing, "report", "x.folded", "functions"]
    shown = subprocess.check_output(
        words, cwd=folder, text=True, env={**os.environ, "LINES": "10"}
    )
    assert len(functions(shown)) >= 29


def test_a_pager_gets_all_rows(lapwing: str, folder: Path) -> None:
    shown = show(
        lapwing, folder, "functions", LAPWING_PAGER="cat >paged; echo was paged"
    )
    assert shown == "was paged\n"
    assert len(functions((folder / "paged").read_text())) == FUNCTIONS
    shown = show(lapwing, folder, "functions", "--pager", PAGER="sed s/^/page:/")
    assert "page:" in shown
    assert len(functions(shown)) == FUNCTIONS


def test_a_pager_that_is_left_early_is_no_failure(lapwing: str, folder: Path) -> None:
    assert (
        show(lapwing, folder, "functions", LAPWING_PAGER="head -n 1").count("\n") == 1
    )


@pytest.mark.parametrize("pager", ["nosuch-pager", "/etc/hostname", "exit 127"])
def test_a_table_that_cannot_be_paged_is_printed(
    lapwing: str, folder: Path, pager: str, capfd: pytest.CaptureFixture[str]
) -> None:
    shown = show(lapwing, folder, "functions", LAPWING_PAGER=pager)
    assert len(functions(shown)) == FUNCTIONS
    said = capfd.readouterr().err
    assert f"lapwing: cannot start the pager {pager}" in said
