"""Playing another user of the machine, for which one must be root."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

NOBODY = 65534  # any user but root and ourselves

needs_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="not root: nobody else can be played"
)


@contextmanager
def open_to_all() -> Iterator[Path]:
    """A folder as /tmp is: everybody may make things in it, and its path is short."""
    with tempfile.TemporaryDirectory(prefix="lw-", dir="/tmp") as name:
        os.chmod(name, 0o1777)
        yield Path(name)


def as_nobody(work: Callable[[], None]) -> None:
    """Do WORK as somebody else, in a process of theirs."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            work()
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


LISTEN = """
import os, socket, sys
path, uid = sys.argv[1], int(sys.argv[2])
os.setgroups([]); os.setgid(uid); os.setuid(uid)
os.umask(0)
os.makedirs(os.path.dirname(path), 0o777, exist_ok=True)
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.bind(path)
s.listen(64)
print("ready", flush=True)
while True:
    guest, _ = s.accept()
    data, fds, _, _ = socket.recv_fds(guest, 65536, 8)
    print("got", len(data), len(fds), flush=True)
"""


class Listener:
    """One who listens at PATH as user UID, and says what it was sent."""

    def __init__(self, path: Path, uid: int = NOBODY) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", LISTEN, str(path), str(uid)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"

    def end(self) -> list[str]:
        """All messages with something in them, as "got BYTES DESCRIPTORS"."""
        assert self.process.stdout is not None
        self.process.send_signal(signal.SIGTERM)
        heard = self.process.stdout.read().splitlines()
        self.process.wait()
        return [line for line in heard if not line.startswith("got 0")]




def wait_for(is_so: Callable[[], bool]) -> None:
    while not is_so():
        time.sleep(0.01)
