"""The line that asked for an op, on every Python.

There is no torch for all of them. The agent gets what its unit tests take for torch
(tests/unit/torch_stand_in.c), in a package of that name, which calls it as torch does:
without the GIL, from a function of its own.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from live_ops import record, report

STAND_IN = Path(__file__).resolve().parents[1] / "unit" / "torch_stand_in.c"

FAKE = """
import ctypes, os

__version__ = "2.13.0"

class _C:
    __file__ = os.path.join(os.path.dirname(__file__), "stand_in.so")

class Described(ctypes.Structure):
    _fields_ = [("len", ctypes.c_size_t), ("text", ctypes.c_char_p),
                ("which", ctypes.c_ubyte)]

library = ctypes.CDLL(_C.__file__)
make = library["_ZN2at14RecordFunctionC1ENS_11RecordScopeE"]
before = library["_ZN2at14RecordFunction6beforeESt7variantIJSt17basic_string_viewIcSt11"
                 "char_traitsIcEESt17reference_wrapperIKN3c1014FunctionSchemaEEEEl"]
destroy = library["_ZN2at14RecordFunctionD1Ev"]
before.argtypes = [ctypes.c_char_p, Described, ctypes.c_int64]
FORWARD_THREAD = 10  # the word of its struct function

def run(name, scope, number, thread):
    words = (ctypes.c_uint64 * 64)()
    function = ctypes.cast(words, ctypes.c_char_p)
    make(function, scope)
    words[FORWARD_THREAD] = thread
    before(function, Described(len(name), name.encode(), 0), number)
    destroy(function)

def empty(size):
    run("aten::empty", 0, -1, 0)

def op(name, number):
    run(name, 0, number, 0)

def node(name, number):
    run(name, 1, number, 1)
"""

PROGRAM = """
import threading
import torch

def work():
    torch.op("in a function", 0)
    for _ in range(3):
        torch.op("in a loop", 1)
    yield 1
    torch.op("in a generator", 2)

class Layer:
    def __call__(self):
        return [torch.op("in a list", 3) for _ in range(1)]

def caf\N{LATIN SMALL LETTER E WITH ACUTE}():
    exec(compile("\\n\\ntorch.op('in a text', 4)", "<text>", "exec"), globals())

list(work())
Layer()()
caf\N{LATIN SMALL LETTER E WITH ACUTE}()
(lambda:
    torch.op("in a lambda", 5))()
thread = threading.Thread(target=lambda: torch.op("in a thread", 6))
thread.start()
thread.join()
for number in range(7):
    torch.node(f"node {number}", number)
"""

FUNCTIONS = {
    "in a function": "work",
    "in a loop": "work",
    "in a generator": "work",
    "in a text": "<module>",
    "in a lambda": "<lambda>",
    "in a thread": "<lambda>",
}


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a package that the agent takes for torch."""
    package = tmp_path_factory.mktemp("stand_in") / "torch"
    package.mkdir()
    library = package / "stand_in.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, STAND_IN], check=True)
    (package / "__init__.py").write_text(FAKE)
    return package.parent


def test_the_line_that_asked_for_an_op_is_known(
    lapwing: str, python: str, stand_in: Path, tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    record(
        lapwing,
        ["--ops=all", "--no-steps"],
        [python, str(program)],
        tmp_path,
        env={"PYTHONPATH": str(stand_in), "PATH": "/usr/bin:/bin"},
    )
    rows = report(lapwing, tmp_path, "--by", "forward")["rows"]
    found = {row["name"]: (row["line"] or "").rstrip(")").split("(") for row in rows}
    expected = {
        line.split('"')[1]: f"program.py:{number}"
        for number, line in enumerate(PROGRAM.splitlines(), 1)
        if 'torch.op("in' in line
    }
    expected["in a text"] = "<text>:3"
    assert {name: place for name, (place, _) in found.items()} == expected
    for name, function in FUNCTIONS.items():
        assert found[name][1].split(".")[-1] == function
    assert {row["name"]: row["calls"] for row in rows}["in a loop"] == 1
    assert all(row["backward_calls"] == 1 for row in rows)
