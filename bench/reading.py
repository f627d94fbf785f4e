"""How fast files are read: a large .prof against pstats, and reports on large runs."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from time import perf_counter

import places
from goals import PROF_SPEEDUP, REPORT_SECONDS, Goal

BENCH = places.PROJECT / "bench"

# pstats.Stats as a program would use it, timed without the interpreter's start.
LOAD = """
import pstats, sys, time
start = time.perf_counter()
pstats.Stats(sys.argv[1])
print(time.perf_counter() - start)
"""


@dataclass
class Reading:
    """What reading took, in seconds, by the name of what was done."""

    seconds: dict[str, list[float]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    goals: list[Goal] = field(default_factory=list)

    def typical(self, name: str) -> float:
        """The median."""
        return median(self.seconds[name])


def run(command: Sequence[str]) -> tuple[float, str]:
    """Seconds a command took, and what it printed."""
    start = perf_counter()
    done = subprocess.run(command, capture_output=True, text=True)
    took = perf_counter() - start
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()
        raise subprocess.SubprocessError(
            f"{' '.join(command)}: exit code {done.returncode}: "
            f"{said[-1] if said else 'nothing was said'}"
        )
    return took, done.stdout


def children_cpu() -> float:
    """Processor seconds of all commands that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def read_prof(lapwing: Path | None, rounds: int, functions: int) -> Reading:
    """Read one large .prof by pstats and by `lapwing report functions`, in turns.

    Three comparisons: command with command; reading alone, where Lapwing's is its
    command less that of one that reads nothing; and, hardest for Lapwing, its whole
    command with pstats' reading alone. The targets are for the first two.
    """
    result = Reading()
    with tempfile.TemporaryDirectory(prefix="lapwing-bench-") as folder:
        prof = Path(folder, "large.prof")
        run(
            [
                sys.executable,
                str(BENCH / "many_functions.py"),
                str(prof),
                str(functions),
            ]
        )
        size = prof.stat().st_size
        result.notes.append(f"{functions} functions, {size / 1e6:.1f} MB, by cProfile")
        for _ in range(rounds):
            took, printed = run([sys.executable, "-c", LOAD, str(prof)])
            result.seconds.setdefault("pstats command", []).append(took)
            result.seconds.setdefault("pstats.Stats(FILE)", []).append(float(printed))
            if lapwing is None:
                continue
            took, _ = run([str(lapwing), "report", "functions", str(prof)])
            result.seconds.setdefault("lapwing command", []).append(took)
            took, _ = run([str(lapwing), "--version"])
            result.seconds.setdefault("lapwing --version", []).append(took)
    result.goals = prof_goals(result, lapwing is not None)
    return result


def prof_goals(result: Reading, measured: bool) -> list[Goal]:
    """The three comparisons, two of them with a target."""
    target = f"at least {PROF_SPEEDUP:.0f}"
    kinds = (
        ("reading a .prof, command with command, times as fast", target),
        ("reading a .prof, reading alone, times as fast", target),
        ("reading a .prof, lapwing's command with pstats.Stats(FILE) alone", ""),
    )
    if not measured:
        return [Goal(what, "-", wanted, None) for what, wanted in kinds]
    command = result.typical("lapwing command")
    alone = max(command - result.typical("lapwing --version"), 1e-6)
    ratios = (
        result.typical("pstats command") / command,
        result.typical("pstats.Stats(FILE)") / alone,
        result.typical("pstats.Stats(FILE)") / command,
    )
    return [
        Goal(what, f"{ratio:.1f}", wanted, ratio >= PROF_SPEEDUP if wanted else True)
        for (what, wanted), ratio in zip(kinds, ratios, strict=True)
    ]


def report_on(
    lapwing: Path | None, path: str | None, what: str, rounds: int, missing: str
) -> Reading:
    """`report functions` on a run that is there already."""
    name = f"report functions, {what}"
    target = f"under {REPORT_SECONDS} s"
    if lapwing is None or path is None:
        return Reading(
            notes=[f"not measured: {name}: {missing}"],
            goals=[Goal(name, "-", target, None)],
        )
    command = [str(lapwing), "report", "functions", path]
    before = children_cpu()
    seconds = [run(command)[0] for _ in range(rounds)]
    cpu = (children_cpu() - before) / rounds
    typical = median(seconds)
    value = f"{typical:.3f} s ({cpu:.3f} s on a processor)"
    goal = Goal(name, value, target, typical < REPORT_SECONDS)
    return Reading({name: seconds}, [], [goal])


def record_calls(lapwing: Path, python: Path, folder: Path, calls: int) -> str:
    """A real run of CALLS calls; gives back where it is."""
    path = str(folder / "calls.lap")
    script = str(BENCH / "many_calls.py")
    command = [str(lapwing), "run", "--calls", "-o", path, "--", str(python)]
    subprocess.run(
        [*command, script, str(calls)],
        check=True,
        capture_output=True,
        env={**os.environ, "PYTHONHASHSEED": "0"},
    )
    return path


def make_samples(folder: Path, samples: int) -> str | None:
    """A run of SAMPLES samples, by the recorder's own writer; nobody wants to wait for
    a program that long. None: what makes it was not built.
    """
    if not places.MAKE_RUN.exists():
        return None
    path = str(folder / "samples.lap")
    subprocess.run([str(places.MAKE_RUN), "--samples", str(samples), path], check=True)
    return path
