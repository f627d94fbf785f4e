"""Run programs under every mode, in turns, and keep what each run took.

In turns, because a machine that others use changes its speed from minute to minute:
what is compared has to be run within the same few seconds, again and again, in an
order that is different each time. A run that had to share the processor with others
is made again, and how many had to all the same is said.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

import places
from modes import BY_NAME, Mode, Where
from peers import Environment

UNDISTURBED_SHARE = 0.95
TRIES = 3
TIMEOUT_SECONDS = 900  # the slowest peer, viztracer, took 10 s where bare took 0.2


class RunFailed(Exception):
    """A command did not do its work; the text says what it said."""


@dataclass(frozen=True)
class Timing:
    """One run of one command, in seconds."""

    round: int
    measured: float  # the program's own clock around its work
    whole: float  # from the command's start to its end
    cpu: float  # of the measured part on a processor

    @property
    def disturbed(self) -> bool:
        """Whether others had the processor. The programs never wait by themselves."""
        return self.cpu < UNDISTURBED_SHARE * self.measured


@dataclass(frozen=True)
class Cell:
    """What one number is about."""

    minor: str
    program: str
    mode: str


@dataclass
class Plan:
    """What to measure, and how often."""

    environments: list[Environment]
    programs: list[str]
    modes: list[Mode]
    rounds: int
    peer_rounds: int
    seconds: float  # about how long a bare run is to take
    seed: int = 0


@dataclass
class Results:
    """All timings, what could not be run, and how much work a run was."""

    timings: dict[Cell, list[Timing]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    loops: dict[str, int] = field(default_factory=dict)  # by "minor program"

    def disturbed(self) -> tuple[int, int]:
        """How many runs had to share the processor, and of how many."""
        runs = [run for timings in self.timings.values() for run in timings]
        return sum(run.disturbed for run in runs), len(runs)


def last_line(text: str) -> str:
    """The last line that says something."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "nothing was said"


def run_once(
    mode: Mode, where: Where, program: str, loops: int, number: int = 0
) -> Timing:
    """Run one command, as part of round NUMBER."""
    command = [*mode.command(where), str(places.PROGRAM), program, str(loops)]
    env = {
        **os.environ,
        "PYTHONHASHSEED": "0",
        "PYPERFORMANCE_DIR": str(places.benchmarks()),
    }
    start = perf_counter()
    try:
        done = subprocess.run(
            command,
            cwd=Path(where.output).parent,
            env=env,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise RunFailed(f"not done after {TIMEOUT_SECONDS} s") from None
    whole = perf_counter() - start
    if done.returncode != 0:
        raise RunFailed(f"exit code {done.returncode}: {last_line(done.stderr)}")
    for line in done.stdout.splitlines():
        if line.startswith('{"program"'):
            said = json.loads(line)
            return Timing(number, said["measured_seconds"], whole, said["cpu_seconds"])
    raise RunFailed("the program did not say how long it took")


def run_undisturbed(
    mode: Mode, environment: Environment, program: str, loops: int, number: int
) -> Timing:
    """Run one command until it has the processor for itself, or the best of TRIES."""
    tried = []
    for _ in range(TRIES):
        with tempfile.TemporaryDirectory(prefix="lapwing-bench-") as folder:
            where = Where(
                str(environment.python),
                str(environment.lapwing),
                str(Path(folder, "out")),
            )
            tried.append(run_once(mode, where, program, loops, number))
        if not tried[-1].disturbed:
            return tried[-1]
    return max(tried, key=lambda timing: timing.cpu / timing.measured)


def calibrate(plan: Plan, environment: Environment, program: str) -> int:
    """How many loops take about plan.seconds; the same for every mode."""
    loops = 1
    while True:
        timing = run_undisturbed(BY_NAME["bare"], environment, program, loops, 0)
        if timing.cpu >= plan.seconds / 4:
            return max(1, round(loops * plan.seconds / timing.cpu))
        loops *= 4


def takes_part(mode: Mode, plan: Plan, number: int) -> bool:
    """Core modes run in every round, peers in some that are spread over all."""
    if mode.core or plan.peer_rounds >= plan.rounds:
        return True
    before = number * plan.peer_rounds // plan.rounds
    return (number + 1) * plan.peer_rounds // plan.rounds > before


def turns(plan: Plan) -> Iterator[tuple[int, Environment, str, Mode]]:
    """Every run to be made, in order."""
    order = random.Random(plan.seed)
    for number in range(plan.rounds):
        for environment in plan.environments:
            for program in plan.programs:
                modes = [
                    mode
                    for mode in plan.modes
                    if takes_part(mode, plan, number)
                    and mode.tool not in environment.missing
                ]
                order.shuffle(modes)
                for mode in modes:
                    yield number, environment, program, mode


def measure(plan: Plan) -> Results:
    """Carry out PLAN. A mode that fails on a Python is said once and left out there."""
    results = Results()
    for environment in plan.environments:
        for program in plan.programs:
            loops = calibrate(plan, environment, program)
            results.loops[f"{environment.minor} {program}"] = loops
    said = -1
    for number, environment, program, mode in turns(plan):
        key = f"{mode.name} on {environment.minor}"
        if key in results.failures:
            continue
        if number != said:
            print(f"bench: round {number + 1} of {plan.rounds}", file=sys.stderr)
            said = number
        loops = results.loops[f"{environment.minor} {program}"]
        try:
            timing = run_undisturbed(mode, environment, program, loops, number)
        except RunFailed as error:
            results.failures[key] = f"{program}: {error}"
            print(f"bench: {key}: {program}: {error}", file=sys.stderr)
            continue
        cell = Cell(environment.minor, program, mode.name)
        results.timings.setdefault(cell, []).append(timing)
    return results
