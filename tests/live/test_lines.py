"""sampler/lines.c finds every instruction where each Python itself does, in a good part
of its standard library.
"""

from __future__ import annotations

import ctypes
import json
import subprocess
from pathlib import Path

import pytest
from pythons import ROOT, SAMPLED, interpreter

FILES = 100  # with some 5,000 code objects
LIST_FILES = """
import pathlib, os
folder = pathlib.Path(os.__file__).parent
for path in sorted(folder.glob("[!_]*.py")) + sorted(folder.glob("asyncio/*.py")):
    if path.exists():  # Debian has a link to nowhere there
        print(path)
"""


class Position(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_int32) for name in ("line", "end_line", "column", "end_column")
    ]


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The C file as a library of its own."""
    library = tmp_path_factory.mktemp("lines") / "lines.so"
    sources = [ROOT / "src" / "sampler" / "lines.c", ROOT / "src" / "base" / "varint.c"]
    flags = ["-O1", "-D_GNU_SOURCE", f"-I{ROOT / 'src'}", "-shared", "-fPIC"]
    subprocess.run(["cc", *flags, "-o", library, *sources], check=True)
    loaded = ctypes.CDLL(str(library))
    loaded.lw_lines_find.restype = ctypes.c_bool
    loaded.lw_lines_find.argtypes = [
        ctypes.c_int,
        ctypes.c_char_p,
        ctypes.c_size_t,
        ctypes.c_int32,
        ctypes.c_int64,
        ctypes.POINTER(Position),
    ]
    return loaded


@pytest.mark.parametrize("version", SAMPLED)
def test_every_instruction_is_where_python_says(
    version: str, lines: ctypes.CDLL
) -> None:
    python = interpreter(version)
    files = subprocess.check_output([python, "-c", LIST_FILES], text=True).split("\n")
    program = Path(__file__).parents[1] / "programs" / "line_tables.py"
    words = [python, program, *filter(None, files[:FILES])]
    found = Position()
    code_objects = instructions = 0
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        for row in map(json.loads, process.stdout):
            table = bytes.fromhex(row["table"])
            ends = [start for start, *_ in row["positions"][1:]] + [row["code_bytes"]]
            for (start, *wanted), end in zip(row["positions"], ends, strict=True):
                for offset in range(start, end, 2):
                    has_line = lines.lw_lines_find(
                        row["format"],
                        table,
                        len(table),
                        row["first_line"],
                        offset,
                        found,
                    )
                    got = [found.line, found.end_line, found.column, found.end_column]
                    assert got == wanted, (row["name"], offset)
                    assert has_line == (wanted[0] >= 0)
                    instructions += 1
            code_objects += 1
    assert process.returncode == 0
    assert code_objects > 4000
    assert instructions > 100_000
