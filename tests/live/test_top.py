"""`lapwing top`, in a pipe and at a terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator

import pytest
from standing import Standing, line_of, standing

ALTERNATE, BACK = b"\x1b[?1049h", b"\x1b[?1049l"


def batch(lapwing: str, pid: int, *words: str) -> list[str]:
    """The tables that are printed, header lines and all."""
    command = [lapwing, "top", str(pid), "--duration", "2s", *words]
    printed = subprocess.check_output(command, text=True, timeout=30)
    return re.split(r"\n(?=lapwing top: )", printed)


def test_in_a_pipe_it_prints_tables(lapwing: str, python: str) -> None:
    with standing(python) as program:
        tables = batch(lapwing, program.pid, "--interval", "500ms", "--rate", "100")
    assert 2 <= len(tables) <= 5
    head, taken, quality, shown, empty, titles, *rows = tables[-1].splitlines()
    assert f", pid {program.pid}, " in head
    assert re.match(r"Python 3\.\d+.*, 2 processes, 6 threads, CPU .* %, RSS ", taken)
    assert quality.startswith("100 Hz asked, ")
    assert shown == "running time, functions by self, all threads"
    running = {row.split()[-2] for row in rows if row and " 0.0 % " not in row}
    assert running >= {"busy", "child_runs"}
    assert "waits" not in running


def test_lines_of_all_time(lapwing: str, python: str) -> None:
    with standing(python) as program:
        words = ["--lines", "--time", "wall", "--no-children", "--sort", "total"]
        (*_, last) = batch(lapwing, program.pid, *words)
    assert ", 1 process, 5 threads," in last
    assert "wall time, lines by total, all threads" in last
    share = re.search(rf"([\d.]+) % +[\d.]+ % +waits .*:{line_of('waits')}\n", last)
    assert share and 200 < float(share[1]) < 400  # three threads stand there


def test_it_ends_with_the_process(lapwing: str, python: str) -> None:
    with standing(python) as program:
        command = [lapwing, "top", str(program.child)]
        top = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        time.sleep(1.5)
        os.kill(program.child, signal.SIGKILL)
        printed, _ = top.communicate(timeout=10)
    assert top.returncode == 0
    assert " (has ended)\n" in printed


class Terminal:
    """`lapwing top` at a terminal of 80 by 24, and all that it wrote there."""

    def __init__(self, lapwing: str, pid: int) -> None:
        self.master, self.slave = pty.openpty()
        self.resize(24, 80)
        self.before = termios.tcgetattr(self.slave)
        self.written = b""
        # Whoever runs the tests may do so under nohup, which top would keep to.
        self.process = subprocess.Popen(
            ["env", "--default-signal=HUP", lapwing, "top", str(pid)],
            stdin=self.slave,
            stdout=self.slave,
            stderr=self.slave,
            env=os.environ | {"TERM": "xterm"},
            start_new_session=True,
        )

    def resize(self, rows: int, columns: int) -> None:
        size = struct.pack("HHHH", rows, columns, 0, 0)
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, size)

    def read(self, seconds: float) -> bytes:
        """What is written within so many seconds."""
        start, end = len(self.written), time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if select.select([self.master], [], [], left)[0]:
                self.written += os.read(self.master, 65536)
        return self.written[start:]

    def wait_for(self, text: bytes, seconds: float = 20) -> None:
        end = time.monotonic() + seconds
        start = len(self.written)
        while text not in self.written[start:]:
            assert time.monotonic() < end, (text, self.written[start:])
            self.read(0.1)

    def press(self, keys: bytes) -> None:
        os.write(self.master, keys)

    def is_as_before(self) -> bool:
        return termios.tcgetattr(self.slave) == self.before

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.master)
        os.close(self.slave)


@pytest.fixture(scope="module")
def program() -> Iterator[Standing]:
    with standing(sys.executable) as found:
        yield found


@pytest.fixture
def terminal(lapwing: str, program: Standing) -> Iterator[Terminal]:
    found = Terminal(lapwing, program.pid)
    found.wait_for(b"busy")
    yield found
    found.close()


def test_keys_change_the_screen(terminal: Terminal) -> None:
    assert terminal.written.startswith(ALTERNATE)
    assert not terminal.is_as_before()
    terminal.press(b"l")
    terminal.wait_for(b"lines by self")
    terminal.press(b"/child\r")
    terminal.wait_for(b"filter /child/")
    assert b"busy" not in terminal.read(1)
    terminal.press(b"?")
    terminal.wait_for(b"any key goes back")
    terminal.press(b"\x1b[A")
    terminal.wait_for(b"running time")
    terminal.press(b"q")
    assert terminal.process.wait(timeout=10) == 0
    terminal.read(0.2)
    assert terminal.written.endswith(BACK)
    assert terminal.is_as_before()


def test_a_new_size_is_taken(terminal: Terminal) -> None:
    terminal.resize(10, 40)
    terminal.process.send_signal(signal.SIGWINCH)
    terminal.wait_for(b"lapwing top: ")
    screen = terminal.read(1).split(b"\x1b[H")[-1]
    rows = re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b"", screen).split(b"\r\n")
    assert len(rows) == 10
    assert max(len(row.decode().rstrip("\r")) for row in rows) <= 40
    terminal.resize(1, 1)
    terminal.process.send_signal(signal.SIGWINCH)
    terminal.read(0.5)
    assert terminal.process.poll() is None


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP", "SIGSEGV", "SIGABRT"])
def test_a_signal_gives_the_terminal_back(terminal: Terminal, name: str) -> None:
    number = getattr(signal, name)
    terminal.process.send_signal(number)
    code = terminal.process.wait(timeout=10)
    terminal.read(0.2)
    assert code == -number
    assert BACK in terminal.written
    assert terminal.is_as_before()


def test_stopping_and_going_on(terminal: Terminal) -> None:
    terminal.process.send_signal(signal.SIGTSTP)
    _, status = os.waitpid(terminal.process.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    terminal.read(0.2)
    assert terminal.written.endswith(BACK)
    assert terminal.is_as_before()
    terminal.process.send_signal(signal.SIGCONT)
    terminal.wait_for(ALTERNATE)
    terminal.wait_for(b"lapwing top: ")
    terminal.press(b"q")
    assert terminal.process.wait(timeout=10) == 0
    assert terminal.is_as_before()
