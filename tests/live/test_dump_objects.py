"""What `lapwing dump` reads out of a process's objects: variables, names, tasks."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pythons import ROOT, SAMPLED, interpreter

PROGRAM = ROOT / "tests" / "programs" / "inspected.py"

LOCALS = {
    "numbers": {
        "small": "7",
        "negative": "-12345678901234567890",
        "zero": "0",
        "big": str(2**70),
        "huge": "<int of 2010 bits>",
        "ratio": "0.1",
        "whole": "3.0",
        "far": "1e+300",
        "nothing": "nan",
        "yes": "True",
        "no": "False",
        "none": "None",
    },
    "texts": {
        "first": "1",
        "second": "'two'",
        "rest": "(3, 4)",
        "flag": "True",
        "more": "{'key': 'v'}",
        "plain": "'a'",
        "accents": "'h\xe9llo'",
        "wide": "'\u4f60\u597d'",
        "smile": '"\U0001f600 it\'s"',
        "escaped": "'both \\' and \"\\n\\x1b'",
        "long": "'" + "x" * 100 + "'\u2026 400 more",
        "raw": "b'raw\\x00'",
        "named": "Name('sub')",
    },
    "containers": {
        "empty_list": "[]",
        "one": "(1,)",
        "pair": "(None, 'x')",
        "nested": "[[1, [\u2026 2 more]], {'a': (\u2026 1 more), 2: {\u2026 1 more}}]",
        "circle": "[1, [1, [\u2026 2 more]]]",
        "table": "{'alpha': 1, 'beta': [1, 2], 3: b'r'}",
        "removed": "{'kept': 1}",
        "split": "{'x': 5}",
        "members": "{5}",
        "no_members": "set()",
        "frozen": "frozenset({6})",
        "ordered": "collections.OrderedDict({'a': 1})",
    },
    "instances": {
        "point": "<Point object>",
        "color": "Color(3)",
        "kind": "<class Point>",
        "captured": "11",
        "inner": "<function object>",
    },
    "inner": {"own": "12", "captured": "11"},
}

Dump = dict[str, Any]


@contextmanager
def inspected(version: str) -> Iterator[str]:
    """The program, at its place: its process number."""
    program = subprocess.Popen(
        [interpreter(version), PROGRAM], stdout=subprocess.PIPE, text=True
    )
    assert program.stdout
    try:
        assert program.stdout.readline() == "ready\n"
        yield str(program.pid)
    finally:
        program.kill()
        program.wait()
        program.stdout.close()


def run(*words: str | Path) -> str:
    done = subprocess.run(words, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module", params=SAMPLED)
def dumped(request: pytest.FixtureRequest, lapwing: str) -> Iterator[Dump]:
    with inspected(request.param) as pid:
        yield json.loads(run(lapwing, "dump", "--json", "--locals", pid))


def locals_of(dumped: Dump, function: str) -> list[dict[str, str]]:
    """The variables of the one call of FUNCTION on the threads' stacks."""
    frames = [frame for stack in dumped["stacks"] for frame in stack["frames"]]
    (found,) = (frame["locals"] for frame in frames if frame["function"] == function)
    assert isinstance(found, list)
    return found


@pytest.mark.parametrize("function", LOCALS)
def test_variables_have_their_values(dumped: Dump, function: str) -> None:
    found = {one["name"]: one["value"] for one in locals_of(dumped, function)}
    cut = {name: found.pop(name) for name in ("items", "large") if name in found}
    assert found == LOCALS[function]
    if function == "containers":
        assert cut["items"].startswith("[0, 1, 2, 3, ")
        assert cut["items"].endswith(", 27, \u2026 972 more]")
        assert cut["large"].startswith("{0: '0', 1: '1', 2: '2', ")
        assert cut["large"].endswith(", 12: '12', \u2026 69987 more}")


def test_variables_shared_between_functions_are_marked(dumped: Dump) -> None:
    kinds = {
        (function, one["name"]): one["kind"]
        for function in ("instances", "inner")
        for one in locals_of(dumped, function)
    }
    assert kinds["instances", "captured"] == "cell"
    assert kinds["inner", "captured"] == "free"
    assert kinds["inner", "own"] == kinds["instances", "point"] == "local"


def test_threads_have_the_names_that_python_gave_them(dumped: Dump) -> None:
    names = [
        thread["name"] for stack in dumped["stacks"] for thread in stack["threads"]
    ]
    assert sorted(names) == ["MainThread", "lo\xf6p", "n" * 63]


def test_each_task_has_its_coroutines_and_whom_it_waits_for(dumped: Dump) -> None:
    assert dumped["processes"][0]["tasks_problem"] is None
    tasks = {}
    for stack in dumped["tasks"]:
        mine = [f["function"] for f in stack["frames"] if f["file"] == str(PROGRAM)]
        for task in stack["tasks"]:
            tasks[task["name"]] = (task["state"], mine, sorted(task["waits_for"]))
    # Only later Pythons know whom asyncio.wait() waits for.
    (main,) = (name for name in tasks if name.startswith("Task-"))
    state, mine, waits_for = tasks.pop(main)
    assert (state, mine) == ("wait", ["main"])
    assert waits_for in ([], ["gathers", "iterates", "runs", "waits"])
    two = ["first of two", "second of two"]
    assert tasks == {
        "child": ("wait", ["sleeps"], []),
        "waits": ("wait", ["waits"], ["child"]),
        "iterates": ("wait", ["sleeps", "yields", "iterates"], []),
        "gathers": ("wait", ["gathers"], two),
        "first of two": ("wait", ["sleeps", "sleeps_as"], []),
        "second of two": ("wait", ["sleeps", "sleeps_as"], []),
        "runs": ("cpu", ["spins", "runs"], []),
    }


def test_variables_are_not_shown_unless_asked_for(lapwing: str) -> None:
    with inspected("3.11") as pid:
        plain = run(lapwing, "dump", pid)
        as_json = run(lapwing, "dump", "--json", pid)
    assert "captured" not in plain
    assert '"locals"' not in as_json


@pytest.mark.parametrize("version", ["3.9", "3.14"])
def test_a_recording_has_the_names_of_threads(
    lapwing: str, version: str, tmp_path: Path
) -> None:
    folder = tmp_path / "x.lap"
    with inspected(version) as pid:
        run(lapwing, "attach", pid, "--duration", "0.5", "-o", folder)
    shown = run(lapwing, "report", folder, "threads")
    assert all(name in shown for name in ("MainThread", "lo\xf6p", "n" * 30))
