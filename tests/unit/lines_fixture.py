#!/usr/bin/env python3
"""Make lines_fixture.h anew: line tables of one small program, as every Python of this
machine writes and reads them.

    .venv/bin/python tests/unit/lines_fixture.py
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VERSIONS = "3.9 3.10 3.11 3.12 3.13 3.14 3.15".split()
FAR = " " * 90  # beyond the columns that the short forms reach
FARTHER = " " * 300  # and beyond a byte
GAP = "\n" * 200  # more lines than an increment holds
SOURCE = f"""def odd(first, second):
    try:
        total = ({FAR}first + second)
        total = ({FARTHER}first * second)
    except (
        KeyError,
        ValueError,
    ) as error:{GAP}
        raise RuntimeError(
            first,
            error,
        ) from error
    finally:
        total = [
            x + second
            for x in first
            if x
        ]
    return total


async def waits(first):
    async with first as f:
        await f
"""

HEAD = """\
/* Made by tests/unit/lines_fixture.py; do not edit. Line tables of one small program,
 * and what the Python that wrote each says of it: a row where the position changes. */

static const struct {
    const char *name; /* which Python, which code object */
    enum lw_line_format format;
    int32_t first_line;
    int64_t code_bytes;
    const char *table; /* hexadecimal */
    struct {
        int64_t offset;
        struct lw_position position;
    } rows[100];
} captured[] = {
"""


def shown(version: str, row: dict[str, object]) -> str:
    table = str(row["table"])
    cut = [table[at : at + 72] for at in range(0, len(table), 72)]
    text = "\n".join(f'      "{piece}"' for piece in cut)
    positions = row["positions"]
    assert isinstance(positions, list)
    rows = [f"{{ {o}, {{ {a}, {b}, {c}, {d} }} }}" for o, a, b, c, d in positions]
    format = ["LW_LINES_LNOTAB", "LW_LINES_LINETABLE", "LW_LINES_LOCATIONS"]
    assert len(rows) < 100 and isinstance(row["format"], int)
    return (
        f'    {{ "{version} {row["name"]}", {format[row["format"]]}, '
        f"{row['first_line']}, {row['code_bytes']},\n{text},\n"
        f"      {{ {', '.join(rows)} }} }},\n"
    )


def main() -> None:
    words = [ROOT / "tools" / "pythons.sh", "--all", "--first", "--local", *VERSIONS]
    text = HEAD
    with tempfile.NamedTemporaryFile("w", suffix=".py") as source:
        source.write(SOURCE)
        source.flush()
        for line in subprocess.check_output(words, text=True).splitlines():
            version, python = line.split()
            program = ROOT / "tests" / "programs" / "line_tables.py"
            said = subprocess.check_output([python, program, source.name], text=True)
            for row in map(json.loads, said.splitlines()):
                if row["name"] in ("odd", "waits"):
                    text += shown(version, row)
    text += "};\n"
    words = ["clang-format", "--assume-filename", ROOT / "tests" / "unit" / "x.h"]
    text = subprocess.check_output(words, input=text, text=True)
    (ROOT / "tests" / "unit" / "lines_fixture.h").write_text(text)


if __name__ == "__main__":
    main()
