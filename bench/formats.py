"""How fast large files of other tools are read and written, and by speedscope itself.

The files are made by many_stacks.py. Lapwing's speed is megabytes for each second its
whole command is on a processor: it has one thread, and others use this machine.
Writing is timed less what reading the same file takes. speedscope's importer is timed
by speedscope itself, in Chromium (its npm package is the web page, with nothing for
node): reading alone, no view drawn; it is compared by the clock.
"""

from __future__ import annotations

import gzip
import re
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import places
from goals import READ_MB_S, WRITE_MB_S, Goal
from reading import BENCH, Reading, children_cpu, run

SPEEDSCOPE = places.PROJECT.joinpath(
    ".venv", "node", "node_modules", "speedscope", "dist", "release", "index.html"
)
IMPORT_SECONDS = 300  # for one file; 100 MB took 12


@dataclass(frozen=True)
class Source:
    """A file to read."""

    kind: str  # of many_stacks.py
    suffix: str
    what: str
    speedscope: bool  # opens it, too


SOURCES = (
    Source("folded", ".txt", "collapsed stacks, each once", True),
    Source("austin", ".austin", "collapsed stacks, one a sample", False),
    Source("sampled", ".json", "speedscope's samples", True),
    Source("evented", ".json", "speedscope's events", True),
)

# (from, to): the formats that hold stacks or a timeline. The others are as large as the
# number of functions.
EXPORTS = (
    ("folded", "collapsed"),
    ("folded", "pprof"),
    ("folded", "speedscope"),
    ("evented", "speedscope"),
    ("evented", "chrome"),
    ("evented", "perfetto"),
    ("evented", "json"),
)


def timed(command: list[str]) -> tuple[float, float]:
    """Seconds of one command: on a processor, and by the clock."""
    before = children_cpu()
    clock, _ = run(command)
    return children_cpu() - before, clock


class Importer:
    """speedscope in Chromium. Its absence is a sentence, not a failure."""

    def __init__(self) -> None:
        self.missing = ""
        try:
            from playwright.sync_api import sync_playwright
        except ImportError:
            self.missing = "playwright is not installed; make test installs it"
            return
        browser = shutil.which("chromium")
        if browser is None or not SPEEDSCOPE.exists():
            self.missing = "Chromium or speedscope is missing; make test installs them"
            return
        self.playwright = sync_playwright().start()
        self.browser = self.playwright.chromium.launch(
            executable_path=browser, args=["--no-sandbox"]
        )

    def seconds(self, path: Path) -> float:
        """What speedscope says that importing PATH took."""
        page = self.browser.new_page()
        page.goto(f"file://{SPEEDSCOPE}")
        with page.expect_console_message(
            lambda message: message.text.startswith("import: "),
            timeout=IMPORT_SECONDS * 1000,
        ) as said:
            page.locator("input[type=file]").set_input_files(path)
        page.close()
        match = re.fullmatch(r"import: ([\d.]+) (ms|s)", said.value.text)
        if match is None:
            raise ValueError(f"speedscope says {said.value.text!r}")
        return float(match[1]) / (1000 if match[2] == "ms" else 1)

    def close(self) -> None:
        """End the browser."""
        if not self.missing:
            self.browser.close()
            self.playwright.stop()


def plain_bytes(path: Path) -> int:
    """How much was written, unpacked."""
    if path.read_bytes()[:2] != b"\x1f\x8b":
        return path.stat().st_size
    with gzip.open(path) as file:
        return sum(len(block) for block in iter(lambda: file.read(1 << 20), b""))


def make_files(folder: Path, megabytes: float, notes: list[str]) -> dict[str, Path]:
    """A file of each kind."""
    files = {}
    for source in SOURCES:
        path = folder / f"{source.kind}{source.suffix}"
        print(f"bench: making {megabytes:.0f} MB of {source.what}", file=sys.stderr)
        words = [str(BENCH / "many_stacks.py"), source.kind, str(path)]
        _, said = run([sys.executable, *words, str(megabytes)])
        size = path.stat().st_size / 1e6
        notes.append(f"{source.what}: {size:.1f} MB, {said.strip()}")
        files[source.kind] = path
    return files


def measure_formats(
    lapwing: Path | None, megabytes: float, rounds: int, import_rounds: int
) -> Reading:
    """Everything, in turns: each round reads each file and writes each format once."""
    result = Reading()
    if lapwing is None:
        result.notes.append("not measured: formats: lapwing is missing")
        return result
    importer = Importer()
    if importer.missing:
        result.notes.append(f"not measured: speedscope's importer: {importer.missing}")
    sizes: dict[str, int] = {}

    def note(name: str, seconds: float) -> None:
        result.seconds.setdefault(name, []).append(seconds)

    with tempfile.TemporaryDirectory(prefix="lapwing-bench-") as name:
        folder = Path(name)
        files = make_files(folder, megabytes, result.notes)
        for number in range(rounds):
            print(f"bench: formats, round {number + 1} of {rounds}", file=sys.stderr)
            for source in SOURCES:
                path = files[source.kind]
                sizes[source.kind] = path.stat().st_size
                words = [str(lapwing), "report", "functions", str(path)]
                cpu, clock = timed(words)
                note(f"report functions, {source.what}", cpu)
                note(f"report functions, {source.what}, by the clock", clock)
                if (
                    source.speedscope
                    and number < import_rounds
                    and not importer.missing
                ):
                    note(f"speedscope, {source.what}", importer.seconds(path))
            for kind, form in EXPORTS:
                out = folder / f"out.{form}"
                words = [str(lapwing), "export", str(files[kind]), "--to", form]
                note(f"{kind} to {form}", timed([*words, "-o", str(out)])[0])
                sizes[f"{kind} to {form}"] = plain_bytes(out)
                out.unlink()
    importer.close()
    result.goals = format_goals(result, sizes)
    return result


def format_goals(result: Reading, sizes: dict[str, int]) -> list[Goal]:
    """Reading, beside speedscope's, and writing."""
    goals = []
    reading = {}
    for source in SOURCES:
        ours = result.typical(f"report functions, {source.what}")
        reading[source.kind] = ours
        speed = sizes[source.kind] / 1e6 / ours
        goals.append(
            Goal(
                f"report functions: {source.what}",
                f"{speed:.0f} MB/s",
                f"at least {READ_MB_S}",
                speed >= READ_MB_S,
            )
        )
        theirs = f"speedscope, {source.what}"
        if theirs in result.seconds:
            seconds = result.typical(theirs)
            clock = result.typical(f"report functions, {source.what}, by the clock")
            goals.append(
                Goal(
                    f"the same by speedscope's importer ({seconds:.1f} s), "
                    "times as long",
                    f"{seconds / clock:.0f}",
                    "",
                    True,
                )
            )
    for kind, form in EXPORTS:
        name = f"{kind} to {form}"
        megabytes = sizes[name] / 1e6
        alone = max(result.typical(name) - reading[kind], 1e-6)
        speed = megabytes / alone
        goals.append(
            Goal(
                f"writing {form}, {megabytes:.0f} MB from the {kind} file",
                f"{speed:.0f} MB/s",
                f"at least {WRITE_MB_S}",
                speed >= WRITE_MB_S,
            )
        )
    return goals
