#!/usr/bin/env python3
"""Make src/sampler/layouts.def from CPython's own headers, and of it frames.def.

    layouts.py [--check] [FOLDER ...]

Every Python that tools/pythons.sh finds is asked for its headers (for Debian's newer
ones the package that holds them is unpacked beside the interpreter), and so is each
FOLDER, a `python3.X` of someone's `include`. A small C program is compiled against
each and prints where the fields lie, once more with Py_GIL_DISABLED from 3.13 on.

A row holds from its own micro version up to the next row of its minor version, the
first one also below. So a Python that agrees with its row changes nothing; one that
does not gets a row of its own. Rows of Pythons that are not here stay as they are.

A new field is a line in layout.h and one in layout_fields.py; every row needs it, so
delete layouts.def and run this where all of the Pythons are.

python/_lapwing/frames.def has the few numbers of layouts.def that a process needs to
look at its own frames.

--check writes nothing and fails if one of them would change.

What to ask of which version is layout_fields.py.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import NamedTuple

import debian_python
import layout_fields

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "src/sampler/layouts.def"
FRAMES = ROOT / "python/_lapwing/frames.def"
FIRST_FREE_THREADED = 13
FIRST_OF_AGENT = 10

HEAD = """\
/* Where the fields of CPython's structures lie on x86-64 Linux. Made from CPython's own
 * headers by tools/layouts.py, not to be edited. To add a Python: have it where
 * tools/pythons.sh finds it, run `python3 tools/layouts.py`, read the new row, commit.
 *
 * LW_LAYOUT(name, ...) is a `struct lw_py_layout`; layout.h says what each number is. A
 * row holds from its micro version up to that of the next row of its minor version, the
 * first one also below.
 *
 * LW_OFFSETS(name, ...) says at which byte of that minor version's _Py_DebugOffsets the
 * same number is. What is not in a row is not told there, and comes from the layout. */
"""

FRAMES_HEAD = """\
/* `struct py_frame_layout` (compat.h) by minor version. Made of src/sampler/layouts.def
 * by tools/layouts.py, not to be edited. */
"""

# What it is called in layouts.def; of two, the first that this Python has.
FRAME_FIELDS = {
    "thread_frame": ["thread_frame", "cframe_current_frame"],
    "thread_cframe": ["thread_cframe"],
    "previous": ["frame_previous"],
    "code": ["frame_code"],
    "instruction": ["frame_instruction"],
    "owner": ["frame_owner"],
    "code_file": ["code_filename"],
    "code_name": ["code_qualname", "code_name"],
    "code_table": ["code_linetable"],
    "code_bytes": ["code_bytecode"],
}

PROGRAM = """\
#define Py_BUILD_CORE 1
#include <Python.h>
#include <frameobject.h>
{includes}
#include <stddef.h>
#include <stdio.h>

#define SIZE(type) sizeof(type)
#define AT(type, field) offsetof(type, field)
#define TOLD(field) offsetof(_Py_DebugOffsets, field)
#define IS_OBJECT(type, field) _Generic(((type *)0)->field, PyObject *: 1, default: 0)
#define KIND_SHIFT kind_shift()
{assertions}

/* Where `kind` begins is a matter of bit fields: it is set and looked for. */
static int kind_shift(void)
{{
    union {{ PyASCIIObject text; unsigned char bytes[sizeof(PyASCIIObject)]; }} one;
    unsigned int word;

    memset(&one, 0, sizeof(one));
    one.text.state.kind = 1;
    memcpy(&word, one.bytes + offsetof(PyASCIIObject, state), sizeof(word));
    return __builtin_ctz(word);
}}

int main(void)
{{
{prints}
    return 0;
}}
"""


class Headers(NamedTuple):
    """One Python's headers."""

    folders: tuple[Path, ...]  # for -I; the first holds Python.h
    minor: int
    micro: int


Numbers = dict[str, int]


class Row(NamedTuple):
    """One LW_LAYOUT or LW_OFFSETS of the table."""

    kind: str
    name: str
    numbers: Numbers


def read_version(folder: Path) -> Headers | None:
    """FOLDER as headers, if they are CPython's and the internal ones are there."""
    patchlevel = folder / "patchlevel.h"
    if not patchlevel.exists() or not (folder / "internal/pycore_runtime.h").exists():
        return None
    found = dict(
        re.findall(
            r"#define\s+PY_(M\w+)_VERSION\s+(\d+)",
            patchlevel.read_text(encoding="utf-8"),
        )
    )
    folders = (folder, folder / "internal", folder.parent)
    return Headers(folders, int(found["MINOR"]), int(found["MICRO"]))


