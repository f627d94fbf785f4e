"""Signals, the terminal and job control under `lapwing run`."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest
from recording import calls, run_info

# Says "ready", then each signal it gets, and ends with code 7 at SIGTERM.
HEARS = """
import signal, sys, time
def hear(number, frame):
    print(signal.Signals(number).name, flush=True)
    if number == signal.SIGTERM:
        sys.exit(7)
for name in "SIGTERM SIGHUP SIGUSR1 SIGUSR2 SIGINT SIGQUIT SIGWINCH".split():
    signal.signal(getattr(signal, name), hear)
print("ready", flush=True)
while True:
    time.sleep(0.01)
"""

SLEEPS = "print('ready', flush=True)\nimport time\ntime.sleep(60)"


def command(lapwing: str, python: str, folder: Path, script: str) -> list[str]:
    options = ["run", "--calls", "-q", "-o", str(folder / "x.lap"), "--"]
    return [lapwing, *options, python, "-c", script]


def start(
    lapwing: str, python: str, folder: Path, script: str
) -> subprocess.Popen[str]:
    program = subprocess.Popen(
        command(lapwing, python, folder, script),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert program.stdout
    assert program.stdout.readline() == "ready\n"
    return program


def test_signals_sent_to_us_reach_the_program(
    lapwing: str, python: str, tmp_path: Path
) -> None:
    program = start(lapwing, python, tmp_path, HEARS)
    assert program.stdout
    for name in "SIGHUP SIGUSR1 SIGUSR2 SIGINT SIGQUIT".split():
        program.send_signal(getattr(signal, name))
        assert program.stdout.readline() == f"{name}\n"
    program.terminate()
    assert program.stdout.readline() == "SIGTERM\n"
    assert program.wait(10) == 7
    assert calls(lapwing, tmp_path)["hear"] == 6
    assert run_info(tmp_path)["state"] == "finished"


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGINT", "SIGUSR1"])
def test_we_die_of_the_signal_that_killed_the_program(
    lapwing: str, python: str, tmp_path: Path, name: str
) -> None:
    number = getattr(signal, name)
    script = f"import signal\nsignal.signal({int(number)}, signal.SIG_DFL)\n{SLEEPS}"
    program = start(lapwing, python, tmp_path, script)
    program.send_signal(number)
    assert program.wait(10) == -number
    assert run_info(tmp_path)["exit_code"] == 128 + number
    assert run_info(tmp_path)["state"] == "finished"


class Terminal:
    """A process in a terminal of its own, as its session's leader."""

    def __init__(self, words: list[str], folder: Path) -> None:
        self.seen = ""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.execvp(words[0], words)

    def type(self, text: str) -> None:
        os.write(self.fd, text.encode())

    def expect(self, text: str, seconds: float = 20) -> None:
        """Read on until TEXT; what came before it is forgotten."""
        end = time.monotonic() + seconds
        while text not in self.seen:
            left = end - time.monotonic()
            assert left > 0, f"no {text!r} in {self.seen!r}"
            if select.select([self.fd], [], [], left)[0]:
                try:
                    self.seen += os.read(self.fd, 4096).decode()
                except OSError as error:  # the other end is closed
                    raise AssertionError(f"no {text!r} in {self.seen!r}") from error
        self.seen = self.seen.split(text, 1)[1]

    def wait(self) -> int:
        with suppress(OSError):
            while os.read(self.fd, 4096):
                pass
        _, status = os.waitpid(self.pid, 0)
        os.close(self.fd)
        return os.waitstatus_to_exitcode(status)


def test_ctrl_c_reaches_the_program_once(
    lapwing: str, python: str, tmp_path: Path
) -> None:
    script = (
        "import time\n"
        "def interrupted(): print('interrupted', flush=True)\n"
        "try:\n"
        "    print('ready', flush=True)\n"
        "    time.sleep(60)\n"
        "except KeyboardInterrupt:\n"
        "    interrupted()\n"
        "time.sleep(0.3)\n"
        "print('undisturbed', flush=True)\n"
        "raise SystemExit(4)\n"
    )
    terminal = Terminal(command(lapwing, python, tmp_path, script), tmp_path)
    terminal.expect("ready")
    terminal.type("\x03")
    terminal.expect("interrupted")
    terminal.expect("undisturbed")
    assert terminal.wait() == 4
    assert calls(lapwing, tmp_path)["interrupted"] == 1


def test_ctrl_c_ends_us_as_it_ends_the_program(
    lapwing: str, python: str, tmp_path: Path
) -> None:
    terminal = Terminal(command(lapwing, python, tmp_path, SLEEPS), tmp_path)
    terminal.expect("ready")
    terminal.type("\x03")
    assert terminal.wait() == -signal.SIGINT
    assert run_info(tmp_path)["state"] == "finished"


def test_the_program_has_the_terminal(
    lapwing: str, python: str, tmp_path: Path
) -> None:
    script = "print(input('name? ')[::-1])"
    terminal = Terminal(command(lapwing, python, tmp_path, script), tmp_path)
    terminal.expect("name? ")
    terminal.type("gniwpal\n")
    terminal.expect("lapwing")
    assert terminal.wait() == 0


def test_ctrl_z_stops_us_and_the_shell_can_go_on(
    lapwing: str, python: str, tmp_path: Path
) -> None:
    script = (
        "import time\n"
        "print('rea' + 'dy', flush=True)\n"
        "for i in range(3): time.sleep(0.5)\n"
        "print('do' + 'ne', flush=True)\n"
        "raise SystemExit(6)\n"
    )
    (tmp_path / "nap.py").write_text(script)
    # The file's name, so that the typed line holds neither word.
    words = " ".join([*command(lapwing, python, tmp_path, "")[:-2], "nap.py"])
    terminal = Terminal(["bash", "--norc", "--noprofile", "-i"], tmp_path)
    terminal.type(f"{words}\n")
    terminal.expect("ready")
    terminal.type("\x1a")
    terminal.expect("Stopped")
    terminal.type("jobs; echo job$((1+1))\n")
    terminal.expect("job2")
    terminal.type("fg\n")
    terminal.expect("done")
    terminal.type("echo code $?\n")
    terminal.expect("code 6")
    terminal.type("exit\n")
    terminal.wait()
    assert run_info(tmp_path)["exit_code"] == 6


def test_a_pipe_that_nobody_reads_leaves_the_exit_code(
    lapwing: str, python: str, tmp_path: Path
) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    words = [lapwing, "run", "-o", "x.lap", "--", python, "-c", "raise SystemExit(5)"]
    done = subprocess.run(words, cwd=tmp_path, stderr=write_end, timeout=60)
    os.close(write_end)
    assert done.returncode == 5


def test_children_that_outlive_the_program_are_said(
    lapwing: str, python: str, tmp_path: Path
) -> None:
    """And are not waited for: they would run until we have ended."""
    script = (
        "import os, sys, time\n"
        "for _ in range(2):\n"
        "    if os.fork() == 0:\n"
        "        sys.stdout = sys.stderr = None\n"
        "        os.close(1); os.close(2)\n"
        "        while not os.path.exists('go'): time.sleep(0.02)\n"
        "        os._exit(0)\n"
        "raise SystemExit(2)\n"
    )
    words = [lapwing, "run", "--no-summary", "-o", "x.lap", "--", python, "-c", script]
    try:
        done = subprocess.run(
            words, cwd=tmp_path, capture_output=True, text=True, timeout=60
        )
    finally:
        (tmp_path / "go").touch()
    assert done.returncode == 2
    assert "still running when the recording ended (2 processes)" in done.stderr
