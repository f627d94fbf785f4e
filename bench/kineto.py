"""How fast torch's traces are read and analysed, beside torch_tb_profiler and HTA.

The traces are the plugin's own sample (resnet50, a V100) as it is, in gzip, and
repeated along time by the tools beside it: where they are absent this is said and left
out. A peer's time is its reading and analysing alone, as kineto_peer.py says; Lapwing's
is that of its whole command, start and printing too. Both are seconds on a processor:
all have one thread at work, and others use this machine. Peak memory is that of the
process, as the kernel counts it (ru_maxrss), mapped pages too; what takes less than
this program, about 17 MB, counts as that.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter

import peers
import places
from goals import Goal
from reading import BENCH, Reading

TRACES = Path(
    os.environ.get("LAPWING_TRACES") or places.PROJECT.parent / "shared" / "traces"
)
SAMPLE = "kineto_tb_plugin/samples/resnet50_num_workers_0/*.pt.trace.json.gz"
VIEWS = ("overview", "ops", "kernels", "idle", "overlap")
PEERS = {"tb": "torch_tb_profiler 0.4.3", "hta": "HTA 0.5.0"}
# What each of them shows too, of all that it works out in one go.
SHARED = {
    "tb": ("overview", "ops", "kernels"),
    "hta": ("overview", "kernels", "idle", "overlap"),
}

SPEEDUP = 45  # over each peer
MEMORY_SHARE = 1 / 8  # of each peer's peak
PLAIN_MB_S = 500  # of JSON, to the printed overview
GZIP_MB_S = 250  # of the JSON in it
LARGE = 12  # times the sample: 362 MB
HUGE = 67  # times: 2 GB


@dataclass(frozen=True)
class Run:
    """What one command took."""

    clock: float
    cpu: float
    peak_mb: float


def run(command: list[str], folder: Path) -> tuple[Run, str]:
    """Run a command: what it took in all, and what it printed."""
    out, err = folder / "out", folder / "err"
    start = perf_counter()
    with out.open("wb") as stdout, err.open("wb") as stderr:
        process = subprocess.Popen(command, stdout=stdout, stderr=stderr)
        _, status, used = os.wait4(process.pid, 0)
    clock = perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        said = err.read_text(errors="replace").strip().splitlines()
        raise subprocess.SubprocessError(
            f"{' '.join(command)}: exit code {process.returncode}: "
            f"{said[-1] if said else 'nothing was said'}"
        )
    took = Run(clock, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024 / 1e6)
    return took, out.read_text(errors="replace")


def sample() -> Path | None:
    """The trace that all of it is made of."""
    found = sorted(TRACES.glob(SAMPLE))
    return found[0] if found else None


def repeated(source: Path, times: int) -> Path:
    """The sample TIMES one behind the other, kept in the cache."""
    folder = places.cache() / "traces"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"resnet50_x{times}.json"
    if path.exists():
        return path
    print(f"bench: making {path}", file=sys.stderr)
    made = path.with_suffix(".part")
    if times == 1:
        with gzip.open(source) as packed, made.open("wb") as plain:
            shutil.copyfileobj(packed, plain)
    else:
        tool = str(TRACES / "tools" / "replicate.py")
        words = [sys.executable, tool, str(source), str(times), str(made)]
        subprocess.run(words, check=True)
    made.rename(path)
    return path


def packed(path: Path) -> Path:
    """The same in gzip."""
    target = path.with_suffix(".json.gz")
    if not target.exists():
        made = target.with_suffix(".part")
        with path.open("rb") as plain, gzip.open(made, "wb", compresslevel=6) as out:
            shutil.copyfileobj(plain, out, 1 << 20)
        made.rename(target)
    return target


@dataclass(frozen=True)
class File:
    """A trace to read."""

    what: str
    path: Path
    json_mb: float  # unpacked
    is_packed: bool


def make_files(source: Path) -> list[File]:
    """The sample and its repetition, plain and packed."""
    files = []
    for times in (1, LARGE):
        path = repeated(source, times)
        size = path.stat().st_size / 1e6
        files.append(File(f"{size:.0f} MB", path, size, False))
        files.append(File(f"{size:.0f} MB in gzip", packed(path), size, True))
    return files


class Measuring:
    """All runs, by the file and what was run on it."""

    def __init__(self, lapwing: Path, folder: Path) -> None:
        self.lapwing = lapwing
        self.folder = folder
        self.runs: dict[tuple[str, str], list[Run]] = {}
        self.failures: dict[str, str] = {}

    def keep(self, file: File, name: str, run: Run) -> None:
        self.runs.setdefault((file.what, name), []).append(run)

    def view(self, file: File, view: str) -> None:
        command = [str(self.lapwing), "report", str(file.path), view]
        self.keep(file, view, run(command, self.folder)[0])

    def peer(self, file: File, peer: str, python: Path) -> None:
        key = f"{PEERS[peer]}, {file.what}"
        if key in self.failures:
            return
        words = [str(BENCH / "kineto_peer.py"), peer, str(file.path)]
        try:
            whole, said = run([str(python), *words], self.folder)
        except subprocess.SubprocessError as error:
            self.failures[key] = str(error)
            return
        alone = json.loads(said.splitlines()[-1])
        self.keep(file, peer, Run(alone["clock"], alone["cpu"], whole.peak_mb))
        self.keep(file, f"{peer} command", whole)

    def typical(self, file: File, name: str) -> Run | None:
        """Medians; None: it was not run."""
        runs = self.runs.get((file.what, name))
        if not runs:
            return None
        return Run(
            median(one.clock for one in runs),
            median(one.cpu for one in runs),
            median(one.peak_mb for one in runs),
        )


def goal(what: str, value: float, digits: int, target: float, most: bool) -> Goal:
    """A number that is to be at most or at least TARGET."""
    word = "at most" if most else "at least"
    passed = value <= target if most else value >= target
    wanted = f"{word} {target:.{digits if most else 0}f}"
    return Goal(what, f"{value:.{digits}f}", wanted, passed)


def peer_goals(measuring: Measuring, file: File, peer: str) -> list[Goal]:
    """Of one file: Lapwing beside a peer.

    The hard way: Lapwing's whole command with the peer's reading and analysing alone.
    The overview also command with command, as they are typed, and by its memory.
    """
    goals = []
    name = PEERS[peer]
    alone = measuring.typical(file, peer)
    command = measuring.typical(file, f"{peer} command")
    for view in SHARED[peer]:
        ours = measuring.typical(file, view)
        what = f"report {view}, {file.what}: times as fast as {name}"
        if ours is None or alone is None or command is None:
            goals.append(Goal(what, "-", f"at least {SPEEDUP}", None))
            continue
        goals.append(goal(what, alone.cpu / ours.cpu, 1, SPEEDUP, most=False))
        if view == "overview":
            times = command.cpu / ours.cpu
            goals.append(
                goal(f"{what}, command with command", times, 1, SPEEDUP, most=False)
            )
            part = ours.peak_mb / alone.peak_mb
            what = f"report {view}, {file.what}: share of {name}'s peak memory"
            goals.append(goal(what, part, 3, MEMORY_SHARE, most=True))
    return goals


def file_goals(measuring: Measuring, file: File) -> list[Goal]:
    """Of one file: beside each peer, and the speed of the overview."""
    goals = [g for peer in PEERS for g in peer_goals(measuring, file, peer)]
    ours = measuring.typical(file, "overview")
    if ours is not None:
        target = GZIP_MB_S if file.is_packed else PLAIN_MB_S
        what = f"report overview, {file.what}: MB of JSON a second"
        goals.append(goal(what, file.json_mb / ours.cpu, 0, target, most=False))
    return goals


def measure_huge(
    measuring: Measuring, source: Path, result: Reading, large: float | None
) -> None:
    """What 2 GB take: by the clock, and at most of memory."""
    path = repeated(source, HUGE)
    size = path.stat().st_size / 1e6
    command = [str(measuring.lapwing), "report", str(path), "overview"]
    took, _ = run(command, measuring.folder)
    result.seconds["lapwing report overview, 2 GB"] = [took.clock]
    share = took.peak_mb / size
    result.notes.append(
        f"{size:.0f} MB of JSON: report overview took {took.clock:.2f} s by the clock, "
        f"{took.cpu:.2f} s on a processor ({size / took.cpu:.0f} MB/s), at most "
        f"{took.peak_mb:.0f} MB of memory"
    )
    # Bounded by what is in it: for each byte as much as a trace a sixth as long.
    wanted = large * 1.25 if large else 1.0
    what = f"report overview, {size:.0f} MB: bytes of memory for each byte of JSON"
    result.goals.append(goal(what, share, 3, wanted, most=True))


def measure_kineto(
    lapwing: Path | None, rounds: int, peer_rounds: int, huge: bool
) -> Reading:
    """Everything, in turns: each round runs each view on each file, and the peers."""
    result = Reading()
    source = sample()
    if lapwing is None or source is None:
        why = "lapwing is missing" if lapwing is None else f"no traces in {TRACES}"
        result.notes.append(f"not measured: torch's traces: {why}")
        return result
    files = make_files(source)
    environment = peers.prepare_for_traces()
    for peer, reason in environment.missing.items():
        result.notes.append(f"not measured: {peer}: {reason}")
    folder = places.cache() / "traces"
    measuring = Measuring(lapwing, folder)
    order = random.Random(0)
    for number in range(rounds):
        print(f"bench: traces, round {number + 1} of {rounds}", file=sys.stderr)
        for file in files:
            names = [*VIEWS, *(PEERS if number < peer_rounds else ())]
            order.shuffle(names)
            for name in names:
                if name in PEERS:
                    measuring.peer(file, name, environment.python)
                else:
                    measuring.view(file, name)
    for file in files:
        for name in (*VIEWS, *PEERS, *(f"{peer} command" for peer in PEERS)):
            typical = measuring.typical(file, name)
            if typical is None:
                continue
            peer, _, whole = name.partition(" ")
            what = f"lapwing report {name}"
            if peer in PEERS:
                what = PEERS[peer] + (", whole command" if whole else "")
            result.seconds[f"{what}, {file.what}"] = [
                one.clock for one in measuring.runs[file.what, name]
            ]
            result.notes.append(
                f"{what}, {file.what}: {typical.cpu:.3f} s on a processor "
                f"({file.json_mb / typical.cpu:.0f} MB/s), {typical.clock:.3f} s by "
                f"the clock, at most {typical.peak_mb:.0f} MB of memory"
            )
        result.goals += file_goals(measuring, file)
    result.notes += [f"{peer}: {why}" for peer, why in measuring.failures.items()]
    if huge:
        large = measuring.typical(files[2], "overview")
        measure_huge(
            measuring,
            source,
            result,
            large.peak_mb / files[2].json_mb if large else None,
        )
    return result