def installed() -> list[Headers]:
    """The headers of every Python here, Debian's packages of them unpacked at need."""
    done = subprocess.run(
        [ROOT / "tools/pythons.sh", "--all"], check=True, capture_output=True, text=True
    )
    found = []
    for line in done.stdout.splitlines():
        version, program = line.split(" ", 1)
        minor = ".".join(version.split(".")[:2])
        prefix = Path(program).parent.parent
        folder = prefix / "include" / f"python{minor}"
        unpacked = Path(program).with_name(f"python{minor}.real").exists()
        if unpacked and not folder.exists():
            try:
                debian_python.unpack_headers(minor, prefix.parent)
            except debian_python.UnavailableError as error:
                print(f"layouts.py: no headers of {version}: {error}", file=sys.stderr)
        headers = read_version(folder)
        if headers is not None and headers.minor >= layout_fields.FIRST_MINOR:
            found.append(headers)
    return found


def measure(
    headers: Headers, free_threaded: bool, work: Path
) -> tuple[Numbers, Numbers]:
    """What HEADERS say: the layout, and the places in _Py_DebugOffsets."""
    asked = layout_fields.layout_expressions(headers.minor, free_threaded)
    told = layout_fields.told_expressions(headers.minor)
    program = PROGRAM.format(
        includes="\n".join(
            f"#if __has_include(<{name}>)\n#include <{name}>\n#endif"
            for name in layout_fields.INCLUDES
        ),
        assertions="\n".join(
            f'_Static_assert({claim}, "{claim}");'
            for claim in layout_fields.assertions(headers.minor)
        ),
        prints="\n".join(
            f'    printf("{kind} {name} %lld\\n", (long long)({expression}));'
            for kind, expressions in (("layout", asked), ("told", told))
            for name, expression in expressions.items()
        ),
    )
    source = work / "layout.c"
    source.write_text(program, encoding="utf-8")
    compiler = [os.environ.get("CC", "cc"), "-w", "-std=gnu11"]
    if free_threaded:
        compiler.append("-DPy_GIL_DISABLED=1")
    folders = [f"-I{folder}" for folder in headers.folders]
    subprocess.run([*compiler, *folders, "-o", work / "layout", source], check=True)
    printed = subprocess.run(
        [work / "layout"], check=True, capture_output=True, text=True
    ).stdout
    answers: dict[str, Numbers] = {"layout": {}, "told": {}}
    for line in printed.splitlines():
        kind, name, number = line.split()
        answers[kind][name] = int(number)
    return answers["layout"], answers["told"]


def row_name(minor: int, micro: int, free_threaded: bool) -> str:
    """As Python's own wheels are named, so that rows sort by version."""
    return f"cp3{minor:02}_{micro:02}{'t' if free_threaded else ''}"


def read_table() -> list[Row]:
    """The rows of layouts.def as it is."""
    if not TABLE.exists():
        return []
    text = re.sub(r"/\*.*?\*/", "", TABLE.read_text(encoding="utf-8"), flags=re.DOTALL)
    return [
        Row(
            kind,
            name,
            {
                field: layout_fields.from_word(word)
                for field, word in re.findall(r"\.(\w+) = (-?\w+)", body)
            },
        )
        for kind, name, body in re.findall(r"(LW_\w+)\((\w+),(.*?)\)", text, re.DOTALL)
    ]


def find_row(rows: list[Row], kind: str, like: Numbers) -> Row | None:
    """The row that lw_layout_find() takes for the version of LIKE."""
    same = sorted(
        (
            row
            for row in rows
            if row.kind == kind
            and all(
                row.numbers.get(key, 0) == like.get(key, 0)
                for key in ("minor", "is_free_threaded")
            )
        ),
        key=lambda row: row.numbers["micro"],
    )
    below = [row for row in same if row.numbers["micro"] <= like["micro"]]
    return below[-1] if below else (same[0] if same else None)


def add_row(
    rows: list[Row], kind: str, name: str, numbers: Numbers, told: Numbers
) -> None:
    """Put in a row, unless no field of the one there lies elsewhere.

    Between micro versions structures grow at their end; what all of them have is the
    smallest size, and that is what a field has to lie in. A field that moves but is in
    TOLD, what these Pythons tell themselves, needs no row either.
    """
    present = find_row(rows, kind, numbers)
    if present is not None:
        sizes = {key for key in numbers if is_size(kind, key)}
        differing = {
            key
            for key in present.numbers.keys() | numbers.keys()
            if present.numbers.get(key) != numbers.get(key)
        }
        if differing <= sizes | told.keys() | {"micro"}:
            for key in sizes:
                present.numbers[key] = min(present.numbers[key], numbers[key])
            return
        if present.name == name:
            rows.remove(present)
    rows.append(Row(kind, name, numbers))


