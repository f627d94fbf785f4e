"""Run programs under every mode, in turns, and keep what each run took.

In turns, because a machine that others use changes its speed from second to second, by
half and more: what is compared is run at the same time, each stopped while another has
its turn, and those that are done early begin again until the slowest is done.
"""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

import places
from modes import BY_NAME, Mode, Where
from peers import Environment
from turns import Command, NotInTime, RunFailed

TURN_SECONDS = 0.05  # turns of 0.4 s gave the same shares
MOST_RUNS = 12  # of a quick command, beside one that takes far longer
TIMEOUT_SECONDS = 900  # the slowest peer, viztracer, took 10 s where bare took 0.2


@dataclass(frozen=True)
class Times:
    """What a command took, in seconds."""

    measured: float  # the program's own clock around its work
    whole: float  # from the command's start to its end
    cpu: float  # of the measured part on a processor


@dataclass(frozen=True)
class Timing:
    """What a command took in one round, and the bare program in the same turns."""

    round: int
    times: Times
    bare: Times


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


def last_line(text: str) -> str:
    """The last line that says something."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "nothing was said"


def mean_times(all_times: list[Times]) -> Times:
    return Times(
        fmean(times.measured for times in all_times),
        fmean(times.whole for times in all_times),
        fmean(times.cpu for times in all_times),
    )


class Lane:
    """A mode's turns: its command, run again and again."""

    def __init__(
        self, mode: Mode, environment: Environment, program: str, loops: int
    ) -> None:
        self.mode = mode
        self.environment = environment
        self.work = [str(places.PROGRAM), program, str(loops)]
        self.command: Command | None = None  # that is under way
        self.done: list[Times] = []
        self.failure: str | None = None

    @property
    def is_done(self) -> bool:
        return bool(self.done) or self.failure is not None

    @property
    def wants_turns(self) -> bool:
        return self.failure is None and len(self.done) < MOST_RUNS

    def start(self, folder: Path) -> Command:
        folder.mkdir()
        where = Where(
            str(self.environment.python),
            str(self.environment.lapwing),
            str(folder / "out"),
        )
        env = {
            **os.environ,
            "PYTHONHASHSEED": "0",
            "PYPERFORMANCE_DIR": str(places.benchmarks()),
        }
        words = [*self.mode.command(where), *self.work]
        return Command(words, folder, TIMEOUT_SECONDS, env)

    def take_turn(self, folder: Path, seconds: float | None) -> None:
        """FOLDER is for a command that begins."""
        self.command = self.command or self.start(folder)
        try:
            self.command.take_turn(seconds)
            if self.command.is_over:
                self.done.append(self.times(self.command))
                self.command = None
        except (NotInTime, RunFailed) as error:
            self.failure = str(error)
            self.stop()

    def times(self, command: Command) -> Times:
        """What COMMAND, which is over, took."""
        if command.exit_code != 0:
            said = last_line(command.errors_path.read_text(errors="replace"))
            raise RunFailed(f"exit code {command.exit_code}: {said}")
        for line in command.output_path.read_text(errors="replace").splitlines():
            if line.startswith('{"program"'):
                said = json.loads(line)
                own_ns = command.own_ns(said["start_ns"], said["end_ns"])
                return Times(own_ns / 1e9, command.seconds, said["cpu_seconds"])
        raise RunFailed("the program did not say how long it took")

    def stop(self) -> None:
        if self.command:
            self.command.kill()
        self.command = None


def run_by_turns(lanes: list[Lane], order: random.Random) -> None:
    """All of LANES, until each has been done once."""
    with tempfile.TemporaryDirectory(prefix="lapwing-bench-") as folder:
        turn = 0
        try:
            while not all(lane.is_done for lane in lanes):
                order.shuffle(lanes)
                for lane in lanes:
                    others = [one for one in lanes if one is not lane]
                    has_others = any(other.wants_turns for other in others)
                    if lane.wants_turns:
                        turn += 1
                        lane.take_turn(
                            Path(folder, str(turn)),
                            TURN_SECONDS if has_others else None,
                        )
        finally:
            for lane in lanes:
                lane.stop()


def calibrate(plan: Plan, environment: Environment, program: str) -> int:
    """How many loops take about plan.seconds; the same for every mode."""
    loops = 1
    while True:
        lane = Lane(BY_NAME["bare"], environment, program, loops)
        run_by_turns([lane], random.Random(plan.seed))
        if lane.failure:
            raise RunFailed(f"{program} on {environment.minor}: {lane.failure}")
        seconds = lane.done[0].cpu
        if seconds >= plan.seconds / 4:
            return max(1, round(loops * plan.seconds / seconds))
        loops *= 4


def takes_part(mode: Mode, plan: Plan, number: int) -> bool:
    """Core modes run in every round, peers in some that are spread over all."""
    if mode.core or plan.peer_rounds >= plan.rounds:
        return True
    before = number * plan.peer_rounds // plan.rounds
    return (number + 1) * plan.peer_rounds // plan.rounds > before


def heats(plan: Plan) -> Iterator[tuple[int, Environment, str, list[Mode]]]:
    """All that take turns with each other, in order: the core modes, and each peer
    with the bare program.
    """
    bare = BY_NAME["bare"]
    for number in range(plan.rounds):
        for environment in plan.environments:
            for program in plan.programs:
                modes = [
                    mode
                    for mode in plan.modes
                    if takes_part(mode, plan, number)
                    and mode.tool not in environment.missing
                ]
                yield number, environment, program, [one for one in modes if one.core]
                for peer in modes:
                    if not peer.core:
                        yield number, environment, program, [bare, peer]


def measure(plan: Plan) -> Results:
    """Carry out PLAN. A mode that fails on a Python is said once and left out there."""
    results = Results()
    order = random.Random(plan.seed)
    for environment in plan.environments:
        for program in plan.programs:
            loops = calibrate(plan, environment, program)
            results.loops[f"{environment.minor} {program}"] = loops
    said = -1
    for number, environment, program, modes in heats(plan):
        if number != said:
            print(f"bench: round {number + 1} of {plan.rounds}", file=sys.stderr)
            said = number
        loops = results.loops[f"{environment.minor} {program}"]
        lanes = {
            mode.name: Lane(mode, environment, program, loops)
            for mode in modes
            if f"{mode.name} on {environment.minor}" not in results.failures
        }
        run_by_turns(list(lanes.values()), order)
        bare = lanes["bare"].done if "bare" in lanes else []
        for name, lane in lanes.items():
            if lane.failure:
                key = f"{name} on {environment.minor}"
                results.failures[key] = f"{program}: {lane.failure}"
                print(f"bench: {key}: {program}: {lane.failure}", file=sys.stderr)
            elif bare:
                timing = Timing(number, mean_times(lane.done), mean_times(bare))
                cell = Cell(environment.minor, program, name)
                results.timings.setdefault(cell, []).append(timing)
    return results
