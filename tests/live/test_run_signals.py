"""Signals, the terminal and job control under `lapwing run`."""

from __future__ import annotations

import ctypes
import os
import pty
import select
import shutil
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


# Says our pid, then each signal it gets, and at SIGUSR2 how often it got each. Two that
# come at nearly the same time are one call of a handler, but two bytes of the pipe.
COUNTS = """
import collections, os, signal, time
ends = os.pipe2(os.O_NONBLOCK)
signal.set_wakeup_fd(ends[1])
heard = []
def hear(number, frame):
    heard.append(number)
    print(signal.Signals(number).name, flush=True)
for name in "SIGTERM SIGHUP SIGUSR1 SIGUSR2 SIGINT SIGQUIT".split():
    signal.signal(getattr(signal, name), hear)
print(os.getppid(), flush=True)
while signal.SIGUSR2 not in heard:
    time.sleep(0.01)
names = [signal.Signals(number).name for number in os.read(ends[0], 1000)]
print("counts:", *(f"{name}={names.count(name)}" for name in sorted(set(names))))
"""


def start_counting(words: list[str]) -> tuple[subprocess.Popen[str], int]:
    """WORDS in a session of its own, and the pid of the `lapwing run` in it."""
    program = subprocess.Popen(
        words, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert program.stdout
    return program, int(program.stdout.readline())


def counted(program: subprocess.Popen[str], lapwing_pid: int) -> str:
    """Which signals the program got, besides the SIGUSR2 that asks it."""
    # Signals that are passed on keep their order: what came before this one and was to
    # be passed on has been when it arrives.
    os.kill(lapwing_pid, signal.SIGUSR2)
    assert program.stdout
    lines = [line for line in program.stdout if line.startswith("counts: ")]
    program.wait(10)
    return lines[0].removeprefix("counts: ").strip().removesuffix("SIGUSR2=1").strip()


def members(group: int) -> list[int]:
    """The processes of a process group, the oldest first."""
    found = []
    for folder in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            words = (folder / "stat").read_text().rpartition(")")[2].split()
            if int(words[2]) == group:
                found.append((int(words[19]), int(folder.name)))
    return [pid for _, pid in sorted(found)]


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1"])
def test_a_signal_to_the_process_group_reaches_the_program_once(
    lapwing: str, python: str, tmp_path: Path, name: str
) -> None:
    program, pid = start_counting(command(lapwing, python, tmp_path, COUNTS))
    os.killpg(program.pid, getattr(signal, name))
    assert counted(program, pid) == f"{name}=1"


def test_a_signal_to_every_process_of_a_job_reaches_the_program_once(
    lapwing: str, python: str, tmp_path: Path
) -> None:
    took = 1.0
    while took > 0.005:  # on a busy machine we stood still between two of them
        shutil.rmtree(tmp_path / "x.lap", ignore_errors=True)
        program, pid = start_counting(command(lapwing, python, tmp_path, COUNTS))
        processes = members(program.pid)
        start = time.monotonic()
        for member in processes:  # as scancel and systemd do
            os.kill(member, signal.SIGTERM)
        took = time.monotonic() - start
        found = counted(program, pid)
    assert found == "SIGTERM=1"


def test_timeout_reaches_the_program_once(
    lapwing: str, python: str, tmp_path: Path
) -> None:
    words = ["timeout", "-s", "INT", "2", *command(lapwing, python, tmp_path, COUNTS)]
    program, pid = start_counting(words)
    assert program.stdout
    assert program.stdout.readline() == "SIGINT\n"
    assert counted(program, pid) == "SIGINT=1"


def test_a_program_in_a_group_of_its_own_gets_only_what_is_sent_to_us(
    lapwing: str, python: str, tmp_path: Path
) -> None:
    words = command(lapwing, python, tmp_path, COUNTS)
    where = words.index("--") + 1
    program, pid = start_counting([*words[:where], "setsid", *words[where:]])
    os.killpg(program.pid, signal.SIGTERM)  # it would not reach the program without us
    os.kill(pid, signal.SIGHUP)
    assert counted(program, pid) == "SIGHUP=1"


def test_a_program_that_signals_its_group_is_not_signalled_again(
    lapwing: str, python: str, tmp_path: Path
) -> None:
    script = COUNTS.replace("while", "os.killpg(0, signal.SIGTERM)\nwhile")
    program, pid = start_counting(command(lapwing, python, tmp_path, script))
    assert counted(program, pid) == "SIGTERM=1"


def test_what_the_program_sends_to_its_parent_is_for_our_parent(
    lapwing: str, python: str, tmp_path: Path
) -> None:
    script = "import os, signal\nos.kill(os.getppid(), signal.SIGUSR1)\n" + SLEEPS
    starter = (
        "import signal, subprocess, sys\n"
        "def heard(*_): print('heard', flush=True)\n"
        "signal.signal(signal.SIGUSR1, heard)\n"
        "child = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)\n"
        "signal.pause()\n"
        "child.kill() if child.poll() is not None else child.terminate()\n"
        "print(child.wait(), flush=True)\n"
    )
    words = [python, "-c", starter, *command(lapwing, python, tmp_path, script)]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, timeout=60)
    assert done.stdout == f"heard\n{-signal.SIGTERM}\n"


