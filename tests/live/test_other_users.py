"""Other users of the machine learn nothing and gain nothing: of sockets, folders and links
that they put where ours are looked for."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from other_users import (
    NOBODY,
    Listener,
    needs_root,
    open_to_all,
    wait_for,
)
from pythons import interpreter

FORKS = """
import os, sys, time
def go_on(name):
    while not os.path.exists(name):
        time.sleep(0.01)
    os.unlink(name)
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    open(name + ".done", "w").close()
open("ready", "w").close()
go_on("first")
go_on("second")
"""


def variable(pid: int, name: str) -> str:
    words = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
    return dict(word.partition("=")[::2] for word in words if "=" in word)[name]


class Orphan:
    """A program that forks when told to, and whose recorder was killed."""

    def __init__(self, lapwing: str, folder: Path, temporary: Path) -> None:
        self.folder = folder
        program = folder / "program.py"
        program.write_text(FORKS)
        environment = {**os.environ, "TMPDIR": str(temporary)}
        environment.pop("XDG_RUNTIME_DIR", None)
        recorder = subprocess.Popen(
            [lapwing, "run", "--quiet", sys.executable, program],
            cwd=folder,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_for((folder / "ready").exists)
        children = Path(f"/proc/{recorder.pid}/task/{recorder.pid}/children")
        self.pid = int(children.read_text().split()[0])
        config = variable(self.pid, "LAPWING_AGENT")
        self.socket = Path(config.split(",")[0].partition("=")[2])
        recorder.send_signal(signal.SIGKILL)
        recorder.wait()

    def fork(self, name: str) -> None:
        (self.folder / name).touch()
        wait_for((self.folder / f"{name}.done").exists)


@contextmanager
def orphan(lapwing: str, folder: Path) -> Iterator[Orphan]:
    with open_to_all() as temporary:
        program = Orphan(lapwing, folder, temporary)
        try:
            yield program
        finally:
            os.kill(program.pid, signal.SIGKILL)


@needs_root
def test_who_makes_a_dead_recorders_folder_again_is_sent_nothing(
    lapwing: str, tmp_path: Path
) -> None:
    with orphan(lapwing, tmp_path) as program:
        shutil.rmtree(program.socket.parent)
        listener = Listener(program.socket)
        program.fork("first")
        program.fork("second")
        assert listener.end() == []


@needs_root
def test_who_takes_the_socket_in_a_folder_of_ours_is_sent_nothing(
    lapwing: str, tmp_path: Path
) -> None:
    """The folder is as it should be, but not who listens there."""
    with orphan(lapwing, tmp_path) as program:
        program.socket.unlink()
        os.chown(program.socket.parent, NOBODY, NOBODY)
        listener = Listener(program.socket)
        os.chown(program.socket.parent, 0, 0)
        program.fork("first")
        assert listener.end() == []


def test_a_dead_recorders_address_is_never_tried_again(
    lapwing: str, tmp_path: Path
) -> None:
    with orphan(lapwing, tmp_path) as program:
        program.fork("first")
        program.socket.unlink()
        listener = Listener(program.socket, os.getuid())
        program.fork("second")
        assert listener.end() == []


def test_the_folder_of_a_killed_recorder_is_removed_by_the_next(
    lapwing: str, tmp_path: Path
) -> None:
    with orphan(lapwing, tmp_path) as program:
        temporary = program.socket.parent.parent
        assert program.socket.exists()
        kept = temporary / "lapwing-abcdef"  # without a socket: something else's
        kept.mkdir(0o700)
        environment = {**os.environ, "TMPDIR": str(temporary)}
        environment.pop("XDG_RUNTIME_DIR", None)
        show = "import os; print(sorted(os.listdir(os.environ['TMPDIR'])))"
        done = subprocess.run(
            [lapwing, "run", "--quiet", sys.executable, "-c", show],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        assert not program.socket.parent.exists()
        assert kept.exists()
        assert len(eval(done.stdout)) == 2  # that and the recorder's own
        assert [entry.name for entry in temporary.iterdir()] == [kept.name]


def test_the_folder_of_a_living_recorder_stays(lapwing: str, tmp_path: Path) -> None:
    """One within the other, both in one place."""
    with open_to_all() as temporary:
        environment = {**os.environ, "TMPDIR": str(temporary)}
        environment.pop("XDG_RUNTIME_DIR", None)
        show = "import os; print(len(os.listdir(os.environ['TMPDIR'])))"
        inner = [lapwing, "run", "--quiet", sys.executable, "-c", show]
        done = subprocess.run(
            [lapwing, "run", "--quiet", *inner],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.stdout == "2\n", done.stderr


@needs_root
@pytest.mark.parametrize("version", ["3.9", "3.11"])
def test_a_python_tells_a_stranger_nothing_at_its_start(
    lapwing: str, tmp_path: Path, version: str
) -> None:
    """Neither why it is not recorded (3.9) nor its memory (3.11)."""
    python = interpreter(version)
    where = subprocess.run(
        [lapwing, "run", "--quiet", sys.executable, "-c", SHOW_FOLDER],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    ).stdout.strip()
    with open_to_all() as temporary:
        stranger = temporary / "evil" / "agent"
        listener = Listener(stranger)
        environment = {
            **os.environ,
            "PYTHONPATH": where,
            "LAPWING_AGENT": f"socket={stranger},calls=python,steps=1",
        }
        done = subprocess.run(
            [python, "-c", "print('ran')"],
            env=environment,
            capture_output=True,
            text=True,
        )
        assert (done.stdout, done.stderr, done.returncode) == ("ran\n", "", 0)
        assert listener.end() == []


SHOW_FOLDER = """
import os
words = open('/proc/self/environ').read().split(chr(0))
print(dict(w.partition('=')[::2] for w in words)['PYTHONPATH'].split(':')[0])
"""
