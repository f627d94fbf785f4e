"""Measure Lapwing on trainings that run: bench/run.sh torch [--help].

Five questions, all modes of one in turns:
  plain   how much longer three trainings take under plain `lapwing run`: their steps,
          by their own clock, and the whole command
  ops     what recording every op costs a step of a thousand small ops, beside
          torch.profiler
  large   what it costs a step of a few large ones, of 30 ms or more: processes that do
          the same differ by 5 % there, so every other step of one is recorded
  flood   ten million ops: how much more memory the program has, and how long after its
          last step the command ends
  steps   what noting the steps costs by itself, at a thousand steps a second

A run and a bare one make a pair and take turns of a quarter second (turns.py). The
programs tell their steps' times without their start; a step's mean has what only some
steps pay for, which its median has not. What an option is needed for that this Lapwing
does not have is not measured.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path

import places
import tables
from figures import FEWEST_ROUNDS, RESAMPLES, Bound, bound, geometric_mean
from goals import Goal
from turns import Command, NotInTime, RunFailed

PROGRAMS = places.PROJECT / "bench" / "live_programs"

PLAIN_SLOWDOWN = 1.03  # of steps and of the whole command, by the upper bound
PROFILER_SHARE = 0.6  # of torch.profiler's overhead on a step of small ops
LARGE_STEP_SLOWDOWN = 1.01
STEPS_SLOWDOWN = 1.01
FLOOD_OPS = 10_000_000
FLOOD_BYTES = 64 << 20
FLOOD_PAUSE_SECONDS = 1.0
TIMEOUT_SECONDS = 900
TURN_SECONDS = 0.25

PAIRS = 20
# Two processes that do the same differ by 1 %, from where their memory happens to lie:
# to see less than that takes many short ones, not a few long ones.
STEPS_PAIRS = 3  # times as many


@dataclass(frozen=True)
class Program:
    """A training that tells its own times."""

    name: str
    words: tuple[str, ...]  # its script, and the script's words


@dataclass(frozen=True)
class Mode:
    """A way to run a program."""

    name: str
    options: tuple[str, ...] | None = None  # of `lapwing run`; None: without it
    words: tuple[str, ...] = ()  # more words for the program


@dataclass(frozen=True)
class Times:
    """What one run took, in seconds."""

    step_median: float
    step_mean: float
    step_cpu: float  # of the program's thread
    whole: float  # the command
    tail: float  # of it after the program's last word
    peak_bytes: int


DEMO = Program("demo", ("demo.py",))
TRANSFORMER = Program("transformer", ("transformer.py", "300"))
SMALL = Program("small ops", ("ops.py", "small", "1000"))
LARGE_STEPS = 200
LARGE_STEP_SECONDS = 0.030
# Large tensors that come from the kernel anew in each step make the same step take 20
# or 28 ms, as its pages happen to lie: here malloc keeps them.
KEPT_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": "1000000000",
    "MALLOC_TRIM_THRESHOLD_": "10000000000",
    "MALLOC_TOP_PAD_": "100000000",
}
TINY_STEP_SECONDS = 0.001
TINY_LAYERS = 2, 10  # the fewest, and as many as are tried beside

BARE = Mode("bare")
PLAIN = Mode("lapwing run", ())
EVERY_OP = Mode("lapwing run --ops=all", ("--ops=all",))
NO_OPS = Mode("lapwing run --ops=off", ("--ops=off",))
ONLY_STEPS = Mode("steps alone", ("--no-sample", "--no-system", "--ops=off"))
PROFILER = Mode("torch.profiler", None, ("--torch-profiler",))

PARTS = {
    "step_median": "step, median",
    "step_mean": "step, mean",
    "step_cpu": "step, processor time",
    "whole": "whole command",
}


def make_command(lapwing: Path, program: Program, mode: Mode, folder: Path) -> Command:
    script, *words = program.words
    command = [sys.executable, str(PROGRAMS / script), *words, *mode.words]
    if mode.options is not None:
        command = [str(lapwing), "run", *mode.options, "--", *command]
    return Command(command, folder, TIMEOUT_SECONDS)


def times_of(command: Command) -> Times:
    """What COMMAND, which is over, took, by what its program said (step_times.py)."""
    for line in command.output_path.read_text().splitlines():
        if command.exit_code == 0 and line.startswith('{"program"'):
            said = json.loads(line)
            steps_ns = [
                command.own_ns(start_ns, end_ns)
                for series in said["series"]
                for start_ns, end_ns in pairwise(series)
            ]
            return Times(
                statistics.median(steps_ns) / 1e9,
                statistics.fmean(steps_ns) / 1e9,
                said["cpu_ns"] / len(steps_ns) / 1e9,
                command.seconds,
                command.own_ns(said["ended_ns"], command.end_ns) / 1e9,
                said["peak_bytes"],
            )
    raise RunFailed(
        f"{' '.join(command.words)}: exit code {command.exit_code}: "
        f"{command.errors_path.read_text().strip()}"
    )


@dataclass
class Bench:
    """The Lapwing that is measured, how often, and all that was found."""

    lapwing: Path
    pairs: int
    offered: str  # what its `run --help` says
    runs: list[dict[str, object]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    goals: list[Goal] = field(default_factory=list)

    def lacks(self, mode: Mode) -> str | None:
        """The option of MODE that this Lapwing does not have."""
        for option in mode.options or ():
            if option.split("=")[0] not in self.offered:
                return option.split("=")[0]
        return None

    def can_measure(self, mode: Mode, wanted: dict[str, str]) -> bool:
        """Whether it has all that MODE needs; if not, nothing of WANTED, what should be
        and what it should be, is measured."""
        lacking = self.lacks(mode)
        for what, target in wanted.items() if lacking else ():
            self.leave_out(what, target, f"lapwing run has no {lacking}")
        return lacking is None

    def leave_out(self, what: str, wanted: str, why: str) -> None:
        self.goals.append(Goal(what, "-", wanted, None))
        self.notes.append(f"not measured: {what}: {why}")

    def run(self, program: Program, modes: list[Mode], folder: Path) -> list[Times]:
        """The program in FOLDER in each mode, in turns; what each run took."""
        load = os.getloadavg()[0]
        commands = []
        for number, mode in enumerate(modes):
            (folder / str(number)).mkdir()
            commands.append(
                make_command(self.lapwing, program, mode, folder / str(number))
            )
        try:
            while waiting := [one for one in commands if not one.is_over]:
                for command in waiting:
                    others = [one for one in waiting if not one.is_over]
                    command.take_turn(TURN_SECONDS if len(others) > 1 else None)
            found = [times_of(command) for command in commands]
        except NotInTime as error:
            raise RunFailed(f"{error}: not done in time") from None
        finally:
            for command in commands:
                command.kill()
        for mode, times in zip(modes, found, strict=True):
            row = {"program": program.name, "mode": mode.name, "load_average": load}
            self.runs.append(row | asdict(times))
        return found

    def pair(
        self, program: Program, mode: Mode, bare_first: bool
    ) -> tuple[Times, Times]:
        """A bare run and one in MODE, side by side."""
        modes = [BARE, mode] if bare_first else [mode, BARE]
        with tempfile.TemporaryDirectory(prefix="lapwing-bench-") as folder:
            times = self.run(program, modes, Path(folder))
        found = dict(zip(modes, times, strict=True))
        return found[BARE], found[mode]


class Slowdowns:
    """How many times as long as bare a program took: by mode, one for each pair."""

    def __init__(
        self, bench: Bench, program: Program, modes: list[Mode], times: int = 1
    ) -> None:
        """TIMES as many pairs as the others have."""
        pairs = bench.pairs * times
        self.program = program
        self.modes = modes
        self.bare: list[Times] = []
        self.pairs: dict[tuple[str, str], list[float]] = {}
        order = random.Random(0)
        for pair in range(pairs):
            say(f"{program.name}: pair {pair + 1} of {pairs}")
            turns = list(modes)
            order.shuffle(turns)
            for mode in turns:
                bare, ours = bench.pair(program, mode, bare_first=pair % 2 == 0)
                for part in PARTS:
                    ratios = self.pairs.setdefault((mode.name, part), [])
                    ratios.append(getattr(ours, part) / getattr(bare, part))
                self.bare.append(bare)

    def bound(self, mode: Mode, part: str) -> Bound:
        return bound(self.pairs[mode.name, part])

    def table(self) -> str:
        count = len(self.bare)
        bare = {
            part: geometric_mean([getattr(times, part) for times in self.bare])
            for part in PARTS
        }
        rows = [
            [
                f"bare ({count} runs)",
                *[
                    f"{bare[part]:.2f} s"
                    if part == "whole"
                    else f"{show_ms(bare[part])}"
                    for part in PARTS
                ],
            ]
        ]
        for mode in self.modes:
            bounds = [str(self.bound(mode, part)) for part in PARTS]
            rows.append([mode.name, *bounds])
        return tables.table([self.program.name, *PARTS.values()], rows)

    def share(self, ours: Mode, theirs: Mode, part: str) -> Bound:
        """The overhead of OURS over that of THEIRS, by a bootstrap over the pairs."""
        pairs = list(
            zip(self.pairs[ours.name, part], self.pairs[theirs.name, part], strict=True)
        )

        def of(chosen: list[tuple[float, float]]) -> float:
            other = geometric_mean([pair[1] for pair in chosen]) - 1
            mine = geometric_mean([pair[0] for pair in chosen]) - 1
            return mine / other if other > 0 else math.inf

        draw = random.Random(0)
        shares = sorted(of(draw.choices(pairs, k=len(pairs))) for _ in range(RESAMPLES))
        return Bound(of(pairs), shares[int(0.95 * RESAMPLES)])


def say(text: str) -> None:
    print(f"bench: {text}", file=sys.stderr, flush=True)


def show_ms(seconds: float) -> str:
    return f"{seconds * 1000:.3f} ms"


def at_most(what: str, is_: Bound, most: float, by_upper: bool, pairs: int) -> Goal:
    """A goal for a mean, or for its upper bound where the goal is one of that."""
    passed = (is_.upper if by_upper else is_.value) <= most
    enough = pairs >= FEWEST_ROUNDS
    return Goal(what, str(is_), f"at most {most:.2f}", passed if enough else None)


# ---- the questions -------------------------------------------------------------------


def tiny(bench: Bench, steps: int) -> Program:
    """The training of tiny tensors, with as many layers as make a millisecond here."""
    took = []
    for layers in TINY_LAYERS:
        say(f"tiny: a step of {layers} layers")
        program = Program("tiny", ("tiny.py", "1000", str(layers)))
        with tempfile.TemporaryDirectory(prefix="lapwing-bench-") as folder:
            took.append(bench.run(program, [BARE], Path(folder))[0].step_median)
    fewest, more = TINY_LAYERS
    layer_seconds = (took[1] - took[0]) / (more - fewest)
    layers = fewest + max(0, round((TINY_STEP_SECONDS - took[0]) / layer_seconds))
    bench.notes.append(f"the model of tiny has {layers} layers")
    return Program("tiny", ("tiny.py", str(steps), str(layers)))


def plain(bench: Bench) -> None:
    for program in (DEMO, TRANSFORMER, tiny(bench, 8000)):
        found = Slowdowns(bench, program, [PLAIN])
        print(found.table() + "\n", flush=True)
        for part in ("step_median", "step_mean", "whole"):
            what = f"plain lapwing run, {program.name}: {PARTS[part]}, times bare"
            is_ = found.bound(PLAIN, part)
            goal = at_most(what, is_, PLAIN_SLOWDOWN, True, bench.pairs)
            bench.goals.append(goal)


def large_batch(bench: Bench) -> int:
    """How many images make a step of large ops that is just long enough here."""
    fewest = 8
    say("large ops: a step")
    program = Program("large ops", ("ops.py", "large", "60", "--batch", str(fewest)))
    with tempfile.TemporaryDirectory(prefix="lapwing-bench-") as folder:
        took = bench.run(program, [BARE], Path(folder))[0].step_median
    batch = max(fewest, math.ceil(fewest * LARGE_STEP_SECONDS / took))
    bench.notes.append(
        f"a step of large ops has {batch} images ({fewest}: {show_ms(took)})"
    )
    return batch


def alternate_ops(bench: Bench, batch: int) -> float:
    """How many times as long steps of large ops take when they are recorded, as others
    of the same process do.
    """
    options = ["--batch", str(batch), "--alternate"]
    script = str(PROGRAMS / "ops.py")
    program = [sys.executable, script, "large", str(LARGE_STEPS), *options]
    words = [str(bench.lapwing), "run", *(EVERY_OP.options or ()), "--", *program]
    say("large ops: every other step recorded")
    with tempfile.TemporaryDirectory(prefix="lapwing-bench-") as folder:
        done = subprocess.run(
            words,
            capture_output=True,
            text=True,
            cwd=folder,
            env=os.environ | KEPT_MEMORY,
        )
    for line in done.stdout.splitlines():
        if line.startswith('{"told_over_not"'):
            return float(json.loads(line)["told_over_not"])
    raise RunFailed(f"{' '.join(words)}: {done.stderr.strip()}")


def ops(bench: Bench) -> None:
    small = "--ops=all, a step of small ops: share of torch.profiler's overhead"
    if not bench.can_measure(EVERY_OP, {small: f"at most {PROFILER_SHARE:.2f}"}):
        return
    modes = [EVERY_OP, NO_OPS, PROFILER]
    found = Slowdowns(bench, SMALL, modes)
    print(found.table() + "\n", flush=True)
    for part in ("step_median", "step_mean"):
        share = found.share(EVERY_OP, PROFILER, part)
        what = f"{small} ({PARTS[part]})"
        bench.goals.append(at_most(what, share, PROFILER_SHARE, False, bench.pairs))


def large(bench: Bench) -> None:
    what = "--ops=all, a step of large ops, mean: times one that is not recorded"
    if not bench.can_measure(EVERY_OP, {what: f"at most {LARGE_STEP_SLOWDOWN:.2f}"}):
        return
    batch = large_batch(bench)
    is_ = bound([alternate_ops(bench, batch) for _ in range(bench.pairs)])
    bench.goals.append(at_most(what, is_, LARGE_STEP_SLOWDOWN, False, bench.pairs))


def steps(bench: Bench) -> None:
    what = "the steps collector alone at 1,000 steps a second: step, mean, times bare"
    if not bench.can_measure(ONLY_STEPS, {what: f"at most {STEPS_SLOWDOWN:.2f}"}):
        return
    program = tiny(bench, 2000)
    found = Slowdowns(bench, program, [ONLY_STEPS], STEPS_PAIRS)
    print(found.table() + "\n", flush=True)
    is_ = found.bound(ONLY_STEPS, "step_mean")
    bench.goals.append(at_most(what, is_, STEPS_SLOWDOWN, False, bench.pairs))


def recorded_ops(bench: Bench, run: Path) -> int:
    """How many ops a report on RUN counts, without ranges that are announced."""
    words = [str(bench.lapwing), "report", str(run), "ops", "--json"]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        raise RunFailed(f"{' '.join(words)}: {done.stderr.strip()}")
    rows = json.loads(done.stdout)["rows"]
    return sum(row["calls"] for row in rows if row["kind"] == "op")


def flood(bench: Bench) -> None:
    names = {
        "recorded": "10 million ops: how many of them were recorded",
        "memory": "10 million ops: more memory in the program",
        "pause": "10 million ops: later end of the command",
    }
    wanted = {
        "recorded": f"at least {FLOOD_OPS:,}",
        "memory": f"at most {FLOOD_BYTES / 2**20:.0f} MB",
        "pause": f"at most {FLOOD_PAUSE_SECONDS:.1f} s",
    }
    if not bench.can_measure(EVERY_OP, {names[key]: wanted[key] for key in names}):
        return
    script = str(PROGRAMS / SMALL.words[0])
    counting = [sys.executable, script, "small", "1", "--count"]
    each = int(subprocess.check_output(counting, text=True))
    count = math.ceil(FLOOD_OPS / each)
    program = Program("flood", ("ops.py", "small", str(count)))
    bench.notes.append(f"{each} ops a step, as torch.profiler counts; {count} steps")
    say(f"flood: {count} steps bare, and recorded")
    with tempfile.TemporaryDirectory(prefix="lapwing-bench-") as folder:
        run = Path(folder, "x.lap")
        mode = Mode(EVERY_OP.name, (*(EVERY_OP.options or ()), "-o", str(run)))
        bare, times = bench.run(program, [BARE, mode], Path(folder))
        size = sum(file.stat().st_size for file in run.rglob("*") if file.is_file())
        recorded = recorded_ops(bench, run)
    more = times.peak_bytes - bare.peak_bytes
    pause = times.tail - bare.tail
    bench.notes.append(
        f"10 million ops: a step took {times.step_mean / bare.step_mean:.3f} times as "
        f"long, the recording has {size / 1e6:.0f} MB"
    )
    bench.goals += [
        Goal(
            names["recorded"],
            f"{recorded:,}",
            wanted["recorded"],
            recorded >= FLOOD_OPS,
        ),
        Goal(
            names["memory"],
            f"{more / 2**20:.1f} MB",
            wanted["memory"],
            more <= FLOOD_BYTES,
        ),
        Goal(
            names["pause"],
            f"{pause:.2f} s",
            wanted["pause"],
            pause <= FLOOD_PAUSE_SECONDS,
        ),
    ]


QUESTIONS: dict[str, Callable[[Bench], None]] = {
    "plain": plain,
    "ops": ops,
    "large": large,
    "flood": flood,
    "steps": steps,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench/run.sh torch")
    add = parser.add_argument
    add("questions", nargs="*", metavar="QUESTION", help=", ".join(QUESTIONS))
    add("--pairs", type=int, default=PAIRS, help=f"of runs, for each mode ({PAIRS})")
    add("--lapwing", metavar="PROGRAM", help="another than .venv/bin/lapwing")
    add("--check", action="store_true", help="leave with 1 if a target is missed")
    args = parser.parse_args()
    for question in args.questions:
        if question not in QUESTIONS:
            parser.error(f"no such question: {question}")
    if args.pairs < 1:
        parser.error("--pairs must be at least 1")
    lapwing = places.lapwing(args.lapwing)
    if lapwing is None:
        sys.exit(f"bench: no lapwing at {args.lapwing or '.venv/bin/lapwing'}")
    offered = subprocess.check_output([str(lapwing), "run", "--help"], text=True)
    bench = Bench(lapwing, args.pairs, offered)
    for question in args.questions or QUESTIONS:
        try:
            QUESTIONS[question](bench)
        except RunFailed as error:
            bench.leave_out(question, "", str(error))
    loads = [float(str(run["load_average"])) for run in bench.runs]
    if loads:
        bench.notes.append(
            f"load average while trainings ran: {min(loads):.1f} to {max(loads):.1f} "
            f"on {os.cpu_count()} cores"
        )
    for note in bench.notes:
        print(f"- {note}")
    print("\n" + tables.goals_table(bench.goals), flush=True)
    places.RESULTS.mkdir(exist_ok=True)
    path = places.RESULTS / time.strftime("torch-%Y%m%d-%H%M%S.json")
    document = {
        "arguments": vars(args),
        "runs": bench.runs,
        "notes": bench.notes,
        "goals": [{**asdict(goal), "word": goal.word} for goal in bench.goals],
    }
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    say(f"all numbers are in {path}")
    return int(args.check and any(goal.passed is not True for goal in bench.goals))


if __name__ == "__main__":
    sys.exit(main())
