"""The sampler by itself (tests/programs/sample_driver.c) on a program, for tests.

LAPWING_SAMPLE_DRIVER names the driver; by default it is the one that `make` built.
LAPWING_LONG=1 takes as many samples as the project's targets are stated for.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pythons import ROOT, SAMPLED, WANTED

PROGRAMS = ROOT / "tests" / "programs"
# These take long: `make test` has them on one Python, `make matrix` on all.
VERSIONS = SAMPLED if WANTED else ["3.11"]
IS_LONG = bool(os.environ.get("LAPWING_LONG"))


def driver() -> Path:
    given = os.environ.get("LAPWING_SAMPLE_DRIVER")
    path = Path(given) if given else ROOT / "build" / "release" / "sample_driver"
    assert path.exists(), f"{path} is not there; run make"
    return path


@dataclass
class Sampled:
    """What the driver printed."""

    counts: dict[str, Any]
    # Count, ns, tid, state, frames: (file, first line, name[, line]) or (note,).
    rows: list[tuple[int, int, int, int, list[tuple[str, ...]]]] = field(
        default_factory=list
    )

    @property
    def samples(self) -> int:
        return int(self.counts["samples"])

    def leaves(self, weighted: bool) -> Counter[tuple[str, ...]]:
        """How often each frame was on top, or for how many ns."""
        found: Counter[tuple[str, ...]] = Counter()
        for count, weight_ns, _tid, _state, frames in self.rows:
            found[frames[-1]] += weight_ns if weighted else count
        return found


def parse_frame(text: str) -> tuple[str, ...]:
    return (text,) if text.startswith("(") else tuple(text.split(":"))


def parse(output: str) -> Sampled:
    head, *lines = output.splitlines()
    sampled = Sampled(json.loads(head))
    for line in lines:
        count, weight_ns, tid, state, stack = line.split("\t")
        frames = [parse_frame(frame) for frame in stack.split(";")]
        sampled.rows.append((int(count), int(weight_ns), int(tid), int(state), frames))
    return sampled


@contextmanager
def running(words: list[str], **options: Any) -> Iterator[subprocess.Popen[str]]:
    """A program that has said "ready"; killed at the end."""
    options.setdefault("stdin", subprocess.PIPE)
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, **options) as p:
        try:
            assert p.stdout and p.stdout.readline().startswith("ready")
            yield p
        finally:
            p.kill()


def start(pid: int, rate: float, seconds: float, samples: int, *options: str) -> Any:
    """The driver, which samples by now."""
    words = [str(driver()), *options, str(pid), str(rate), str(seconds), str(samples)]
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr
    said = process.stderr.readline()
    assert said == "sampling\n", said
    return process


def finish(process: subprocess.Popen[str], timeout: float = 600) -> Sampled:
    output, errors = process.communicate(timeout=timeout)
    assert process.returncode == 0, errors
    return parse(output)


def sample(
    pid: int, rate: float, seconds: float, samples: int, *options: str
) -> Sampled:
    return finish(start(pid, rate, seconds, samples, *options))


def sample_shares(
    python: str, kind: str, rate: float, samples: int
) -> tuple[Sampled, dict[str, Any]]:
    """tests/programs/shares.py KIND, sampled, and what it says of itself."""
    words = [python, str(PROGRAMS / "shares.py"), kind]
    with running(words) as program:
        process = start(program.pid, rate, 300, samples, "--lines")
        assert program.stdin and program.stdout
        program.stdin.write("go\n")
        program.stdin.flush()
        sampled = finish(process)
        program.send_signal(signal.SIGUSR1)
        truth = json.loads(program.stdout.readline())
    return sampled, truth
