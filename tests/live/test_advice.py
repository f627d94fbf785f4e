"""What `lapwing report advice` says of a real training, beside what the change does.

Each cause is in tests/programs/advice/training.py, with its cure. On a machine whose
processors are all in use the advice is another one (no worker helps then), and says so.
With LAPWING_LONG=1 the change is made: what it gains must lie within what was promised,
which only holds where nobody else uses the machine. The same is true of causes that
are a wait for something slow: next to busy processors it is not slow.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from recording import PROGRAMS

IS_LONG = bool(os.environ.get("LAPWING_LONG"))
only_long = pytest.mark.skipif(not IS_LONG, reason="LAPWING_LONG is not set")
PROGRAM = PROGRAMS / "advice" / "training.py"
# A process is not as fast as the next in all that it does, so there are several.
PROCESSES, ROUNDS = 3, 5  # of each way in each, in turn


def line_of(text: str, program: Path = PROGRAM) -> int:
    """Of the line of the program that holds TEXT."""
    lines = program.read_text().splitlines()
    return 1 + next(i for i, line in enumerate(lines) if text in line)


def advise(lapwing: str, folder: Path, *words: str) -> dict[str, Any]:
    """The findings of a run of the program, by their rules."""
    run = [lapwing, "run", "-q", "-o", "x.lap", sys.executable, str(PROGRAM), *words]
    return findings(lapwing, folder, run)


def findings(lapwing: str, folder: Path, run: list[str]) -> dict[str, Any]:
    """Those of what RUN, a command, leaves as x.lap."""
    subprocess.run(run, cwd=folder, check=True, capture_output=True, timeout=300)
    report = [lapwing, "report", "x.lap", "advice", "--json"]
    found = json.loads(subprocess.check_output(report, cwd=folder, text=True))
    for row in found["rows"]:
        assert set(row) == {
            "rule",
            "change",
            "evidence",
            "file",
            "line",
            "gain_low",
            "gain_high",
        }
        if row["gain_low"] is not None:
            assert -1 < row["gain_low"] <= row["gain_high"] <= 1
    return {row["rule"]: row for row in found["rows"]}


def advised(lapwing: str, folder: Path, rule: str, cause: str) -> Any:
    """What RULE finds of the program. Where the gain will be checked, the middle one of
    three runs: who else uses the machine slows one kind of work more than another."""
    found = []
    for number in range(3 if IS_LONG else 1):
        (folder / str(number)).mkdir()
        found.append(advise(lapwing, folder / str(number), cause)[rule])
    return sorted(found, key=lambda row: row["gain_low"] or 0)[len(found) // 2]


def check_gain(found: dict[str, Any], cause: str, *words: str) -> None:
    """The cure saves as much as was said: in half of the rounds more, in half less."""
    command = [sys.executable, str(PROGRAM), cause, "--both", str(ROUNDS), *words]
    gains = []
    for _ in range(PROCESSES):
        seconds = json.loads(subprocess.check_output(command, text=True, timeout=600))
        pairs = zip(seconds["ill"], seconds["cured"], strict=True)
        gains += [1 - cured / ill for ill, cured in pairs]
    gain = statistics.median(gains)
    assert found["gain_low"] <= gain <= found["gain_high"], (found, gains)


def test_a_training_without_a_cause_gets_no_advice(
    lapwing: str, tmp_path: Path
) -> None:
    assert advise(lapwing, tmp_path, "nothing").keys() <= {"ops"}


def test_a_logger_is_named_with_the_line_that_calls_it(
    lapwing: str, tmp_path: Path
) -> None:
    found = advised(lapwing, tmp_path, "logging", "logging")
    assert "log_metrics" in found["change"]
    assert found["file"].endswith("training.py")
    assert found["line"] == line_of("the line that logs")
    assert found["gain_low"] > 0.1
    if IS_LONG:
        check_gain(found, "logging")


def test_who_makes_its_batches_itself_gets_a_worker_if_there_is_a_processor(
    lapwing: str, tmp_path: Path
) -> None:
    found = advised(lapwing, tmp_path, "data", "data")
    assert "num_workers=0" in found["evidence"]
    assert f"augment (training.py:{line_of('# smoothing')})" in found["evidence"]
    if found["gain_low"] is None:
        assert "no free CPUs" in found["change"]
    else:
        assert found["line"] == line_of("# the loop")
    if IS_LONG:
        workers = re.search(r"num_workers=(\d+)", found["change"])
        assert workers, found
        check_gain(found, "data", "--workers", workers[1])


@only_long
def test_too_few_workers_are_told_how_many_would_do(
    lapwing: str, tmp_path: Path
) -> None:
    found = advised(lapwing, tmp_path, "data", "storage")
    assert "one of 1 worker makes" in found["evidence"]
    assert "__getitem__" in found["evidence"]
    workers = re.search(r"num_workers=(\d+)", found["change"])
    assert workers, found
    assert 2 < int(workers[1]) < 9
    check_gain(found, "storage", "--workers", workers[1])


def test_workers_that_are_started_anew_each_epoch_are_to_be_kept(
    lapwing: str, tmp_path: Path
) -> None:
    found = advised(lapwing, tmp_path, "workers", "anew")
    assert "persistent_workers=True" in found["change"]
    assert "in 7 epochs after the first" in found["evidence"]
    assert found["line"] == line_of("# the loop")
    if IS_LONG:
        check_gain(found, "anew")


@only_long
def test_a_worker_that_is_slower_than_the_others_is_named(
    lapwing: str, tmp_path: Path
) -> None:
    found = advised(lapwing, tmp_path, "balance", "uneven")
    assert "the slowest paces all" in found["change"]
    check_gain(found, "uneven")


@contextmanager
def memory_group(limit: int) -> Iterator[Path]:
    """A control group with so much memory, below our own."""
    text = Path("/proc/self/cgroup").read_text()
    old, new = (re.search(rf"^\d+:{of}:/?(.*)$", text, re.M) for of in ("memory", ""))
    root = Path("/sys/fs/cgroup", "memory" if old else "")
    own = old or new
    group = root / (own[1] if own else "") / f"lapwing-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    try:
        name = "memory.limit_in_bytes" if old else "memory.max"
        if not (group / name).exists():
            pytest.skip("control groups of this one have no limit of memory")
        (group / name).write_text(str(limit))
        yield group
    finally:
        group.rmdir()


@pytest.mark.parametrize("share", [0.88, 0.6])
def test_memory_that_is_nearly_full_is_told_with_who_has_it(
    lapwing: str, tmp_path: Path, share: float
) -> None:
    """The program holds SHARE of what there is; torch and Lapwing have some, too."""
    limit = 1 << 30
    program = PROGRAM.with_name("hungry.py")
    with memory_group(limit) as group:
        enter = f'echo $$ >"{group}/cgroup.procs" && exec "$@"'
        words = [sys.executable, str(program), str(int(share * limit))]
        run = ["sh", "-c", enter, "sh", lapwing, "run", "-q", "-o", "x.lap", *words]
        found = findings(lapwing, tmp_path, run)
    assert ("ram" in found) == (share > 0.8)
    if "ram" in found:
        assert "Take less memory" in found["ram"]["change"]
        says = r"the container had (0\.9\d GB|9\d\d MB) of its 1\.00 GB"
        assert re.search(says, found["ram"]["evidence"])
        assert found["ram"]["line"] == line_of("# the loop", program)


@only_long
@pytest.mark.parametrize("cause", ["logging", "data", "storage", "anew", "uneven"])
def test_who_has_made_the_change_is_not_told_again(
    lapwing: str, tmp_path: Path, cause: str
) -> None:
    rules = {"storage": "data", "anew": "workers", "uneven": "balance"}
    rule = rules.get(cause, cause)
    found = advised(lapwing, tmp_path, rule, cause)
    workers = re.search(r"num_workers=(\d+)", found["change"])
    words = ["--workers", workers[1]] if workers else []
    assert rule not in advise(lapwing, tmp_path, cause, "--cured", *words)
