"""lapwing.record: a block or function as a named range, or as a run of its own."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from contextlib import ContextDecorator
from pathlib import Path
from types import TracebackType
from typing import IO, ParamSpec, TypeVar, overload

from lapwing._agent import INJECT_FOLDER, agent

P = ParamSpec("P")
T = TypeVar("T")


def is_recording() -> bool:
    """Whether this process is being recorded, by `lapwing run` or by record()."""
    return agent.is_recording()


def find_program() -> str:
    """The `lapwing` program of this installation, else the one on PATH."""
    for scheme in (None, f"{os.name}_user"):
        folder = sysconfig.get_path("scripts", scheme) if scheme else None
        path = Path(folder or sysconfig.get_path("scripts")) / "lapwing"
        if os.access(path, os.X_OK):
            return str(path)
    if found := shutil.which("lapwing"):
        return found
    raise FileNotFoundError(
        "the program `lapwing` is not installed beside this package: "
        "reinstall lapwing, or put the program on PATH"
    )


class Recorder:
    """A `lapwing record` process of our own, which outlives whatever happens to us."""

    def __init__(self, name: str, output: str | None, c_calls: bool) -> None:
        command = [find_program(), "record", "--for", str(os.getpid()), "--name", name]
        if output is not None:
            command += ["--output", output]
        # The starter forks the recorder off and ends: no child of ours is left for the
        # program's own wait() to find.
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as (starter):
            assert starter.stdout and starter.stderr
            self.words: IO[bytes] = os.fdopen(os.dup(starter.stdout.fileno()), "rb")
            first = self.words.readline().decode(errors="surrogateescape").rstrip("\n")
            complaint = starter.stderr.read().decode(errors="replace").strip()
        self.socket_path, _, self.run_path = first.partition("\t")
        if not self.run_path:
            self.words.close()
            raise RuntimeError(complaint or "the recorder did not start")
        calls = "c" if c_calls else "python"
        config = f"socket={self.socket_path},calls={calls}"
        version = ".".join(str(part) for part in sys.version_info[:3])
        arguments = [sys.executable or "", version, *sys.orig_argv]
        hello = b"".join(os.fsencode(word) + b"\0" for word in arguments)
        try:
            agent.config = config
            agent.follow(INJECT_FOLDER, config)
            agent.start(config, hello, len(sys.orig_argv), False)
        except BaseException:
            self.words.close()
            raise

    def finish(self) -> None:
        """End the recording and wait until the run is on disk."""
        agent.stop()
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as waker:
            # No exception of its own, so what a signal's handler raises here goes on.
            waker.connect_ex(self.socket_path)
        with self.words as words:
            complete = words.readline() == b"finished\n"
        if not complete:
            print(
                f"lapwing: the recorder died; {self.run_path} holds what it wrote",
                file=sys.stderr,
            )


class Recording(ContextDecorator):
    """What record() gives: a context manager, and a decorator."""

    run: str | None
    """The folder of the run that was made; None inside another recording."""

    def __init__(self, name: str, output: str | None, c_calls: bool) -> None:
        self.name = name
        self.output = output
        self.c_calls = c_calls
        self.run = None
        self._open: list[Recorder | int] = []

    def __enter__(self) -> Recording:
        if agent.is_recording():
            self._open.append(agent.ticks())
        else:
            recorder = Recorder(self.name, self.output, self.c_calls)
            self._open.append(recorder)
            self.run = recorder.run_path
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        opened = self._open.pop()
        if isinstance(opened, Recorder):
            opened.finish()
        else:
            agent.end_range(self.name, opened)


@overload
def record(name: Callable[P, T]) -> Callable[P, T]: ...
@overload
def record(
    name: str = ..., *, output: str | None = ..., c_calls: bool = ...
) -> Recording: ...
def record(
    name: str | Callable[P, T] = "block",
    *,
    output: str | None = None,
    c_calls: bool = False,
) -> Recording | Callable[P, T]:
    """record(name, *, output=None, c_calls=False): record a block or a function.

    In a process that is being recorded (`lapwing run`) the block becomes a named range
    of that run. Otherwise it is recorded as a run of its own, NAME, in .lapwing/runs or
    at `output`; `lapwing report` shows it. Also a decorator, with or without arguments.
    """
    if callable(name):
        label = getattr(name, "__qualname__", "function")
        return Recording(label, output, c_calls)(name)
    return Recording(name, output, c_calls)