def test_the_value_of_a_queued_signal_arrives(
    lapwing: str, python: str, tmp_path: Path
) -> None:
    script = (
        "import ctypes, signal, struct\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])\n"
        "print('ready', flush=True)\n"
        "info = ctypes.create_string_buffer(128)\n"
        "mask = ctypes.create_string_buffer(128)\n"
        "libc = ctypes.CDLL(None)\n"
        "libc.sigaddset(mask, int(signal.SIGUSR1))\n"
        "libc.sigwaitinfo(mask, info)\n"
        "print(struct.unpack_from('i', info, 24)[0], flush=True)\n"
    )
    program = start(lapwing, python, tmp_path, script)
    libc = ctypes.CDLL(None)
    libc.sigqueue(program.pid, int(signal.SIGUSR1), ctypes.c_void_p(4711))
    assert program.stdout
    assert program.stdout.readline() == "4711\n"
    assert program.wait(10) == 0


def test_pkill_finds_us_once(lapwing: str, python: str, tmp_path: Path) -> None:
    program, pid = start_counting(command(lapwing, python, tmp_path, COUNTS))
    ours = [member for member in members(program.pid) if member != pid]
    lines = [Path(f"/proc/{member}/cmdline").read_text() for member in ours]
    names = [Path(f"/proc/{member}/comm").read_text() for member in ours]
    assert not any("lapwing" in name for name in names)
    assert not any(line.startswith(lapwing) for line in lines)
    assert counted(program, pid) == ""


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
        self.seen = self.before = ""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.execvp(words[0], words)

    def type(self, text: str) -> None:
        os.write(self.fd, text.encode())

    def expect(self, text: str, seconds: float = 20) -> None:
        """Read on until TEXT; what came before it is in `before`."""
        end = time.monotonic() + seconds
        while text not in self.seen:
            left = end - time.monotonic()
            assert left > 0, f"no {text!r} in {self.seen!r}"
            if select.select([self.fd], [], [], left)[0]:
                try:
                    self.seen += os.read(self.fd, 4096).decode()
                except OSError as error:  # the other end is closed
                    raise AssertionError(f"no {text!r} in {self.seen!r}") from error
        self.before, self.seen = self.seen.split(text, 1)

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


@pytest.mark.parametrize("by", ["shell", "us"])
def test_a_program_that_is_continued_hears_it_once(
    lapwing: str, python: str, tmp_path: Path, by: str
) -> None:
    script = (
        "import os, signal, time\n"
        "ends = os.pipe2(os.O_NONBLOCK)\n"
        "signal.set_wakeup_fd(ends[1])\n"
        "signal.signal(signal.SIGCONT, lambda *_: None)\n"
        "signal.signal(signal.SIGUSR2, lambda *_: None)\n"
        "print('rea' + 'dy', os.getppid(), 'pid', flush=True)\n"
        "heard = b''\n"
        "while signal.SIGUSR2 not in heard:\n"
        "    time.sleep(0.01)\n"
        "    try: heard += os.read(ends[0], 100)\n"
        "    except BlockingIOError: pass\n"
        "print('hea' + 'rd', heard.count(signal.SIGCONT), 'times', flush=True)\n"
    )
    (tmp_path / "nap.py").write_text(script)
    words = " ".join([*command(lapwing, python, tmp_path, "")[:-2], "nap.py"])
    terminal = Terminal(["bash", "--norc", "--noprofile", "-i"], tmp_path)
    terminal.type(f"{words}\n")
    terminal.expect("ready ")
    terminal.expect(" pid")
    lapwing_pid = int(terminal.before)
    terminal.type("\x1a")
    terminal.expect("Stopped")
    if by == "shell":
        terminal.type("fg\n")
        terminal.expect(words)
    else:
        os.kill(lapwing_pid, signal.SIGCONT)
    os.kill(lapwing_pid, signal.SIGUSR2)
    terminal.expect("heard ")
    terminal.expect(" times")
    assert terminal.before == "1"
    terminal.type("exit\n")
    terminal.wait()


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


def test_a_signal_that_comes_while_we_start_is_the_programs(
    lapwing: str, tmp_path: Path
) -> None:
    """Ctrl-C, or a job that is ended: its program was not there to get its own."""
    for name in ("SIGTERM", "SIGINT"):
        program = subprocess.Popen(
            [lapwing, "run", "-q", "-o", f"{name}.lap", "--", "sleep", "60"],
            cwd=tmp_path,
            start_new_session=True,
        )
        children = Path(f"/proc/{program.pid}/task/{program.pid}/children")
        while not children.read_text().split():  # the first is not the program
            pass
        os.killpg(program.pid, getattr(signal, name))
        assert program.wait(30) == -getattr(signal, name)
