"""Samples tell the truth: shares are those of programs that know them, and no stack is
one that never was.

By default some 20,000 samples a program, with bounds that a test may cross by chance
once in a million; LAPWING_LONG=1 takes 100,000 and narrower ones.
"""

from __future__ import annotations

import importlib.util
import math
from collections import Counter
from typing import Any

import pytest
import sampling
from pythons import interpreter
from sampling import IS_LONG, PROGRAMS, VERSIONS

RATE = 10_000
SAMPLES = 100_000 if IS_LONG else 20_000
Z = 4.0 if IS_LONG else 5.0
# Functions that are alike to the byte still differ by where their code happens to lie.
ALIKE = 0.01
LEAST = 0.9  # of the samples are in what is looked at
# Impossible stacks at most, as shares.
TORN = {"calls": 0.0001, "generators": 0.005}


def shares(counts: Counter[str]) -> dict[str, float]:
    total = sum(counts.values())
    return {name: count / total for name, count in counts.items()}


def check_shares(
    found: Counter[str], truth: dict[str, float], n: float, more: float = 0
) -> None:
    """FOUND in N samples against TRUTH, whose own variance is MORE of p (1 - p)."""
    got = shares(found)
    assert set(got) == set(truth)
    print(f"n {n:.0f}, sd of the machine {math.sqrt(more):.4f}")
    for name, p in truth.items():
        bound = Z * math.sqrt(p * (1 - p) * (1 / n + more))
        print(f"  {name}: {got[name]:.4f} of {p:.4f}, may differ {bound:.4f}")
        assert abs(got[name] - p) <= bound, (name, got[name], p, bound)


def chance(truth: dict[str, Any]) -> float:
    """How much the machine adds to the variance, of p (1 - p).

    While others had the processor, some function was "in" it, and the sampler may
    have had to wait as well: which one is chance. Nothing on a quiet machine.
    """
    return 2 * float(truth["off"]) ** 2 / max(1, int(truth["switches"]))


def of_leaves(sampled: sampling.Sampled, prefix: str, weighted: bool) -> Counter[str]:
    found: Counter[str] = Counter()
    for frame, count in sampled.leaves(weighted).items():
        if len(frame) > 2 and frame[2].startswith(prefix):
            found[frame[2]] += count
    return found


@pytest.mark.parametrize("version", VERSIONS)
def test_functions_that_watch_the_clock(version: str) -> None:
    sampled, truth = sampling.sample_shares(
        interpreter(version), "clock", RATE, SAMPLES
    )
    counts = of_leaves(sampled, "burn_", weighted=False)
    assert counts.total() > LEAST * sampled.samples
    check_shares(counts, truth["shares"], counts.total(), chance(truth))
    weights = of_leaves(sampled, "burn_", weighted=True)
    n = sampled.counts["effective_samples"]
    check_shares(weights, truth["shares"], n, chance(truth))


@pytest.mark.parametrize("version", VERSIONS)
def test_functions_that_count(version: str) -> None:
    sampled, truth = sampling.sample_shares(
        interpreter(version), "counting", RATE, SAMPLES
    )
    counts = of_leaves(sampled, "count_", weighted=False)
    assert counts.total() > LEAST * sampled.samples
    more = chance(truth) + (ALIKE / Z) ** 2
    check_shares(counts, truth["shares"], counts.total(), more)


@pytest.mark.parametrize("version", VERSIONS)
def test_lines_that_watch_the_clock(version: str) -> None:
    sampled, truth = sampling.sample_shares(
        interpreter(version), "lines", RATE, SAMPLES
    )
    counts: Counter[str] = Counter()
    for frame, count in sampled.leaves(weighted=False).items():
        if frame[2:3] == ("by_lines",) and frame[3] in truth["shares"]:
            counts[frame[3]] += count
    assert counts.total() > LEAST * sampled.samples
    check_shares(counts, truth["shares"], counts.total(), chance(truth))


def legal_edges(kind: str) -> set[tuple[str, str]]:
    spec = importlib.util.spec_from_file_location("tearing", PROGRAMS / "tearing.py")
    assert spec and spec.loader
    tearing = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tearing)
    edges: set[tuple[str, str]] = tearing.legal(kind)
    return edges


def is_possible(frames: list[tuple[str, ...]], legal: set[tuple[str, str]]) -> bool:
    names = [frame[2] for frame in frames if len(frame) > 2]
    families = [(a, b) for a, b in zip(names, names[1:], strict=False) if b[1:2] == "_"]
    return all(pair in legal for pair in families)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", TORN)
def test_a_stack_that_never_holds_still(kind: str, version: str) -> None:
    legal = legal_edges(kind)
    words = [interpreter(version), str(PROGRAMS / "tearing.py"), kind]
    with sampling.running(words) as program:
        sampled = sampling.sample(program.pid, RATE, 300, SAMPLES)
    counts = sampled.counts
    assert counts["stacks"] + counts["unreadable"] == counts["samples"]
    assert sum(row[0] for row in sampled.rows) == counts["stacks"]
    assert counts["unreadable"] + counts["dropped"] == 0
    bad = {
        ";".join(frame[-1] for frame in frames): count
        for count, _weight, _tid, _state, frames in sampled.rows
        if not is_possible(frames, legal)
    }
    moving = 100 * counts["moving"] / counts["stacks"]
    print(
        f"{version} {kind}: {counts['stacks']} stacks, {moving:.1f} % moving, bad {bad}"
    )
    # One is forgiven where the bound allows for none: it is a share of more than these.
    assert sum(bad.values()) <= max(1, TORN[kind] * counts["stacks"]), bad
