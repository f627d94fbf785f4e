"""The system collector: what a known program uses is what the report says."""

from __future__ import annotations

from pathlib import Path

import pytest
from recording import run, view

MB = 1 << 20

PROGRAM = """
import os, sys, time

MB = 1 << 20
held = bytearray(os.urandom(MB)) * 300
end = time.process_time() + 1.0
while time.process_time() < end:
    sum(range(1000))
with open(sys.argv[1], "wb") as file:
    for _ in range(50):
        file.write(held[:MB])
    file.flush()
    os.fsync(file.fileno())
time.sleep(0.6)
"""


@pytest.fixture(scope="module")
def counters(
    lapwing: str, python: str, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, float]]:
    """The rows of `report system`, under "SCOPE COUNTER"; a process is "process"."""
    folder = tmp_path_factory.mktemp("system")
    (folder / "program.py").write_text(PROGRAM)
    words = [python, "program.py", str(folder / "written")]
    done = run(lapwing, ["-q", "--", *words], folder)
    assert done.returncode == 0, done.stderr
    rows = view(lapwing, folder, "system")["rows"]
    return {
        ("process" if row["process"].isdigit() else row["process"])
        + " "
        + row["counter"]: row
        for row in rows
    }


def test_memory_is_what_the_program_holds(
    counters: dict[str, dict[str, float]],
) -> None:
    rss, pss = counters["process rss [bytes]"], counters["process pss [bytes]"]
    assert 300 * MB < rss["peak"] < 400 * MB
    assert 290 * MB < pss["peak"] <= rss["peak"]
    assert rss["mean"] <= rss["peak"]


def test_cpu_is_what_the_program_burns(counters: dict[str, dict[str, float]]) -> None:
    cpu = counters["process cpu [%]"]
    assert 5 < cpu["mean"] < 105
    assert cpu["mean"] < cpu["peak"] < 110
    parts = [counters[f"process cpu {part} [%]"]["mean"] for part in ("user", "system")]
    assert sum(parts) == pytest.approx(cpu["mean"])
    machine = counters["machine cpu [%]"]
    # Ticks of the machine's clock are 10 ms of each CPU.
    cpus = counters["machine cpus"]["last"]
    assert 0 < machine["mean"] < 100 * cpus * 1.1


def test_what_is_written_is_counted(counters: dict[str, dict[str, float]]) -> None:
    """50 MB within a run of a few seconds; the mean is over all of it."""
    written = counters["process write [bytes/s]"]
    assert 2 * MB < written["mean"] < written["peak"]
    assert written["peak"] > 10 * MB


def test_the_machine_is_told(counters: dict[str, dict[str, float]]) -> None:
    memory = counters["machine memory [bytes]"]["last"]
    assert 300 * MB < counters["machine memory used [bytes]"]["peak"] < memory


def test_without_it_nothing_is_recorded(
    lapwing: str, python: str, tmp_path: Path
) -> None:
    words = ["--no-system", "--", python, "-c", "import time; time.sleep(0.4)"]
    assert run(lapwing, ["-q", *words], tmp_path).returncode == 0
    assert view(lapwing, tmp_path, "system")["rows"] == []
