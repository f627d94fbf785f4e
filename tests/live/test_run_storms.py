"""Many processes, and few descriptors: each is recorded, or counted as missing."""

from __future__ import annotations

import os
import re
import resource
import subprocess
from pathlib import Path

import pytest
from recording import PROGRAMS, calls, run_info, view


def run_storm(
    lapwing: str,
    python: str,
    folder: Path,
    options: list[str],
    kind: str,
    children: int,
    limit: int,
) -> None:
    def lower() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))

    words = [lapwing, "run", *options, "--no-summary", "-o", "x.lap", "--", python]
    done = subprocess.run(
        [*words, str(PROGRAMS / "storm.py"), kind, str(children)],
        cwd=folder,
        # The recorder's socket goes where nobody else clears up.
        env={**os.environ, "TMPDIR": str(folder), "XDG_RUNTIME_DIR": str(folder)},
        capture_output=True,
        text=True,
        preexec_fn=lower,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{children}\n"


def missing(lapwing: str, folder: Path) -> int:
    """How many processes the run says that it does not have."""
    count = sum(
        loss["count"]
        for loss in run_info(folder).get("losses") or []
        if loss["unit"] == "processes" and "sampled" not in loss["cause"]
    )
    words = [lapwing, "report", str(folder / "x.lap")]
    shown = subprocess.run(words, capture_output=True, text=True, timeout=60).stdout
    told = r"missing: ([\d,]+) processes [^(]*\(forked"
    for found in re.findall(told, shown):
        count += int(found.replace(",", ""))
    return count


@pytest.mark.parametrize("limit", [1024, 256, 64])
@pytest.mark.parametrize("options", [["--calls"], []], ids=["calls", "samples"])
def test_several_hundred_processes_at_once_are_recorded_or_counted(
    lapwing: str, python: str, tmp_path: Path, options: list[str], limit: int
) -> None:
    run_storm(lapwing, python, tmp_path, options, "alive", 400, limit)
    recorded = len(view(lapwing, tmp_path, "processes")["rows"])
    lost = missing(lapwing, tmp_path)
    assert recorded + lost == 401
    assert lost == 0 or limit < 256
    if options:
        assert calls(lapwing, tmp_path)["leaf"] == recorded - 1


def test_a_thousand_short_processes_in_turn_are_all_recorded(
    lapwing: str, python: str, tmp_path: Path
) -> None:
    run_storm(lapwing, python, tmp_path, ["--calls"], "in-turn", 1000, 256)
    assert missing(lapwing, tmp_path) == 0
    assert calls(lapwing, tmp_path)["leaf"] == 1000
    assert len(view(lapwing, tmp_path, "processes")["rows"]) == 1001


def test_a_forked_childs_time_is_its_own(
    lapwing: str, python: str, tmp_path: Path
) -> None:
    run_storm(lapwing, python, tmp_path, ["--calls"], "in-turn", 100, 1024)
    rows = view(lapwing, tmp_path, "processes")["rows"]
    assert all(row["time_ns"] <= row["lived_ns"] for row in rows)


def test_forked_children_that_find_no_recorder_are_counted(
    lapwing: str, python: str, tmp_path: Path
) -> None:
    script = (
        "import glob, os\n"
        "folder, = glob.glob(os.environ['TMPDIR'] + '/lapwing-*')\n"
        "os.unlink(folder + '/agent')\n"
        "for _ in range(5):\n"
        "    if os.fork() == 0: os._exit(0)\n"
        "    os.wait()\n"
    )
    words = [lapwing, "run", "--calls", "--no-summary", "-o", "x.lap", "--"]
    where = {"TMPDIR": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)}
    subprocess.run(
        [*words, python, "-c", script],
        cwd=tmp_path,
        env={**os.environ, **where},
        check=True,
        capture_output=True,
        timeout=60,
    )
    assert len(view(lapwing, tmp_path, "processes")["rows"]) == 1
    assert missing(lapwing, tmp_path) == 5


@pytest.mark.parametrize("soft", [77, 1024])
def test_the_program_has_the_limit_of_descriptors_that_it_would_have(
    lapwing: str, python: str, tmp_path: Path, soft: int
) -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    script = (
        "import resource, subprocess, sys\n"
        "print(resource.getrlimit(resource.RLIMIT_NOFILE), flush=True)\n"
        "subprocess.run(['sh', '-c', 'ulimit -n'])\n"
    )
    done = subprocess.run(
        [lapwing, "run", "-q", "-o", "x.lap", "--", python, "-c", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard)),
        timeout=60,
    )
    assert done.stdout == f"({soft}, {hard})\n{soft}\n"
