"""docs/format.md says what is in a recording: a reader made from it alone (lap_reader)
finds what the program's own reports show."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import lap_reader
import pytest

PROGRAM = """\
import threading

def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)

def work():
    return [fib(k) for k in range(12)]

threads = [threading.Thread(target=work, name=f"w{i}") for i in range(3)]
for thread in threads:
    thread.start()
fib(16)
for thread in threads:
    thread.join()
"""


@pytest.fixture(scope="module")
def run(lapwing: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("format")
    (folder / "program.py").write_text(PROGRAM)
    command = [lapwing, "run", "--calls=timeline", "-o", "x.lap", "program.py"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return folder / "x.lap"


def report(lapwing: str, run: Path, view: str) -> list[dict[str, Any]]:
    command = [lapwing, "report", str(run), view, "--json", "--limit", "0"]
    out = subprocess.check_output(command)
    rows: list[dict[str, Any]] = json.loads(out)["rows"]
    return rows


def check_functions(lapwing: str, run: Path) -> None:
    """Calls are equal, times too but for the last digits of adding them up."""
    (process,) = lap_reader.read_run(run)[1].values()
    ours = {
        (f"{file}:{line}", name): cost
        for (file, line, name), cost in process.functions().items()
    }
    theirs = {
        (row["place"], row["function"]): (row["calls"], row["self_ns"])
        for row in report(lapwing, run, "functions")
    }
    assert ours.keys() == theirs.keys()
    for key, (calls, self_ns) in ours.items():
        assert theirs[key][0] == calls
        assert theirs[key][1] == pytest.approx(self_ns, abs=2)


def test_the_documented_format_gives_the_reported_functions(
    lapwing: str, run: Path
) -> None:
    check_functions(lapwing, run)


def test_a_packed_run_is_a_tar_archive_with_the_same_in_it(
    lapwing: str, run: Path, tmp_path: Path
) -> None:
    packed = tmp_path / "x.lapz"
    command = [lapwing, "pack", str(run), "-o", str(packed)]
    subprocess.run(command, check=True, capture_output=True)
    check_functions(lapwing, packed)
    shutil.unpack_archive(packed, tmp_path / "out", "tar")
    (folder,) = (tmp_path / "out").iterdir()
    assert lap_reader.files(folder) == lap_reader.files(run)


def test_a_timeline_holds_each_call_once(run: Path) -> None:
    info, processes = lap_reader.read_run(run)
    (process,) = processes.values()
    assert info["format"] == "lapwing run"
    assert info["state"] == "finished"
    assert info["exit_code"] == 0
    assert int(process.meta["pid"]) > 0
    names = [process.strings[row[2]] for row in process.threads.values()]
    assert "MainThread" in names
    assert len(names) == 4
    assert not process.losses

    def name_of(stack: int) -> str:
        return process.strings[process.frames[process.stacks[stack][1]][0]]

    spans = [name_of(span[3]) for span in process.spans]
    calls = sum(n for key, n in process.calls.items() if name_of(key[1]) == "fib")
    assert spans.count("fib") == calls > 3000
