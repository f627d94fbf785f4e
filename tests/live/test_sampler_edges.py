"""Who calls whom in samples of real programs is what the exact collector saw: the
sampled pairs of caller and callee are among its calls.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import sampling
from pythons import ROOT, interpreter
from sampling import IS_LONG, PROGRAMS, VERSIONS

PROGRAM = PROGRAMS / "pyperf_program.py"
NAMES = ["richards", "deltablue", "raytrace", "go", "chaos", "hexiom"]
RATE = 5000
SAMPLES = 50_000 if IS_LONG else 5_000
FOR_EVER = "100000"  # loops
ENV = {**os.environ, "PYTHONHASHSEED": "0"}

Function = tuple[str, str, str]  # file's name, first line, name
Pair = tuple[Function, Function]


def exact_pairs(lapwing: str, python: str, name: str, folder: Path) -> set[Pair]:
    """The calls of one loop; of a Python that is too old for ours, by cProfile."""
    import pstats

    prof = folder / "x.prof"
    script = [str(PROGRAM), name, "2"]
    if python == interpreter("3.9"):
        tool = str(ROOT / "bench" / "python_only_cprofile.py")
        words = [[python, tool, "-o", str(prof), *script]]
    else:
        run = [
            lapwing,
            "run",
            "--calls",
            "--no-sample",
            "-q",
            "-o",
            str(folder / "x.lap"),
        ]
        export = [lapwing, "export", str(folder / "x.lap"), "-o", str(prof)]
        words = [[*run, "--", python, *script], export]
    for command in words:
        done = subprocess.run(command, env=ENV, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    stats = pstats.Stats(str(prof)).stats  # type: ignore[attr-defined]
    return {
        (plain(caller), plain(callee))
        for callee, row in stats.items()
        for caller in row[4]
    }


def plain(function: tuple[str, int, str]) -> Function:
    path, line, name = function
    return Path(path).name, str(line), name


def attach(pid: int) -> subprocess.Popen[str]:
    """The driver, as soon as there is an interpreter in the process."""
    for _ in range(100):
        try:
            process: subprocess.Popen[str] = sampling.start(pid, RATE, 120, SAMPLES)
            return process
        except AssertionError:
            time.sleep(0.05)
    raise AssertionError("there is nothing to attach to")


def is_of_script(frames: list[tuple[str, ...]]) -> bool:
    """Of the script, not of what an interpreter does before it and when it imports:
    that depends on what was imported and compiled before.
    """
    is_importing = any(f[0].startswith("<frozen") for f in frames)
    return frames[0][0] == PROGRAM.name and not is_importing


def sampled_pairs(python: str, name: str) -> Counter[Pair]:
    words = [python, str(PROGRAM), name, FOR_EVER]
    with subprocess.Popen(words, env=ENV, stdout=subprocess.DEVNULL) as program:
        try:
            sampled = sampling.finish(attach(program.pid))
        finally:
            program.kill()
    found: Counter[Pair] = Counter()
    for count, _weight, _tid, _state, frames in sampled.rows:
        functions = [(f[0], f[1], f[2]) for f in frames if len(f) > 2]
        if is_of_script(frames):
            for pair in pairs(functions):
                found[pair] += count
    return found


def pairs(functions: list[Function]) -> Iterator[Pair]:
    return zip(functions, functions[1:], strict=False)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", NAMES)
def test_every_sampled_call_was_made(
    name: str, version: str, lapwing: str, tmp_path: Path
) -> None:
    python = interpreter(version)
    exact = exact_pairs(lapwing, python, name, tmp_path)
    sampled = sampled_pairs(python, name)
    assert len(sampled) > 5
    missing = {pair: n for pair, n in sampled.items() if pair not in exact}
    print(f"{name} on {version}: {missing} in {SAMPLES} samples")
    assert not missing
