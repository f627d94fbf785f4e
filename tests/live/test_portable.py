"""The program needs nothing of the machine but the C library.

Whoever installs the wheel has none of the libraries it was built with: they are linked
in, or loaded where they are. It is run here in a root folder that holds it, libc, libm
and their loader, and nothing else.
"""

from __future__ import annotations

import gzip
import os
import pty
import re
import select
import shutil
import subprocess
import time
from pathlib import Path

import lapwing as installed
import pytest

LIBC = re.compile(r"lib(c|m|dl|pthread|rt)\.so\.\d+|ld-linux.*\.so\.\d+")
FOLDED = "main;train;forward 30\nmain;train;backward 12\nmain;load 5\n"


def needed(path: Path) -> list[str]:
    """The shared libraries that a file names."""
    dynamic = subprocess.check_output(["readelf", "-d", path], text=True)
    return re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)


def test_the_program_and_the_agent_name_only_the_c_library(lapwing: str) -> None:
    libraries = list(Path(installed.__file__).parent.rglob("*.so"))
    assert libraries
    for path in [Path(lapwing), *libraries]:
        others = [name for name in needed(path) if not LIBC.fullmatch(name)]
        assert not others, path


@pytest.fixture(scope="module")
def root(lapwing: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root folder with the program, the C library and a profile in gzip."""
    folder = tmp_path_factory.mktemp("root")
    listed = subprocess.check_output(["ldd", lapwing], text=True)
    for text in re.findall(r"(/\S+) \(0x", listed):
        place = folder / text[1:]
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(text, place)
    shutil.copy(lapwing, folder / "lapwing")
    (folder / "x.folded").write_text(FOLDED)
    (folder / "x.folded.gz").write_bytes(gzip.compress(FOLDED.encode()))
    assert not list(folder.rglob("libisal*"))
    return folder


def inside(root: Path, *words: str) -> list[str]:
    """The command line that runs the program in ROOT."""
    as_root = [] if os.geteuid() == 0 else ["/usr/bin/unshare", "--map-root-user"]
    return [*as_root, "/usr/sbin/chroot", str(root), "/lapwing", *words]


def said(root: Path, *words: str) -> str:
    done = subprocess.run(
        inside(root, *words), capture_output=True, text=True, env={}, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_gzip_is_read_and_written_without_its_library(root: Path) -> None:
    plain = said(root, "report", "x.folded", "functions", "--csv")
    assert "forward" in plain
    assert said(root, "report", "x.folded.gz", "functions", "--csv") == plain
    said(root, "export", "x.folded.gz", "-o", "x.pb.gz")
    assert gzip.decompress((root / "x.pb.gz").read_bytes())
    back = said(root, "report", "x.pb.gz", "functions", "--csv")
    assert back.splitlines()[0] == plain.splitlines()[0]
    assert "forward" in back


def test_the_shell_edits_lines_where_no_terminal_is_known(root: Path) -> None:
    end, other = pty.openpty()
    shell = subprocess.Popen(
        inside(root, "shell", "x.folded.gz"),
        stdin=other,
        stdout=other,
        stderr=other,
        env={"TERM": "xterm"},
    )
    os.close(other)
    os.write(end, b"functions\nquit\n")
    printed = b""
    until = time.monotonic() + 30
    while time.monotonic() < until and select.select([end], [], [], 1)[0]:
        try:
            printed += os.read(end, 65536)
        except OSError:  # the other side is gone
            break
    assert shell.wait(30) == 0
    os.close(end)
    assert b"backward" in printed
