"""The system collector: what a known program uses is what the report says."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from recording import run, view

MB = 1 << 20

PROGRAM = """
import json, os, resource, sys, time

begin = time.monotonic()
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
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({
    "user": used.ru_utime, "system": used.ru_stime, "wall": time.monotonic() - begin
}))
"""
# The first look at a process is up to an interval after it began, and the last up to
# one before its end, while the means are over the time between the two.
EDGES_S = 0.4


@dataclass
class Recorded:
    """The rows of `report system`, under "SCOPE COUNTER", a process being "process";
    and what the program knew of itself, in seconds."""

    counters: dict[str, dict[str, float]]
    own: dict[str, float]

    def amount(self, counter: str) -> float:
        """The mean of a rate, for as long as the program ran."""
        return self.counters[f"process {counter}"]["mean"] * self.own["wall"]

    def is_close(self, found: float, truth: float) -> bool:
        return abs(found / truth - 1) < EDGES_S / self.own["wall"]


@pytest.fixture(scope="module")
def recorded(
    lapwing: str, python: str, tmp_path_factory: pytest.TempPathFactory
) -> Recorded:
    folder = tmp_path_factory.mktemp("system")
    (folder / "program.py").write_text(PROGRAM)
    words = [python, "program.py", str(folder / "written")]
    done = run(lapwing, ["-q", "--", *words], folder)
    assert done.returncode == 0, done.stderr
    rows = view(lapwing, folder, "system")["rows"]
    counters = {
        ("process" if row["process"].isdigit() else row["process"])
        + " "
        + row["counter"]: row
        for row in rows
    }
    return Recorded(counters, json.loads(done.stdout))


@pytest.fixture(scope="module")
def counters(recorded: Recorded) -> dict[str, dict[str, float]]:
    return recorded.counters


def test_memory_is_what_the_program_holds(
    counters: dict[str, dict[str, float]],
) -> None:
    rss, pss = counters["process rss [bytes]"], counters["process pss [bytes]"]
    assert 300 * MB < rss["peak"] < 400 * MB
    assert 290 * MB < pss["peak"] <= rss["peak"]
    assert rss["mean"] <= rss["peak"]


def test_cpu_is_what_the_program_burns(recorded: Recorded) -> None:
    counters, own = recorded.counters, recorded.own
    burnt = own["user"] + own["system"]
    assert recorded.is_close(recorded.amount("cpu [%]") / 100, burnt)
    # One thread, on one CPU; ticks of the kernel's clock are 10 ms.
    assert counters["process cpu [%]"]["mean"] < counters["process cpu [%]"]["peak"]
    assert counters["process cpu [%]"]["peak"] < 110
    parts = [recorded.amount(f"cpu {part} [%]") / 100 for part in ("user", "system")]
    assert sum(parts) == pytest.approx(recorded.amount("cpu [%]") / 100)
    assert abs(parts[0] - own["user"]) < 0.1 * burnt + 0.02
    machine = counters["machine cpu [%]"]
    cpus = counters["machine cpus"]["last"]
    # The machine was busy with at least this program.
    assert machine["mean"] > 0.8 * counters["process cpu [%]"]["mean"]
    assert machine["mean"] < 100 * cpus * 1.05


def test_what_is_written_is_counted(recorded: Recorded) -> None:
    """50 MB, within one interval or a few."""
    assert recorded.is_close(recorded.amount("write [bytes/s]"), 50 * MB)
    written = recorded.counters["process write [bytes/s]"]
    # None of it in the 0.6 seconds at the end.
    assert written["last"] < MB
    assert written["peak"] > 1.5 * written["mean"]


def test_the_machine_is_told(counters: dict[str, dict[str, float]]) -> None:
    memory = counters["machine memory [bytes]"]["last"]
    assert 300 * MB < counters["machine memory used [bytes]"]["peak"] < memory


def test_without_it_nothing_is_recorded(
    lapwing: str, python: str, tmp_path: Path
) -> None:
    words = ["--no-system", "--", python, "-c", "import time; time.sleep(0.4)"]
    assert run(lapwing, ["-q", *words], tmp_path).returncode == 0
    assert view(lapwing, tmp_path, "system")["rows"] == []
