"""A window of torch's profiler for somebody who has attached.

`lapwing attach --torch` leaves an order in a file and says so to the agent, which calls
take() between two steps; src/recorder/window_order.h has the names of the files. Runs
in somebody else's program: nothing here raises into it or prints.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import Any

TRACE = "trace.pt.trace.json"
DEVICE_WARMUP = 1  # steps, in which a device's profiler gets ready


class Ordered:
    """One window, from the next step on."""

    takes_calls = True  # where nothing else tells steps apart

    def __init__(self, words: dict[str, str], names: dict[str, str]) -> None:
        self.folder = words["folder"]
        self.iterations = int(words["iterations"])
        self.duration_ns = int(words["duration_ms"]) * 1_000_000
        self.start_s = int(words["start_ms"]) / 1000
        self.flags = {flag: True for word, flag in names.items() if word in words}
        self.warmup = 0
        self.first = 0  # step of the window, as torch counts them
        self.steps = 0  # that have passed since
        self.end_ns = 0
        self.is_over = False

    def put(self, name: str, text: str = "") -> None:
        """Have a file in the folder, whole; if that is gone, nobody waits any more."""
        path = os.path.join(self.folder, name)
        try:
            with open(path + ".tmp", "w", encoding="utf-8", errors="replace") as file:
                file.write(text)
            os.rename(path + ".tmp", path)
        except OSError:
            self.is_over = True

    def is_due(self, number: int) -> bool:
        self.is_over = self.is_over or not os.path.isdir(self.folder)
        return not self.is_over and time.time() >= self.start_s

    def begin(self, number: int) -> None:
        self.first = number
        self.end_ns = time.monotonic_ns() + self.duration_ns
        self.put("begun")

    def action(self, step: int, actions: Any) -> Any:
        is_warm = step >= self.first + self.warmup
        return actions.RECORD if is_warm else actions.WARMUP

    def goes_on(self, number: int) -> bool:
        self.steps += 1
        if not os.path.isdir(self.folder):
            return False
        now_ns = time.monotonic_ns()
        if self.steps <= self.warmup:
            self.end_ns = now_ns + self.duration_ns
            return True
        if self.iterations:
            return self.steps < self.warmup + self.iterations
        return now_ns < self.end_ns

    def save(self, profile: Any) -> None:
        if not os.path.isdir(self.folder):
            return
        hidden = os.path.join(self.folder, "trace.tmp")
        profile.profiler.export_chrome_trace(hidden)
        if os.path.getsize(hidden) == 0:
            raise OSError("torch wrote nothing")
        os.rename(hidden, os.path.join(self.folder, TRACE))
        self.is_over = True

    def end(self) -> None:
        if not self.is_over:
            self.fail("ended before a step of its window was recorded")

    def fail(self, sentence: str) -> None:
        self.put("failed", sentence)
        self.is_over = True

    def step_aside(self) -> None:
        self.fail(
            "started torch's profiler itself in the window, and two cannot run at "
            "once: try again when that is over"
        )

    def wait(self) -> None:
        self.put("busy")

    def give_up(self, error: Exception) -> None:
        self.fail(f"took no window: {type(error).__name__}: {str(error)[:200]}")


def read(path: str, names: dict[str, str]) -> Ordered | None:
    """The order in the file at PATH, which is gone then; None: there is none."""
    words = {}
    with suppress(OSError), open(path, encoding="utf-8") as file:
        for line in file:
            key, _, value = line.rstrip("\n").partition("=")
            words[key] = value
    with suppress(OSError):
        os.unlink(path)
    try:
        return Ordered(words, names)
    except (KeyError, ValueError):
        return None


def refusal(order: Ordered, windows: Any, window: Any) -> str:
    """Why WINDOWS cannot follow ORDER now; "": it can."""
    torch = windows.torch
    if windows.order is not None and os.path.isdir(windows.order.folder):
        return "is taking a window for somebody else: try again when that is over"
    if not windows.can_profile:
        return (
            "takes no window: it was forked while torch's profiler ran, which has not "
            "worked in it since"
        )
    if order.flags.get("with_stack") and window.crashes_with_stacks(torch):
        return (
            f"has torch {torch.__version__}, which crashes when its profiler records "
            "stacks on Python 3.13 and later: ask for a window without"
        )
    return ""


def take(path: str, windows: Any, window: Any) -> None:
    """Follow the order at PATH, if there is one. WINDOWS is this process's, WINDOW the
    module that it is from."""
    order = read(path, window.FLAGS)
    if order is None:
        return
    if sentence := refusal(order, windows, window):
        order.fail(sentence)
        return
    if windows.torch.cuda.is_initialized():
        order.warmup = DEVICE_WARMUP
    windows.order = order
    windows.listen()
