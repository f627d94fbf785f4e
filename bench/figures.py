"""From timings to slowdowns, and from slowdowns to a ratio with its uncertainty.

A slowdown is a mode's time over that of the bare program in the same turns, the median
of all rounds; over programs it is their geometric mean. Overhead is slowdown - 1, and
the ratio is a mode's overhead over cProfile's. How sure it is comes from a bootstrap
over rounds: all that was run in one round stays together, since the machine's mood was
shared.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev
from typing import Literal

from measure import Results, Times

Part = Literal["measured", "whole", "cpu"]
RESAMPLES = 2000
FEWEST_ROUNDS = 3  # fewer say nothing about how they vary
NORMAL_95 = 1.645  # one side: the upper bound is what counts


@dataclass(frozen=True)
class Ratio:
    """A share of another mode's overhead, with a 95 % interval if it can be told."""

    value: float
    interval: tuple[float, float] | None


@dataclass(frozen=True)
class Bound:
    """A mean, and below which it is with 95 % certainty."""

    value: float
    upper: float

    def __str__(self) -> str:
        return f"{self.value:.3f} (< {self.upper:.3f})"


def bound(ratios: Sequence[float]) -> Bound:
    """Of the geometric mean of RATIOS."""
    logs = [math.log(ratio) for ratio in ratios]
    mean = fmean(logs)
    error = stdev(logs) / math.sqrt(len(logs)) if len(logs) > 1 else 0
    return Bound(math.exp(mean), math.exp(mean + NORMAL_95 * error))


def geometric_mean(values: Sequence[float]) -> float:
    """The mean of factors."""
    return math.exp(sum(math.log(value) for value in values) / len(values))


def pick(times: Times, part: Part) -> float:
    """The one of the three times that is asked for."""
    return {"measured": times.measured, "whole": times.whole, "cpu": times.cpu}[part]


class Figures:
    """Questions about one Python's results."""

    def __init__(self, results: Results, minor: str, part: Part) -> None:
        self.minor = minor
        self.part = part
        self.bare: dict[str, float] = {}  # seconds, by program
        self.slowdowns: dict[tuple[str, str], dict[int, float]] = {}  # by round
        for cell, timings in results.timings.items():
            if cell.minor != minor:
                continue
            self.slowdowns[cell.program, cell.mode] = {
                timing.round: pick(timing.times, part) / pick(timing.bare, part)
                for timing in timings
            }
            if cell.mode == "bare":
                seconds = [pick(timing.bare, part) for timing in timings]
                self.bare[cell.program] = median(seconds)

    def programs(self, *modes: str) -> list[str]:
        """Programs that were run under all of MODES."""
        names = dict.fromkeys(program for program, _ in self.slowdowns)
        return [
            name
            for name in names
            if all((name, mode) in self.slowdowns for mode in modes)
        ]

    def slowdown(
        self, program: str, mode: str, rounds: Counter[int] | None = None
    ) -> float:
        """How many times as long as bare; in ROUNDS only, each as often as it is
        there, if given.
        """
        slowdowns = self.slowdowns[program, mode]
        if rounds is None:
            return median(slowdowns.values())
        return median([slowdowns[r] for r in rounds.elements() if r in slowdowns])

    def mean_slowdown(
        self,
        mode: str,
        programs: Sequence[str] | None = None,
        rounds: Counter[int] | None = None,
    ) -> float | None:
        """Over PROGRAMS, or over all that were run under MODE."""
        chosen = self.programs(mode, "bare") if programs is None else programs
        if not chosen:
            return None
        return geometric_mean([self.slowdown(name, mode, rounds) for name in chosen])

    def share(
        self,
        mode: str,
        other: str,
        programs: Sequence[str],
        rounds: Counter[int] | None = None,
    ) -> float:
        """MODE's overhead over OTHER's."""
        ours = self.mean_slowdown(mode, programs, rounds)
        theirs = self.mean_slowdown(other, programs, rounds)
        assert ours is not None and theirs is not None
        return (ours - 1) / (theirs - 1)

    def ratio(self, mode: str, other: str) -> Ratio | None:
        """MODE's overhead over OTHER's, and how sure that is."""
        programs = self.programs(mode, other)
        if not programs:
            return None
        wanted = [self.slowdowns[p, m] for p in programs for m in (mode, other)]
        common = sorted(set.intersection(*[set(rounds) for rounds in wanted]))
        if not common:
            return None
        value = self.share(mode, other, programs, Counter(common))
        if len(common) < FEWEST_ROUNDS:
            return Ratio(value, None)
        draw = random.Random(0)
        shares = sorted(
            self.share(
                mode, other, programs, Counter(draw.choices(common, k=len(common)))
            )
            for _ in range(RESAMPLES)
        )
        return Ratio(
            value, (shares[int(0.025 * RESAMPLES)], shares[int(0.975 * RESAMPLES)])
        )
