"""Measure the sampler beside py-spy and austin: bench/run.sh sampling [--help].

Six questions, all tools in one run and in turns:
  slowdown    how much longer six programs take, by their own wall clock and processor
              time, at 1,000 and 10,000 samples a second
  torch       the same for a training with two DataLoader workers, and for a process
              with 150 native threads that maps memory all the time, at 200 and 1,000
  cost        processor time of the recorder for one sample of a stack of 30
  reads       calls of process_vm_readv for one sample, counted by strace
  sustained   how many samples come late or are missed at 20,000 a second
  hour        how large an hour's recording of four processes at 200 samples a second
              gets, and its recorder, by a minute of as many as can be had
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE

import peers
import places
from figures import bound
from tables import table
from turns import Command

PROGRAMS = ["richards", "deltablue", "raytrace", "go", "chaos", "hexiom"]
RATES = [1_000, 10_000]
TORCH_PROGRAMS = ["loader", "threads"]
TORCH_RATES = [200, 1_000]
DEEP = places.PROJECT / "tests" / "programs" / "deep.py"
TURN_SECONDS = 0.25
COST_RATE = 1_000
COST_SECONDS = 10
SUSTAINED_ROUNDS = 5
SUSTAINED_SHARE = 0.01  # late or missed, of what was due
HOUR_PROGRAMS = ["richards", "go", "raytrace", "chaos"]
HOUR_SECONDS = 3_600
HOUR_MEASURED_SECONDS = 60
HOUR_RATE = 200
HOUR_FAST_RATE = 5_000
HOUR_MEGABYTES = 50
HOUR_RECORDER_MEGABYTES = 64
QUESTIONS = ["slowdown", "torch", "cost", "reads", "sustained", "hour"]


@dataclass(frozen=True)
class Tool:
    """A sampler, as its users would type it: around a program, or on a process."""

    name: str
    run: Callable[[str, int, str], list[str]]  # its program, samples a second, output
    attach: Callable[[str, int, str, int, float], list[str]]


TOOLS = [
    Tool(
        "lapwing",
        lambda program, rate, out: [
            *[program, "run", "--rate", str(rate), "-q", "-o", out + ".lap", "--"],
        ],
        lambda program, rate, out, pid, seconds: [
            *[program, "attach", "--rate", str(rate), "--no-system"],
            *["--duration", f"{seconds}s", "-o", out + ".lap", str(pid)],
        ],
    ),
    Tool(
        "py-spy",
        lambda program, rate, out: [
            *[program, "record", "-r", str(rate), "-f", "raw", "-o", out, "--"],
        ],
        lambda program, rate, out, pid, seconds: [
            *[program, "record", "-r", str(rate), "-f", "raw", "-o", out],
            *["-d", f"{seconds:.0f}", "-p", str(pid)],
        ],
    ),
    Tool(
        "austin",
        lambda program, rate, out: [program, "-i", str(1_000_000 // rate), "-o", out],
        lambda program, rate, out, pid, seconds: [
            *[program, "-i", str(1_000_000 // rate), "-o", out],
            *["-x", f"{seconds:.0f}", "-p", str(pid)],
        ],
    ),
]


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench/run.sh sampling")
    add = parser.add_argument
    add("questions", nargs="*", metavar="QUESTION", help=", ".join(QUESTIONS))
    add("--python", default="3.11", metavar="X.Y")
    add("--pairs", type=int, default=20, help="runs of each, beside a bare one (20)")
    add("--seconds", type=float, default=1.0, help="of a bare run, about (1.0)")
    add("--peer-pairs", type=int, default=5, help="of the other tools (5)")
    add("--tools", default="lapwing,py-spy,austin", metavar="NAME,...")
    add("--lapwing", metavar="PROGRAM", help="another than .venv/bin/lapwing")
    add("--driver", default=str(places.PROJECT / "build/release/sample_driver"))
    args = parser.parse_args()
    for question in args.questions:
        if question not in QUESTIONS:
            parser.error(f"no such question: {question}")
    args.questions = args.questions or QUESTIONS
    return args


# ---- slowdown ------------------------------------------------------------------------


class ToolError(Exception):
    """A tool did not get its program to the end."""


@dataclass(frozen=True)
class Program:
    """What is measured: it prints its own times."""

    name: str
    python: str
    script: Path

    def run(self, words: list[str], loops: int) -> tuple[float, float]:
        """Its own wall and processor seconds, run after WORDS."""
        env = {
            **os.environ,
            "PYTHONHASHSEED": "0",
            "PYPERFORMANCE_DIR": str(places.benchmarks()),
        }
        command = [*words, self.python, str(self.script), self.name, str(loops)]
        done = subprocess.run(command, env=env, capture_output=True, text=True)
        for line in done.stdout.splitlines():
            if line.startswith('{"program"'):
                said = json.loads(line)
                return said["measured_seconds"], said["cpu_seconds"]
        raise ToolError(f"bench: {' '.join(command)}: {done.stderr.strip()}")

    def loops_for(self, seconds: float) -> int:
        loops = 1
        while True:
            wall, _ = self.run([], loops)
            if wall >= seconds / 4:
                return max(1, round(loops * seconds / wall))
            loops *= 4


class Pairs:
    """Slowdowns of tools at rates, each run beside bare ones right before and after."""

    def __init__(
        self, args: argparse.Namespace, tools: dict[str, str], rates: list[int]
    ) -> None:
        self.peer_pairs = args.peer_pairs
        self.tools = tools
        self.rates = rates
        self.walls: dict[tuple[str, int], list[float]] = {}
        self.cpus: dict[tuple[str, int], list[float]] = {}
        self.order = random.Random(0)

    def modes(self, pair: int) -> list[tuple[Tool, int]]:
        """In another order each time; the others are known well enough soon."""
        modes = [
            (tool, rate)
            for tool in TOOLS
            for rate in self.rates
            if tool.name in self.tools
            and (tool.name == "lapwing" or pair < self.peer_pairs)
        ]
        self.order.shuffle(modes)
        return modes

    def measure(self, program: Program, loops: int, pair: int) -> None:
        bare = program.run([], loops)
        for tool, rate in self.modes(pair):
            with tempfile.TemporaryDirectory(prefix="lapwing-bench-") as folder:
                words = tool.run(self.tools[tool.name], rate, f"{folder}/out")
                try:
                    wall, cpu = program.run(words, loops)
                except ToolError as error:  # austin's, now and then, at its start
                    if tool.name == "lapwing":
                        raise
                    print(error, file=sys.stderr)
                    continue
            after = program.run([], loops)
            self.add(tool, rate, (wall, cpu), (bare, after))
            bare = after

    def add(
        self,
        tool: Tool,
        rate: int,
        sampled: tuple[float, float],
        bare: tuple[tuple[float, float], tuple[float, float]],
    ) -> None:
        for kept, of in ((self.walls, 0), (self.cpus, 1)):
            ratio = 2 * sampled[of] / (bare[0][of] + bare[1][of])
            kept.setdefault((tool.name, rate), []).append(ratio)

    def print(self, what: str) -> None:
        rows = [
            [
                f"{name} at {rate:,} Hz",
                str(bound(self.walls[name, rate])),
                str(bound(self.cpus[name, rate])),
                str(len(self.walls[name, rate])),
            ]
            for name, rate in sorted(self.walls)
        ]
        head = [f"slowdown of {what}", "wall", "processor time", "pairs"]
        print(table(head, rows) + "\n", flush=True)


def slowdown(args: argparse.Namespace, python: str, tools: dict[str, str]) -> None:
    programs = [Program(name, python, places.PROGRAM) for name in PROGRAMS]
    loops = {program: program.loops_for(args.seconds) for program in programs}
    pairs = Pairs(args, tools, RATES)
    for pair in range(args.pairs):
        print(f"bench: pair {pair + 1} of {args.pairs}", file=sys.stderr)
        for program in programs:
            pairs.measure(program, loops[program], pair)
    pairs.print("six programs")


Measured = tuple[float, float]  # wall and processor time of a step


class Steps:
    """A program of bench/torch_programs.py, and how fast its steps are."""

    def __init__(self, name: str, folder: str) -> None:
        self.file = Path(folder, name)
        self.file.write_bytes(bytes(16))
        script = str(places.PROJECT / "bench" / "torch_programs.py")
        # With the Python that torch is installed for.
        self.process = subprocess.Popen([sys.executable, script, name, self.file])
        while self.look()[0] < 20:
            time.sleep(0.1)

    def look(self) -> tuple[int, int, int]:
        """Steps, when the last one ended, processor time of the thread that does it."""
        count, when = struct.unpack("=QQ", self.file.read_bytes())
        schedule = Path(f"/proc/{self.process.pid}/schedstat").read_text("ascii")
        return count, when, int(schedule.split()[0])

    def look_at_next(self) -> tuple[int, int, int]:
        """The same, once the step that runs has ended."""
        count, *_ = self.look()
        while (seen := self.look())[0] == count:
            time.sleep(0.001)
        return seen

    def measure(self, seconds: float) -> Measured:
        before = self.look()
        time.sleep(seconds)
        after = self.look()
        steps = after[0] - before[0]
        return (after[1] - before[1]) / steps, (after[2] - before[2]) / steps

    def measure_in_turns(
        self, sampler: subprocess.Popen[bytes], seconds: float
    ) -> tuple[Measured, Measured]:
        """With SAMPLER, and while it is stopped, for SECONDS each."""
        sums = {True: [0, 0, 0], False: [0, 0, 0]}
        for turn in range(2 * max(1, round(seconds / TURN_SECONDS))):
            is_sampled = turn % 4 in (0, 3)
            sampler.send_signal(signal.SIGCONT if is_sampled else signal.SIGSTOP)
            before = self.look_at_next()
            time.sleep(TURN_SECONDS)
            after = self.look_at_next()
            for at in range(3):
                sums[is_sampled][at] += after[at] - before[at]
        sampler.send_signal(signal.SIGCONT)
        (steps, wall, cpu), (bare_steps, bare_wall, bare_cpu) = sums[True], sums[False]
        bare = bare_wall / bare_steps, bare_cpu / bare_steps
        return (wall / steps, cpu / steps), bare


def stop(sampler: subprocess.Popen[bytes]) -> None:
    sampler.send_signal(signal.SIGINT)
    sampler.communicate()


def one_after_another(
    steps: Steps, words: list[str], seconds: float
) -> tuple[Measured, tuple[Measured, Measured]]:
    """A step while WORDS run, and before and after."""
    before = steps.measure(seconds)
    sampler = subprocess.Popen(words, stdout=PIPE, stderr=PIPE)
    sampled = steps.measure(seconds)
    stop(sampler)
    return sampled, (before, steps.measure(seconds))


def in_turns(
    steps: Steps, words: list[str], seconds: float
) -> tuple[Measured, tuple[Measured, Measured]]:
    """A step while WORDS run, and in between, when they are stopped."""
    sampler = subprocess.Popen(words, stdout=PIPE, stderr=PIPE)
    sampled, bare = steps.measure_in_turns(sampler, seconds)
    stop(sampler)
    return sampled, (bare, bare)


def torch(args: argparse.Namespace, tools: dict[str, str]) -> None:
    """One process for all: it is sampled for a while, and then not, and so on.

    Ours takes turns of a quarter second; others, stopped, would leave it stopped.
    """
    with tempfile.TemporaryDirectory(prefix="lapwing-bench-") as folder:
        for name in TORCH_PROGRAMS:
            steps = Steps(name, folder)
            pairs = Pairs(args, tools, TORCH_RATES)
            for pair in range(args.pairs):
                print(f"bench: {name}: pair {pair + 1}", file=sys.stderr)
                for tool, rate in pairs.modes(pair):
                    pid, out = steps.process.pid, f"{folder}/out"
                    words = tool.attach(
                        tools[tool.name], rate, out, pid, args.seconds + 60
                    )
                    way = in_turns if tool.name == "lapwing" else one_after_another
                    sampled, bare = way(steps, words, args.seconds)
                    pairs.add(tool, rate, sampled, bare)
                    shutil.rmtree(f"{out}.lap", ignore_errors=True)
            steps.process.kill()
            steps.process.wait()  # or its processor time would be another's
            pairs.print(f"{name}, while attached")


# ---- cost ----------------------------------------------------------------------------


def samples_of(tool: str, out: str, said: str, program: str) -> int:
    """How many samples TOOL took."""
    if tool == "py-spy":
        match = re.search(r"Samples: (\d+)", said)
        return int(match[1]) if match else 0
    if tool == "austin":
        lines = Path(out).read_text(encoding="utf-8", errors="replace").splitlines()
        return sum(line.startswith("P") for line in lines)
    words = [program, "report", out + ".lap", "summary"]
    text = subprocess.run(words, capture_output=True, text=True).stdout
    match = re.search(r"([\d,]+) samples", text)
    return int(match[1].replace(",", "")) if match else 0


class Watch:
    """A program of depth 30 and a tool that samples it, in turns with other such pairs:
    both stand still in between.
    """

    def __init__(self, tool: Tool, program: str, python: str, folder: Path) -> None:
        self.tool, self.program, self.out = tool, program, str(folder / "out")
        self.target = subprocess.Popen([python, DEEP], stdout=subprocess.PIPE)
        assert self.target.stdout and self.target.stdout.readline()
        self.target.send_signal(signal.SIGSTOP)
        # For longer than all of them take together: it is told when to end.
        words = tool.attach(program, COST_RATE, self.out, self.target.pid, 600)
        self.command = Command(words, folder, 60)
        self.is_told_to_end = False

    def take_turn(self) -> None:
        if self.command.is_over:
            return
        self.target.send_signal(signal.SIGCONT)
        if self.command.seconds >= COST_SECONDS and not self.is_told_to_end:
            self.command.interrupt()
            self.is_told_to_end = True
        self.command.take_turn(TURN_SECONDS)
        self.target.send_signal(signal.SIGSTOP)

    def row(self) -> list[str]:
        said = self.command.output_path.read_text(errors="replace")
        said += self.command.errors_path.read_text(errors="replace")
        count = samples_of(self.tool.name, self.out, said, self.program)
        each = f"{1e6 * self.command.cpu_seconds / count:.1f} us" if count else "-"
        return [self.tool.name, f"{count:,}", each]

    def stop(self) -> None:
        self.target.kill()
        self.command.kill()
        self.target.communicate()


def cost(args: argparse.Namespace, python: str, tools: dict[str, str]) -> None:
    """Processor time of the tool alone, its start too: that is a small part of 10 s."""
    watches: list[Watch] = []
    with tempfile.TemporaryDirectory(prefix="lapwing-bench-") as folder:
        try:
            for tool in TOOLS:
                if tool.name in tools:
                    place = Path(folder, tool.name)
                    place.mkdir()
                    watches.append(Watch(tool, tools[tool.name], python, place))
            while not all(watch.command.is_over for watch in watches):
                for watch in watches:
                    watch.take_turn()
            rows = [watch.row() for watch in watches]
        finally:
            for watch in watches:
                watch.stop()
    head = [f"recorder at {COST_RATE:,} Hz, depth 30", "samples"]
    print(table([*head, "processor time a sample"], rows) + "\n", flush=True)


# ---- reads, sustained ----------------------------------------------------------------


def drive(driver: str, python: str, rate: int, seconds: int, *before: str) -> str:
    """What the sampler by itself printed of a program of depth 30."""
    with subprocess.Popen([python, DEEP], stdout=subprocess.PIPE) as target:
        assert target.stdout and target.stdout.readline()
        time.sleep(0.2)
        words = [*before, driver, str(target.pid), str(rate), str(seconds)]
        done = subprocess.run(words, capture_output=True, text=True)
        target.kill()
    if done.returncode != 0:
        sys.exit(f"bench: {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def reads(args: argparse.Namespace) -> None:
    rows = []
    minors = "3.9 3.10 3.11 3.12 3.13 3.14 3.15".split()
    for minor, python in places.pythons(minors).items():
        with tempfile.NamedTemporaryFile("r", prefix="lapwing-bench-") as file:
            strace = ["strace", "-f", "-c", "-o", file.name]
            out = drive(args.driver, str(python), 500, 4, *strace)
            counted = file.read()
        samples = json.loads(out.splitlines()[0])["samples"]
        # % time, seconds, usecs/call, calls, [errors,] name
        lines = [line.split() for line in counted.splitlines()[2:]]
        each = {
            words[-1]: int(words[3]) / samples
            for words in lines
            if len(words) > 4 and words[3].isdigit()
        }
        vm, state = each.get("process_vm_readv", 0), each.get("pread64", 0)
        rows.append([minor, f"{samples:,}", f"{vm:.3f}", f"{state:.3f}"])
    head = ["calls a sample, by strace -c", "samples", "process_vm_readv", "pread64"]
    print(table(head, rows) + "\n", flush=True)


def sustained(args: argparse.Namespace, python: str) -> None:
    """A core that others take away is not idle: what came due in such a time, by the
    sampler's own look at the clock while it waits, is shown apart.
    """
    rows, shares = [], []
    for turn in range(1, SUSTAINED_ROUNDS + 1):
        said = json.loads(drive(args.driver, python, 20_000, 10).splitlines()[0])
        due = said["taken"] + said["missed"]
        together = said["late"] + said["missed"]
        shares.append((together - said["interrupted"]) / (due - said["interrupted"]))
        row = [
            str(turn),
            f"{due:,}",
            f"{100 * said['late'] / due:.2f} %",
            f"{100 * said['missed'] / due:.2f} %",
            f"{100 * together / due:.2f} %",
            f"{100 * said['interrupted'] / due:.2f} %",
            f"{100 * shares[-1]:.2f} %",
            f"{1e6 * said['cpu_seconds'] / said['samples']:.1f} us",
        ]
        rows.append(row)
    middle = statistics.median(shares)
    word = "PASS" if middle < SUSTAINED_SHARE else "FAIL"
    rows.append(["median", *[""] * 5, f"{100 * middle:.2f} % {word}", ""])
    head = ["20,000 Hz, depth 30", "due", "late", "missed", "together"]
    head += ["the core was taken away", "on an idle core", "processor time a sample"]
    print(table(head, rows) + "\n", flush=True)


def record_programs(
    lapwing: str, python: str, out: Path, *options: str
) -> tuple[int, int, int]:
    """Samples, bytes on disk and the recorder's largest memory, of four programs."""
    env = {**os.environ, "PYPERFORMANCE_DIR": str(places.benchmarks())}
    programs = [
        subprocess.Popen(
            [python, str(places.PROGRAM), name, "1000000"], env=env, stdout=PIPE
        )
        for name in HOUR_PROGRAMS
    ]
    time.sleep(1)  # they import
    words = [lapwing, "attach", "-q", *options]
    words += ["--duration", f"{HOUR_MEASURED_SECONDS}s"]
    words += ["-o", f"{out}.lap", *[str(program.pid) for program in programs]]
    recorder = subprocess.Popen(words)
    _, status, used = os.wait4(recorder.pid, 0)
    recorder.returncode = os.waitstatus_to_exitcode(status)
    for program in programs:
        program.kill()
        program.communicate()
    files = [file for file in Path(f"{out}.lap").rglob("*") if file.is_file()]
    size = sum(file.stat().st_size for file in files)
    return samples_of("lapwing", str(out), "", lapwing), size, used.ru_maxrss << 10


