"""Measure Lapwing beside its peers; bench/run.sh starts this."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

import peers
import places
import reading
import tables
from figures import Figures, Part
from formats import measure_formats
from goals import Goal, overhead_goals, peer_goals
from kineto import measure_kineto
from measure import Plan, Results, measure
from modes import MODES, Mode

PROGRAMS = ["richards", "deltablue", "raytrace", "go", "chaos", "hexiom"]
PYTHONS = ["3.11", "3.12", "3.13"]
# The targets are for the first two. The third leaves out what runs beside the program,
# Lapwing's recorder above all, but stays steady on a busy machine.
PARTS: tuple[Part, ...] = ("measured", "whole", "cpu")


def words(text: str) -> list[str]:
    """A list parted by commas."""
    return [word.strip() for word in text.split(",") if word.strip()]


def parse_args() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="bench/run.sh",
        description="Measure Lapwing beside its peers, in turns. By default this takes "
        "well over half an hour, most of it by the peers; --quick takes some minutes.",
        epilog="modes: " + "; ".join(mode.name for mode in MODES),
    )
    add = parser.add_argument
    add(
        "part",
        nargs="?",
        choices=("all", "calls", "reading", "formats", "kineto"),
        default="all",
        help="all (default), calls of programs, reading of profiles and runs, formats, "
        "torch's traces",
    )
    add("--only", type=words, metavar="WORD,...", help="modes whose name starts so")
    add("--pythons", type=words, default=PYTHONS, metavar="X.Y,...")
    add("--programs", type=words, default=PROGRAMS, metavar="NAME,...")
    add("--rounds", type=int, default=9, help="of Lapwing, cProfile and bare (9)")
    add("--peer-rounds", type=int, default=2, help="of the slow peers (2)")
    add("--seconds", type=float, default=0.3, help="of a bare run, about (0.3)")
    add("--quick", action="store_true", help="3 rounds of 0.1 s, one of the peers")
    add("--lapwing", metavar="PROGRAM", help="another than .venv/bin/lapwing")
    add(
        "--calls-run", metavar="RUN", help="a run of 10 million calls; else one is made"
    )
    add(
        "--samples-run",
        metavar="RUN",
        help="a run of 3 million samples; else one is made",
    )
    add("--megabytes", type=float, default=100, help="of a file of `formats` (100)")
    add("--check", action="store_true", help="leave with 1 if a target is missed")
    args = parser.parse_args()
    if args.quick:
        args.rounds, args.peer_rounds, args.seconds = 3, 1, 0.1
    return args


def choose_modes(only: list[str] | None) -> list[Mode]:
    """Modes that were asked for; bare is always there, as all is measured by it."""
    if not only:
        return list(MODES)
    for word in only:
        if not any(mode.name.startswith(word) for mode in MODES):
            sys.exit(f"bench: no mode starts with {word!r}")
    return [
        mode
        for mode in MODES
        if mode.name == "bare" or any(mode.name.startswith(word) for word in only)
    ]


def prepare(
    minors: list[str], lapwing: Path | None
) -> tuple[list[peers.Environment], list[str]]:
    """The Pythons to measure with, and a line for each that cannot be."""
    found = places.pythons(minors)
    missing = [f"no CPython {minor} here" for minor in minors if minor not in found]
    environments = [
        peers.prepare(minor, found[minor], lapwing)
        for minor in minors
        if minor in found
    ]
    for environment in environments:
        for peer, reason in environment.missing.items():
            missing.append(f"{peer} on {environment.minor}: {reason}")
    return environments, missing


def measure_calls(
    args: argparse.Namespace, lapwing: Path | None
) -> tuple[Results, list[peers.Environment], list[str]]:
    """The part about calls: results, Pythons, and what is missing."""
    environments, missing = prepare(args.pythons, lapwing)
    modes = choose_modes(args.only)
    if lapwing is None and any(mode.tool == "lapwing" for mode in modes):
        missing.append(f"lapwing: not at {args.lapwing or '.venv/bin/lapwing'}")
        modes = [mode for mode in modes if mode.tool != "lapwing"]
    for line in missing:
        print(f"bench: missing: {line}", file=sys.stderr)
    plan = Plan(
        environments=environments,
        programs=args.programs,
        modes=modes,
        rounds=args.rounds,
        peer_rounds=min(args.peer_rounds, args.rounds),
        seconds=args.seconds,
    )
    results = measure(plan)
    missing += [f"{mode}: {reason}" for mode, reason in results.failures.items()]
    return results, environments, missing


def measure_reading(
    args: argparse.Namespace, lapwing: Path | None
) -> list[reading.Reading]:
    """The part about files."""
    rounds = 5 if args.quick else 11
    results = [reading.read_prof(lapwing, rounds, functions=20_000)]
    absent = "lapwing is missing"
    with tempfile.TemporaryDirectory(prefix="lapwing-bench-") as folder:
        calls, samples = args.calls_run, args.samples_run
        if calls is None and lapwing is not None:
            calls = reading.record_calls(
                lapwing, Path(sys.executable), Path(folder), 10_000_000
            )
        results.append(
            reading.report_on(lapwing, calls, "10 million calls", rounds, absent)
        )
        if samples is None:
            samples = reading.make_samples(Path(folder), 3_000_000)
        why = absent if lapwing is None else f"{places.MAKE_RUN} is missing; run: make"
        results.append(
            reading.report_on(lapwing, samples, "3 million samples", rounds, why)
        )
    return results


def machine() -> dict[str, object]:
    """What the numbers were measured on."""
    commit = subprocess.run(
        ["git", "-C", str(places.PROJECT), "describe", "--always", "--dirty"],
        capture_output=True,
        text=True,
    )
    return {
        "commit": commit.stdout.strip(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "load_average": os.getloadavg(),
        "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }


def save(
    args: argparse.Namespace,
    before: dict[str, object],
    calls: Results | None,
    readings: list[reading.Reading],
    goals: list[Goal],
) -> Path:
    """Every number, as JSON, under bench/results/."""
    places.RESULTS.mkdir(exist_ok=True)
    path = places.RESULTS / time.strftime("%Y%m%d-%H%M%S.json")
    timings = calls.timings.items() if calls else ()
    document = {
        "arguments": vars(args),
        "before": before,
        "after": machine(),
        "loops": calls.loops if calls else {},
        "failures": calls.failures if calls else {},
        "timings": [
            {**asdict(cell), "runs": [asdict(run) for run in runs]}
            for cell, runs in timings
        ],
        "reading": [asdict(result) for result in readings],
        "goals": [{**asdict(goal), "word": goal.word} for goal in goals],
    }
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return path


def main() -> int:
    """Measure, print the tables, keep the numbers."""
    args = parse_args()
    lapwing = places.lapwing(args.lapwing)
    before = machine()
    calls: Results | None = None
    readings: list[reading.Reading] = []
    goals: list[Goal] = []

    if args.part in ("all", "calls"):
        asked = {mode.name for mode in choose_modes(args.only)}
        calls, environments, missing = measure_calls(args, lapwing)
        for environment in environments:
            for part in PARTS:
                figures = Figures(calls, environment.minor, part)
                print(tables.slowdowns(figures) + "\n")
                print(tables.shares(figures) + "\n")
                if part != "cpu":
                    goals += overhead_goals(figures, asked)
                    goals += peer_goals(figures, asked)
        for line in missing:
            print(f"- missing: {line}")
    if args.part in ("all", "reading"):
        readings += measure_reading(args, lapwing)
    if args.part in ("all", "formats"):
        rounds, import_rounds = (3, 1) if args.quick else (7, 2)
        readings.append(measure_formats(lapwing, args.megabytes, rounds, import_rounds))
    if args.part in ("all", "kineto"):
        rounds, peer_rounds = (3, 1) if args.quick else (7, 2)
        readings.append(
            measure_kineto(lapwing, rounds, peer_rounds, huge=not args.quick)
        )
    for result in readings:
        for note in result.notes:
            print(f"- {note}")
        for name in result.seconds:
            print(f"- {name}: {result.typical(name) * 1000:.1f} ms")
        goals += result.goals

    if goals:
        print("\n" + tables.goals_table(goals), flush=True)
    path = save(args, before, calls, readings, goals)
    print(f"bench: all numbers are in {path}", file=sys.stderr)
    return int(args.check and any(goal.passed is not True for goal in goals))


if __name__ == "__main__":
    sys.exit(main())
