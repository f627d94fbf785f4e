"""Commands that take turns: each is stopped while another has its turn, so that what
others do to this machine meanwhile is done to all of them alike.

For how long a command stood counts neither for it nor for what its program says: who
gives the times of CLOCK_MONOTONIC between which it worked is told how much of that was
its own.
"""

from __future__ import annotations

import bisect
import os
import select
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path


class RunFailed(Exception):
    """A command did not do its work; the text says what it said."""


class NotInTime(Exception):
    """A command took too long; the text is the command."""


class Command:
    """A command, in a folder of its own, that can be made to stand still."""

    def __init__(
        self,
        words: Sequence[str],
        folder: Path,
        timeout_seconds: float,
        env: dict[str, str] | None = None,
    ) -> None:
        self.words = words
        self.folder = folder
        self.env = env
        self.timeout_ns = int(timeout_seconds * 1e9)
        self.output_path, self.errors_path = folder / "said.out", folder / "said.err"
        self.process: subprocess.Popen[bytes] | None = None
        self.is_over = False
        self.cpu_seconds = 0.0  # its processor time, once it is over
        self.start_ns = self.end_ns = 0
        # When it was stopped, when it went on, and for how long it had stood then.
        self.stopped_ns: list[int] = []
        self.continued_ns: list[int] = []
        self.stood_ns = [0]

    def start(self) -> subprocess.Popen[bytes]:
        self.start_ns = time.monotonic_ns()
        with (
            self.output_path.open("w") as output,
            self.errors_path.open("w") as errors,
        ):
            process = subprocess.Popen(
                self.words,
                cwd=self.folder,
                env=self.env,
                stdout=output,
                stderr=errors,
                start_new_session=True,
            )
        self.end_fd = os.pidfd_open(process.pid)
        return process

    def go_on(self, process: subprocess.Popen[bytes]) -> None:
        now_ns = time.monotonic_ns()
        self.continued_ns.append(now_ns)
        self.stood_ns.append(self.stood_ns[-1] + now_ns - self.stopped_ns[-1])
        os.killpg(process.pid, signal.SIGCONT)

    def take_turn(self, seconds: float | None) -> None:
        """Begin or go on, for SECONDS at most; None: to the end."""
        if self.process is None:
            self.process = self.start()
        else:
            self.go_on(self.process)
        wait = self.timeout_ns / 1e9 if seconds is None else seconds
        self.is_over = bool(select.select([self.end_fd], [], [], wait)[0])
        self.end_ns = time.monotonic_ns()
        if self.is_over:
            _, status, used = os.wait4(self.process.pid, 0)
            self.process.returncode = os.waitstatus_to_exitcode(status)
            self.cpu_seconds = used.ru_utime + used.ru_stime
            os.close(self.end_fd)
        elif self.own_ns(self.start_ns, self.end_ns) > self.timeout_ns:
            raise NotInTime(" ".join(self.words))
        else:
            os.killpg(self.process.pid, signal.SIGSTOP)
            self.stopped_ns.append(time.monotonic_ns())

    def own_ns(self, start_ns: int, end_ns: int) -> int:
        """How much of the time from START_NS to END_NS it did not stand. Both are
        times when it ran.
        """
        before = bisect.bisect_right(self.continued_ns, start_ns)
        after = bisect.bisect_right(self.continued_ns, end_ns)
        return end_ns - start_ns - (self.stood_ns[after] - self.stood_ns[before])

    @property
    def seconds(self) -> float:
        """From its start to its end, or to that of its last turn."""
        return self.own_ns(self.start_ns, self.end_ns) / 1e9

    @property
    def exit_code(self) -> int | None:
        return self.process.returncode if self.process else None

    def interrupt(self) -> None:
        """As Ctrl-C does, when it has its next turn."""
        if self.process and not self.is_over:
            self.process.send_signal(signal.SIGINT)

    def kill(self) -> None:
        """Whatever is left of it."""
        if self.process and not self.is_over:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            os.close(self.end_fd)
