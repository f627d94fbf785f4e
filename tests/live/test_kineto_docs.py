"""The commands in docs/kineto.md work on the real traces that they are shown on, and
print the same words: numbers are for test_kineto_*.py.

`python tests/live/test_kineto_docs.py PROGRAM` writes what they print into the file.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import termios
from pathlib import Path

from traces import trace

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "kineto.md"
COLUMNS = 116

# What the document calls them: resnet50 with and without workers that load data, a
# language model with stacks, modules and memory, eight ranks.
FILES = {
    "slow.json.gz": "kineto_tb_plugin/samples/resnet50_num_workers_0/*",
    "fast.json.gz": "kineto_tb_plugin/samples/resnet50_num_workers_4/*",
    "qwen.json.gz": "tracelens/traces/h100/*",
    "cpu.json": "torch213_cpu/all.pt.trace.json",
    "job": "param/dlrm_kineto",
}


def link_files(folder: Path) -> None:
    for name, pattern in FILES.items():
        (folder / name).symlink_to(trace(pattern))


def printed(lapwing: str, command: str, folder: Path) -> str:
    """What COMMAND prints on a terminal of COLUMNS."""
    words = shlex.split(command.partition("  #")[0])
    assert words[0] == "lapwing"
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
    done = subprocess.Popen(
        [lapwing, *words[1:]],
        cwd=folder,
        stdout=theirs,
        stderr=subprocess.PIPE,
        env={**os.environ, "NO_COLOR": "1", "TERM": "dumb"},
    )
    os.close(theirs)
    parts = []
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # Linux says so at the end of a terminal
            break
        if not part:
            break
        parts.append(part)
    os.close(ours)
    assert done.stderr is not None
    said = done.stderr.read().decode()
    assert done.wait() == 0, (command, said)
    text = b"".join(parts).decode().replace("\r\n", "\n")
    return re.sub(r"\x1b\[[\d;]*m", "", text)


def blocks(text: str) -> list[tuple[str, str]]:
    """(command, output) of each `$ ...` in the console blocks."""
    found = []
    for block in re.findall(r"```console\n(.*?)```", text, re.S):
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, _, output = part.partition("\n")
            found.append((command, output))
    return found


def words(text: str) -> set[str]:
    return set(re.findall(r"(?<![\w./:-])[a-z_]{4,}(?![\w./:-])", text))


def test_every_command_prints_what_the_document_shows(
    lapwing: str, tmp_path: Path
) -> None:
    link_files(tmp_path)
    shown = blocks(DOCUMENT.read_text())
    assert len(shown) > 12
    for command, output in shown:
        missing = words(output) - words(printed(lapwing, command, tmp_path))
        assert not missing, command


def update(lapwing: str, folder: Path) -> None:
    """Put what each command prints behind it; "  # first N lines" cuts it."""
    text = DOCUMENT.read_text()
    for command, output in blocks(text):
        lines = printed(lapwing, command, folder).rstrip().splitlines()
        match = re.search(r"# the first (\d+) lines", command)
        new = "\n".join(
            line.rstrip() for line in lines[: int(match[1]) if match else None]
        )
        text = text.replace(f"$ {command}\n{output}", f"$ {command}\n{new}\n", 1)
    DOCUMENT.write_text(text)


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        link_files(Path(name))
        update(str(Path(sys.argv[1]).resolve()), Path(name))
