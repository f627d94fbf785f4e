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
NAME, LINE = 2, 3  # parts of a frame
LEAST = 0.8  # of the samples are in what is looked at
# Functions of some ten nanoseconds: to look at them disturbs them. So much of a share
# it may differ, besides chance, from that of a program stopped to be looked at.
DISTURBED = 0.15
# Samples enough for chance to hide no function: one of 3 % may differ by 2 points.
ENOUGH = 3_000
# Of the samples of such a program at most so many do not know who is on top.
UNKNOWN = 0.1
KNOW_CALLS = [v for v in VERSIONS if v not in ("3.9", "3.10")]
# Impossible stacks at most, as shares.
TORN = {"calls": 0.0001, "generators": 0.005}


def shares(counts: Counter[str]) -> dict[str, float]:
    total = sum(counts.values())
    return {name: count / total for name, count in counts.items()}


def check_shares(
    found: Counter[str], truth: dict[str, float], n: float, more: float
) -> None:
    """FOUND in N samples against TRUTH, whose own variance is MORE of p (1 - p)."""
    got = shares(found)
    assert set(got) == set(truth)
    print(f"n {n:.0f}, sd of the machine {math.sqrt(more):.4f}")
    for name, p in truth.items():
        bound = Z * math.sqrt(p * (1 - p) * (1 / n + more))
        print(f"  {name}: {got[name]:.4f} of {p:.4f}, may differ {bound:.4f}")
        assert abs(got[name] - p) <= bound, (name, got[name], p, bound)


def check_leaves(sampled: sampling.Sampled, truth: dict[str, Any], place: int) -> None:
    """Self time by part PLACE of the frames on top, where TRUTH knows it.

    By weight, as every report has it: samples that could not be taken are in the
    weight of the next. By count too, if nearly all were taken.
    """
    weights: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for count, weight_ns, _tid, _state, frames in sampled.rows:
        leaf = frames[-1]
        if len(leaf) > place and leaf[place] in truth["shares"]:
            weights[leaf[place]] += weight_ns
            counts[leaf[place]] += count
    assert counts.total() > LEAST * sampled.samples
    # While others had the processor, some function was "in" it, and the sampler may
    # have had to wait as well: which one is chance. Nothing on a quiet machine.
    more = truth["chance"]
    n = sampled.counts["effective_samples"]
    check_shares(weights, truth["shares"], n, more)
    if sampled.counts["missed"] < 0.01 * sampled.counts["taken"]:
        check_shares(counts, truth["shares"], counts.total(), more)


@pytest.mark.parametrize("version", VERSIONS)
def test_functions_that_watch_the_clock(version: str) -> None:
    python = interpreter(version)
    sampled, truth = sampling.sample_shares(python, "clock", RATE, SAMPLES)
    check_leaves(sampled, truth, NAME)


@pytest.mark.parametrize("version", VERSIONS)
def test_functions_that_count(version: str) -> None:
    python = interpreter(version)
    sampled, truth = sampling.sample_shares(python, "counting", RATE, SAMPLES)
    check_leaves(sampled, truth, NAME)


@pytest.mark.parametrize("version", VERSIONS)
def test_lines_that_watch_the_clock(version: str) -> None:
    python = interpreter(version)
    sampled, truth = sampling.sample_shares(python, "lines", RATE, SAMPLES)
    check_leaves(sampled, truth, LINE)


def sample_fast(version: str, *options: str) -> tuple[dict[str, float], float]:
    """The shares of the functions of a program that only has fast ones, and in how many
    samples: asked for again until there are enough, since those that a busy machine
    leaves out count for nothing."""
    words = [interpreter(version), str(PROGRAMS / "fast_calls.py")]
    found: Counter[str] = Counter()
    n = 0.0
    with sampling.running(words) as program:
        for _ in range(5):
            sampled = sampling.sample(program.pid, RATE, 300, SAMPLES, *options)
            for frame, ns in sampled.leaves(weighted=True).items():
                found[frame[-1]] += ns
            n += sampled.counts["effective_samples"]
            if n >= ENOUGH:
                break
    return shares(found), n


@pytest.mark.parametrize("version", KNOW_CALLS)
def test_functions_that_are_gone_at_the_second_look(version: str) -> None:
    truth, stopped = sample_fast(version, "--pause")
    found, running = sample_fast(version)
    assert found.pop("(moving)", 0) < UNKNOWN
    functions = {"turn", "mix", "scale", "add", "get"}
    for name in functions | set(truth) | set(found):
        p, got = truth.get(name, 0), found.get(name, 0)
        bound = Z * math.sqrt(p * (1 - p) * (1 / stopped + 1 / running))
        bound += DISTURBED * p + 1 / min(stopped, running)
        print(f"{version} {name}: {got:.4f} of {p:.4f}, may differ {bound:.4f}")
        assert abs(got - p) <= bound, (name, got, p, bound)
    assert functions <= set(truth) & set(found)


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


def sample_tearing(
    version: str, kind: str, samples: int, *options: str
) -> tuple[sampling.Sampled, dict[str, int]]:
    """tests/programs/tearing.py KIND, sampled, and the stacks that never were."""
    legal = legal_edges(kind)
    words = [interpreter(version), str(PROGRAMS / "tearing.py"), kind]
    with sampling.running(words) as program:
        sampled = sampling.sample(program.pid, RATE, 300, samples, *options)
    counts = sampled.counts
    assert counts["stacks"] + counts["unreadable"] == counts["samples"]
    assert sum(row[0] for row in sampled.rows) == counts["stacks"]
    assert counts["dropped"] == 0
    bad = {
        ";".join(frame[-1] for frame in frames): count
        for count, _weight, _tid, _state, frames in sampled.rows
        if not is_possible(frames, legal)
    }
    moving = 100 * counts["moving"] / counts["stacks"]
    print(f"{version} {kind}: {counts['stacks']} stacks, {moving:.1f} % moving: {bad}")
    return sampled, bad


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", TORN)
def test_a_stack_that_never_holds_still(kind: str, version: str) -> None:
    sampled, bad = sample_tearing(version, kind, SAMPLES)
    assert sampled.counts["unreadable"] == 0
    # One is forgiven where the bound allows for none: it is a share of more than these.
    assert sum(bad.values()) <= max(1, TORN[kind] * sampled.counts["stacks"]), bad


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", TORN)
def test_a_stack_that_is_held_still(kind: str, version: str) -> None:
    """With --pause there is nothing to tear.

    What could not be stopped in time, because it waited for a processor, may still be
    said to be moving.
    """
    _, bad = sample_tearing(version, kind, SAMPLES if IS_LONG else 5_000, "--pause")
    assert not bad
