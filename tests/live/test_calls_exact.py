"""Counts equal cProfile's, function by function, on programs that people measure with.

Both profile the same measured part of the same program in fresh interpreters. Several
functions that print alike (two lambdas on a line) are added up on both sides: what
cProfile saves keeps only the last of them, so its raw entries are taken. Addresses in
the names of builtins are left out: they differ from process to process.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from packages import PROGRAMS, environment

NAMES = (
    "richards deltablue raytrace go chaos hexiom generators coroutines async_tree "
    "deepcopy logging json_dumps scimark comprehensions"
).split()

# Runs the program's measured part under PROFILER and prints (calls, primitive) of each
# function that prints alike.
COUNT = """
import collections, importlib, json, re, sys
sys.path.insert(0, {programs!r})
import pyperf_program as program
name, profiler, builtins = sys.argv[1], sys.argv[2], sys.argv[3] == "builtins"
benchmarks = program.load(program.find_script(name), program.ARGUMENTS.get(name, []))
profile = importlib.import_module(profiler).Profile(builtins=builtins)
program.measured(benchmarks, 1)  # caches are the same from here on
profile.enable(True, builtins)
program.measured(benchmarks, 1)
profile.disable()
counts = collections.Counter()
primitive = collections.Counter()
for entry in profile.getstats():
    code = entry.code
    label = re.sub(" at 0x[0-9a-f]+", "", code) if isinstance(code, str) else (
        "%s:%d(%s)" % (code.co_filename, code.co_firstlineno, code.co_name))
    counts[label] += entry.callcount
    primitive[label] += entry.callcount - entry.reccallcount
print(json.dumps({{label: (counts[label], primitive[label]) for label in counts}}))
"""


def count(python: str, name: str, profiler: str, builtins: str) -> dict[str, list[int]]:
    script = COUNT.format(programs=str(PROGRAMS))
    done = subprocess.run(
        [python, "-c", script, name, profiler, builtins],
        env=environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    counts = json.loads(done.stdout.splitlines()[-1])
    # Each profiler sees the call that ends it, under its own name.
    return {k: v for k, v in counts.items() if not k.startswith("<method 'disable'")}


@pytest.mark.parametrize("builtins", ["builtins", "python-only"])
@pytest.mark.parametrize("name", NAMES)
def test_counts_equal_cprofiles(python: str, name: str, builtins: str) -> None:
    ours = count(python, name, "lapwing", builtins)
    theirs = count(python, name, "cProfile", builtins)
    different = {
        label: (ours.get(label), theirs.get(label))
        for label in ours.keys() | theirs.keys()
        if ours.get(label) != theirs.get(label)
    }
    assert different == {}
    assert len(ours) > 3


def test_a_saved_profile_opens_in_pstats(python: str, tmp_path: Path) -> None:
    saved = tmp_path / "x.prof"
    check = (
        "import pstats, sys; s = pstats.Stats(sys.argv[1]);"
        "s.sort_stats('cumulative').print_stats(5); print(s.total_calls)"
    )
    program = [
        python,
        "-m",
        "lapwing",
        "-o",
        str(saved),
        str(PROGRAMS / "generators.py"),
    ]
    subprocess.run(program, env=environment(), check=True, capture_output=True)
    shown = subprocess.run(
        [python, "-c", check, str(saved)],
        env=environment(),
        check=True,
        capture_output=True,
        text=True,
    )
    assert int(shown.stdout.splitlines()[-1]) > 100
