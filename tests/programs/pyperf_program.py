"""Run one of pyperformance's programs a fixed number of times.

    pyperf_program.py NAME [LOOPS] [--dir FOLDER] [--profile CLASS -o FILE] [-- ARG...]

NAME is as in `bm_NAME`; LOOPS is how often its work is done (1). ARG go to the script
(scimark: `-- fft` for one of its five). At the end one line of JSON says how long the
measured part took, without the interpreter's start, imports and set-up, when it began
and ended by CLOCK_MONOTONIC, and how much of it the process had a processor.

The scripts are pyperformance's own, from where pip put them: FOLDER, else
$PYPERFORMANCE_DIR, else this Python's site-packages, else the project's .venv. Any
Python can run them: nothing needs to be installed for it. With PYTHONHASHSEED=0 the
same calls are made each time.

--profile cProfile.Profile (or lapwing.Profile, or any class of that shape) profiles
the measured part alone and writes FILE; --no-builtins leaves C functions out. Two
profilers can then be compared call for call, which whole commands cannot: what the
profiler itself imports before the program changes what the program's imports do.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from time import monotonic_ns, process_time
from typing import Any

import pyperf_standin

PROGRAMS = (
    "richards",
    "deltablue",
    "raytrace",
    "go",
    "chaos",
    "hexiom",
    "generators",
    "coroutines",
    "async_tree",
    "deepcopy",
    "logging",
    "json_dumps",
    "scimark",
    "comprehensions",
)

# What a script needs to be told. async_tree's other variants sleep, and how often an
# event loop wakes up is then a matter of timing.
ARGUMENTS = {"async_tree": ["none"]}


def likely_folders(given: str | None) -> Iterator[Path]:
    """Where the bm_* folders may be, the most explicit place first."""
    if given or os.environ.get("PYPERFORMANCE_DIR"):
        yield Path(given or os.environ["PYPERFORMANCE_DIR"])
        return
    inside = Path("pyperformance", "data-files", "benchmarks")
    for entry in sys.path:
        yield Path(entry, inside)
    project = Path(__file__).resolve().parents[2]
    for packages in sorted(project.glob(".venv/lib/python*/site-packages")):
        yield packages / inside


def find_script(name: str, given: str | None = None) -> Path:
    """The script of program NAME."""
    for folder in likely_folders(given):
        script = folder / f"bm_{name}" / "run_benchmark.py"
        if script.is_file():
            return script
    sys.exit(
        f"pyperf_program.py: no bm_{name} found; pip install --no-deps -r "
        "tests/programs/requirements.txt, or set PYPERFORMANCE_DIR"
    )


def load(script: Path, arguments: list[str]) -> list[pyperf_standin.Benchmark]:
    """Execute SCRIPT as the main program and give back what it wants measured."""
    pyperf_standin.install()
    pyperf_standin.Runner.arguments = arguments
    pyperf_standin.Runner.found = []
    code = compile(script.read_bytes(), str(script), "exec")
    exec(code, {"__name__": "__main__", "__file__": str(script)})
    return pyperf_standin.Runner.found


def measured(
    benchmarks: list[pyperf_standin.Benchmark], loops: int
) -> tuple[int, int, float]:
    """When LOOPS of all BENCHMARKS began and ended, in ns, and their seconds on a
    processor.
    """
    cpu = process_time()
    start = monotonic_ns()
    for benchmark in benchmarks:
        benchmark.run(loops)
    return start, monotonic_ns(), process_time() - cpu


def make_profiler(name: str, builtins: bool) -> Any:
    """An object of class MODULE.CLASS, to be used as cProfile.Profile is."""
    module, _, cls = name.rpartition(".")
    profiler = getattr(importlib.import_module(module), cls)
    return profiler() if builtins else profiler(builtins=False)


def parse_args() -> argparse.Namespace:
    """The command line; what follows `--` is the script's."""
    ours, theirs = sys.argv[1:], []
    if "--" in ours:
        split = ours.index("--")
        ours, theirs = ours[:split], ours[split + 1 :]
    parser = argparse.ArgumentParser(description="run one pyperformance program")
    parser.add_argument("name", help=", ".join(PROGRAMS))
    parser.add_argument("loops", nargs="?", type=int, default=1)
    parser.add_argument("--dir", help="pyperformance's data-files/benchmarks")
    parser.add_argument("--profile", metavar="CLASS", help="as cProfile.Profile")
    parser.add_argument("-o", "--output", help="where the profile goes")
    parser.add_argument("--no-builtins", action="store_true")
    args = parser.parse_args(ours)
    if bool(args.profile) != bool(args.output):
        parser.error("--profile and -o go together")
    args.arguments = theirs or ARGUMENTS.get(args.name, [])
    return args


def main() -> None:
    """Load the program, run it and say how long it took."""
    args = parse_args()
    benchmarks = load(find_script(args.name, args.dir), args.arguments)
    if args.profile:
        profiler = make_profiler(args.profile, not args.no_builtins)
        profiler.enable()
        start, end, cpu = measured(benchmarks, args.loops)
        profiler.disable()
        profiler.dump_stats(args.output)
    else:
        start, end, cpu = measured(benchmarks, args.loops)
    print(
        json.dumps(
            {
                "program": args.name,
                "loops": args.loops,
                "start_ns": start,
                "end_ns": end,
                "measured_seconds": (end - start) / 1e9,
                "cpu_seconds": cpu,
            }
        )
    )


if __name__ == "__main__":
    main()
