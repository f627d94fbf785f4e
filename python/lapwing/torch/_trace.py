"""Traces as torch writes them, kept so that they can be written more than once.

Kineto gives a window's trace away once; a second export raises "Trace is already
saved". So the first one goes into a file that is ours, and each export is a copy of it.
In a process that is being recorded that file is the one in the run; else it has no
name, and goes with the profiler.
"""

from __future__ import annotations

import errno
import gzip
import json
import os
import re
import tempfile
from pathlib import Path
from typing import IO, Any

import torch.profiler

from lapwing._agent import agent
from lapwing._inject import _lapwing_window

PIECE_BYTES = 1 << 20
TAIL_BYTES = 1 << 16
# The last thing in the file: under which name torch wrote it.
NAME = re.compile(rb'"traceName": "(?:[^"\\]|\\.)*"')


class SavedTrace:
    """One trace, in a file that stays open."""

    def __init__(self, path: str) -> None:
        self._file: IO[bytes] = open(path, "rb")  # noqa: SIM115
        self._size = os.fstat(self._file.fileno()).st_size
        if self._size == 0:
            self._file.close()
            raise OSError(errno.EIO, "torch could not write its trace", path)

    def __del__(self) -> None:
        if file := getattr(self, "_file", None):
            file.close()

    def copy_to(self, path: str) -> None:
        """Write it to PATH, packed if that ends in .gz; PATH is the name it says."""
        start, tail = self._tail(path)
        opener: Any = gzip.open if path.endswith(".gz") else open
        with opener(path, "wb") as out:
            at = 0
            while at < start:
                piece = self._read(at, min(PIECE_BYTES, start - at))
                if not piece:
                    raise OSError(errno.EIO, "the trace was cut short", path)
                out.write(piece)
                at += len(piece)
            out.write(tail)

    def _read(self, at: int, size: int) -> bytes:
        return os.pread(self._file.fileno(), size, at)

    def _tail(self, path: str) -> tuple[int, bytes]:
        """Where the end begins, and the end with the name in it changed to PATH."""
        start = max(0, self._size - TAIL_BYTES)
        tail = self._read(start, TAIL_BYTES)
        found = list(NAME.finditer(tail))
        if not found:
            return start, tail
        name = b'"traceName": ' + json.dumps(path).encode()
        return start, tail[: found[-1].start()] + name + tail[found[-1].end() :]


def can_save(
    profile: torch.profiler.profile, use_python_export: bool = False, **others: Any
) -> bool:
    """Is it Kineto that writes the trace of PROFILE?"""
    return (
        not use_python_export
        and not others
        and torch.profiler.kineto_available()
        and not getattr(profile, "_use_cupti_monitor", False)
        and profile.profiler is not None
        and profile.profiler.kineto_results is not None
    )


def save(profiler: Any, folder: Path) -> SavedTrace:
    """The trace of PROFILER (torch's inner one) in a file without a name, in FOLDER,
    which is where the first export goes: there is room for it, or else nowhere."""
    try:
        handle, path = tempfile.mkstemp(".json", ".lapwing-", folder)
    except FileNotFoundError:
        raise FileNotFoundError(
            errno.ENOENT, "there is no such folder to write the trace to", str(folder)
        ) from None
    os.close(handle)
    try:
        profiler.export_chrome_trace(path)
        return SavedTrace(path)
    finally:
        os.unlink(path)


def put_in_run(profiler: Any) -> SavedTrace | None:
    """Put the trace of PROFILER into the run of this process, if it is being recorded;
    what goes wrong is told there, never here."""
    config = getattr(agent, "config", None)
    if config is None or not agent.is_recording():
        return None
    try:
        write = profiler.export_chrome_trace
        return SavedTrace(_lapwing_window.put_in_run(config, write))
    except Exception as error:
        _lapwing_window.note(
            config,
            "a window of torch's profiler could not be put into the run: "
            f"{type(error).__name__}: {error}",
        )
        return None