def hour(python: str, lapwing: str) -> None:
    """What samples take is known from many of them in a minute, what the counters of
    the system take, which come by the clock, from a minute with few samples.
    """
    with tempfile.TemporaryDirectory(prefix="lapwing-bench-") as folder:
        fast = ["--rate", str(HOUR_FAST_RATE), "--no-system"]
        samples, size, memory = record_programs(
            lapwing, python, Path(folder, "fast"), *fast
        )
        slow = ["--rate", "1"]
        few, rest, _ = record_programs(lapwing, python, Path(folder, "slow"), *slow)
    wanted = len(HOUR_PROGRAMS) * HOUR_RATE * HOUR_SECONDS
    a_sample = size / samples
    in_all = (
        a_sample * wanted
        + (rest - a_sample * few) * HOUR_SECONDS / HOUR_MEASURED_SECONDS
    )
    megabytes = in_all / 1e6, memory / 2**20
    limits = HOUR_MEGABYTES, HOUR_RECORDER_MEGABYTES
    words = [
        "PASS" if is_ < limit else "FAIL"
        for is_, limit in zip(megabytes, limits, strict=True)
    ]
    head = [f"four processes, {HOUR_MEASURED_SECONDS} s", "samples", "bytes a sample"]
    head += [f"an hour at {HOUR_RATE} Hz", "memory of the recorder"]
    row = ["", f"{samples:,}", f"{a_sample:.1f}"]
    row += [f"{is_:.1f} MB {word}" for is_, word in zip(megabytes, words, strict=True)]
    print(table(head, [row]) + "\n", flush=True)


def main() -> None:
    args = parse_args()
    base = places.pythons([args.python])
    if args.python not in base:
        sys.exit(f"bench: no CPython {args.python} here")
    lapwing = places.lapwing(args.lapwing)
    environment = peers.prepare(args.python, base[args.python], lapwing)
    tools = {}
    for name, program in (
        ("lapwing", lapwing),
        ("py-spy", environment.python.parent / "py-spy"),
        ("austin", environment.python.parent / "austin"),
    ):
        if name not in args.tools.split(","):
            continue
        if program and program.exists():
            tools[name] = str(program)
        else:
            print(f"- missing: {name}")
    python = str(base[args.python])
    print(f"- load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores\n")
    if "slowdown" in args.questions:
        slowdown(args, python, tools)
    if "torch" in args.questions:
        torch(args, tools)
    if "cost" in args.questions:
        cost(args, python, tools)
    if "reads" in args.questions:
        reads(args)
    if "sustained" in args.questions:
        sustained(args, python)
    if "hour" in args.questions and "lapwing" in tools:
        hour(python, tools["lapwing"])


if __name__ == "__main__":
    main()
