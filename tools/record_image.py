#!/usr/bin/env python3
"""Make tests/unit/images anew: the memory of tests/programs/recorded.py in every Python
of this machine, as far as the sampler reads it, and the stacks as that Python saw them.

    .venv/bin/python tools/record_image.py BUILD

BUILD is a folder where meson has built `record_image`. The program is stopped all the
while, so an image is of one moment. Its lines are what tests/unit/image.h reads:

    thread TID N        a thread with N frames, from the root; each is a line
    frame NAME FIRST_LINE LINE
    empty N             threads that have a state and no frames
    pid, base ...       as tools/record_image.c prints them
"""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = ROOT / "tests" / "programs" / "recorded.py"
IMAGES = ROOT / "tests" / "unit" / "images"
EMPTY_STATES = 1
# So that an image does not hold where the project lies.
START = f"exec(compile(open({str(PROGRAM)!r}).read(), {PROGRAM.name!r}, 'exec'))"


def pythons() -> dict[str, str]:
    """The path of one CPython of each minor version that is sampled."""
    tool = [ROOT / "tools" / "pythons.sh", "--all", "--first", "--local"]
    rows = (
        line.split() for line in subprocess.check_output(tool, text=True).split("\n")
    )
    found = {row[0].rpartition(".")[0]: row[1] for row in rows if row}
    return {minor: path for minor, path in found.items() if minor not in ("2.7", "3.8")}


def expected(stacks: dict[str, list[tuple[str, int, int]]]) -> str:
    lines = []
    for tid, frames in stacks.items():
        lines.append(f"thread {tid} {len(frames)}")
        lines += [f"frame {name} {first} {line}" for name, first, line in frames]
    return "\n".join([*lines, f"empty {EMPTY_STATES}", ""])


def wait_for_read(pid: int) -> None:
    """Until the process has slept for a while: it is where it said it would be."""
    asleep = 0
    while asleep < 20:
        time.sleep(0.01)
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        asleep = asleep + 1 if state == "S" else 0


def record(tool: Path, python: str) -> bytes:
    """An image of the program in PYTHON."""
    words = [python, "-S", "-E", "-c", START]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout
        try:
            text = expected(json.loads(program.stdout.readline()))
            wait_for_read(program.pid)
            program.send_signal(signal.SIGSTOP)
            os.waitpid(program.pid, os.WUNTRACED)
            text += subprocess.check_output([tool, str(program.pid)], text=True)
        finally:
            program.kill()
    return text.encode()


def main() -> None:
    tool = Path(sys.argv[1]) / "record_image"
    IMAGES.mkdir(exist_ok=True)
    for minor, python in pythons().items():
        path = IMAGES / f"{minor}.gz"
        path.write_bytes(gzip.compress(record(tool, python), 9, mtime=0))
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
