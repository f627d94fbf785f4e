"""Other users of the machine learn nothing and gain nothing by sockets, folders and
links that they put where ours are looked for."""

from __future__ import annotations

import os
import shutil
import signal
import socket
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
        self.pid = next(
            int(pid)
            for pid in children.read_text().split()
            if str(program).encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
        )
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


def test_a_folder_whose_recorder_holds_no_lock_stays_while_it_listens(
    lapwing: str, tmp_path: Path
) -> None:
    with open_to_all() as temporary:
        folder = temporary / "lapwing-abcdef"
        folder.mkdir(0o700)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(str(folder / "agent"))
            listener.listen()
            environment = {**os.environ, "TMPDIR": str(temporary)}
            environment.pop("XDG_RUNTIME_DIR", None)
            words = [lapwing, "run", "--quiet", sys.executable, "-c", ""]
            subprocess.run(words, cwd=tmp_path, env=environment, check=True)
            assert (folder / "agent").exists()


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


@contextmanager
def sleeper_of_nobody() -> Iterator[int]:
    command = (
        f"import os; os.setgid({NOBODY}); os.setuid({NOBODY}); print(flush=True)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", command + "import time; time.sleep(600)"],
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.readline()
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


@needs_root
@pytest.mark.parametrize("command", ["dump", "attach", "top"])
def test_root_looks_into_others_only_when_told_to(
    lapwing: str, tmp_path: Path, command: str
) -> None:
    words = {
        "dump": ["dump"],
        "attach": ["attach", "--duration", "100ms", "--quiet"],
        "top": ["top", "--batch", "--duration", "100ms"],
    }[command]
    environment = {k: v for k, v in os.environ.items() if k != "SUDO_UID"}
    with sleeper_of_nobody() as pid:

        def ask(*more: str, **variables: str) -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                [lapwing, *words, *more, str(pid)],
                cwd=tmp_path,
                env={**environment, **variables},
                capture_output=True,
                text=True,
            )

        refused = ask()
        assert refused.returncode == 2
        assert f"process {pid} is user {NOBODY}'s, not yours" in refused.stderr
        assert "--all-users" in refused.stderr
        assert ask("--all-users").returncode == 0
        assert ask(SUDO_UID=str(NOBODY)).returncode == 0


@needs_root
@pytest.mark.parametrize("command", ["dump", "attach", "top"])
def test_a_user_is_told_at_once_what_looking_into_others_takes(
    lapwing: str, command: str
) -> None:
    with open_to_all() as folder, sleeper_of_nobody() as pid:
        program = folder / "lapwing"
        shutil.copy(lapwing, program)

        def refused(pid: int) -> str:
            done = subprocess.run(
                [program, command, str(pid)],
                cwd=folder,
                user=NOBODY - 1,
                group=NOBODY - 1,
                extra_groups=[],
                capture_output=True,
                text=True,
            )
            assert done.returncode == 2, done.stderr
            return done.stderr

        assert "use sudo and add --all-users" in refused(pid)
        assert "use sudo and add --all-users" in refused(1)
        of_root = refused(os.getpid())
        assert "use sudo to look into it" in of_root and "--all" not in of_root


@needs_root
def test_what_others_run_below_our_own_process_is_left_out(lapwing: str) -> None:
    with sleeper_of_nobody() as pid:
        us = str(os.getpid())
        for more, is_there in ([], False), (["--all-users"], True):
            done = subprocess.run(
                [lapwing, "dump", *more, us], capture_output=True, text=True
            )
            assert f"process {us}" in done.stdout, done.stderr
            assert (f"process {pid}" in done.stdout) == is_there


@needs_root
def test_a_run_that_was_swapped_gets_nothing_of_ours(
    lapwing: str, tmp_path: Path
) -> None:
    """Another user owns .lapwing, and puts a link to a folder of ours in place of the
    run: nothing is written or removed there."""
    with open_to_all() as place:
        precious = tmp_path / "precious"
        (precious / "traces").mkdir(parents=True)
        for name in "run.json", "p0001-000001.seg", "reserve", "traces/.lapwing-1.json":
            (precious / name).write_text("precious")
        runs = place / ".lapwing" / "runs"
        runs.mkdir(parents=True)
        os.chown(runs, NOBODY, NOBODY)
        os.chown(runs.parent, NOBODY, NOBODY)
        script = place / "swap.py"
        script.write_text(SWAP)
        done = subprocess.run(
            [lapwing, "run", "--no-summary", sys.executable, script, runs, precious],
            cwd=place,
            capture_output=True,
            text=True,
        )
        assert done.stdout == "done\n", done.stderr
        files = [path for path in precious.rglob("*") if path.is_file()]
        assert len(files) == 4
        assert {path.read_text() for path in files} == {"precious"}
        (moved,) = runs.glob("*.moved")
        assert '"finished"' in (moved / "run.json").read_text()
        assert list(moved.glob("*.seg"))


SWAP = """
import os, sys, time
runs, precious = sys.argv[1:]
time.sleep(0.3)
name, = (n for n in os.listdir(runs) if n.endswith(".lap"))
pid = os.fork()
if pid == 0:
    os.setgid(65534)
    os.setuid(65534)
    os.rename(f"{runs}/{name}", f"{runs}/{name}.moved")
    os.symlink(precious, f"{runs}/{name}")
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
if os.fork() == 0:  # a process that comes later, whose segments are made now
    time.sleep(0.3)
    os._exit(0)
os.wait()
print("done")
"""