def is_size(kind: str, name: str) -> bool:
    """Whether the number NAME is the size of a structure."""
    return name == "told_bytes" or (kind == "LW_LAYOUT" and name.endswith("_bytes"))


def fill(entries: list[str]) -> str:
    """Entries such as .name = 8, as lines."""
    return textwrap.fill(
        ", ".join(entries).replace(" = ", "="),
        width=80,
        initial_indent="    ",
        subsequent_indent="    ",
    ).replace("=", " = ")


def write_row(row: Row) -> str:
    """A row as text: a paragraph for each structure."""
    paragraphs: dict[str, list[str]] = {}
    for name, number in row.numbers.items():
        group = layout_fields.structure_of(name)
        word = layout_fields.to_word(name, number)
        paragraphs.setdefault(group, []).append(f".{name} = {word}")
    body = ",\n".join(fill(entries) for entries in paragraphs.values())
    return f"{row.kind}({row.name},\n{body})\n"


def write_frames(rows: list[Row]) -> str:
    """The text of frames.def: what is not there is 0, and of several rows of a minor
    version the first counts (who uses it tries it before).
    """
    lines: dict[int, str] = {}
    for row in rows:
        numbers, minor = row.numbers, row.numbers["minor"]
        is_free_threaded = numbers.get("is_free_threaded", 0)
        if row.kind != "LW_LAYOUT" or minor < FIRST_OF_AGENT or is_free_threaded:
            continue
        entries = []
        for name, fields in FRAME_FIELDS.items():
            there = [numbers[f] for f in fields if numbers[f] != layout_fields.NO_FIELD]
            entries += [f".{name} = {number}" for number in there[:1]]
        if numbers["frame_owner"] == layout_fields.NO_FIELD:
            entries.append(".is_offset = true")
        lines.setdefault(minor, f"[{minor}] = {{\n{fill(entries)}\n}},\n")
    return FRAMES_HEAD + "".join(lines.values())


def main() -> int:
    """Survey, then write or compare; on failure say why in one sentence."""
    parser = argparse.ArgumentParser(description="make src/sampler/layouts.def")
    parser.add_argument("--check", action="store_true", help="write nothing; compare")
    parser.add_argument("folder", type=Path, nargs="*", help="more headers to survey")
    args = parser.parse_args()
    if os.uname().machine != "x86_64":
        print("layouts.py: the table is of x86-64; run it there", file=sys.stderr)
        return 1
    rows = read_table()
    try:
        survey = installed()
        for folder in args.folder:
            headers = read_version(folder)
            if headers is None:
                print(f"layouts.py: {folder}: no CPython headers", file=sys.stderr)
                return 1
            survey.append(headers)
        with tempfile.TemporaryDirectory() as name:
            for headers in sorted(survey, key=lambda one: (one.minor, one.micro)):
                for free_threaded in (False, True):
                    if free_threaded and headers.minor < FIRST_FREE_THREADED:
                        continue
                    layout, told = measure(headers, free_threaded, Path(name))
                    version = {"minor": headers.minor, "micro": headers.micro}
                    title = row_name(headers.minor, headers.micro, free_threaded)
                    flags = {"is_free_threaded": 1} if free_threaded else {}
                    layout = {**version, **flags, **layout}
                    add_row(rows, "LW_LAYOUT", title, layout, told)
                    if told and not free_threaded:
                        add_row(rows, "LW_OFFSETS", title, {**version, **told}, {})
                    print(f"3.{headers.minor}.{headers.micro}: {title}")
    except subprocess.CalledProcessError as error:
        command = Path(str(error.cmd[0])).name
        print(f"layouts.py: {command} failed (see above)", file=sys.stderr)
        return 1
    rows.sort(key=lambda row: (row.kind, row.name))
    texts = {
        TABLE: "\n".join([HEAD, *(write_row(row) for row in rows)]),
        FRAMES: write_frames(rows),
    }
    for path, text in texts.items():
        if text == (path.read_text(encoding="utf-8") if path.exists() else ""):
            continue
        if args.check:
            print(
                f"{path.relative_to(ROOT)} is not what the headers here say; "
                "run python3 tools/layouts.py and read the difference",
                file=sys.stderr,
            )
            return 1
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
