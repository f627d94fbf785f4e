"""A window of torch's profiler for somebody who has attached.

`lapwing attach --torch` leaves an order in a file and says so to the agent, which calls
take() between two steps; src/recorder/window_order.h has the names of the files. Runs
in somebody else's program: nothing here raises into it or prints.
"""

from __future__ import annotations

import os
import time
from typing import Any

TRACE = "trace.pt.trace.json"
DEVICE_WARMUP = 1  # steps, in which a device's profiler gets ready


class Ordered:
    """One window, from the next step on."""

    takes_calls = True  # where nothing else tells steps apart

    def __init__(self, words: dict[str, str], window: Any) -> None:
        self.window = window  # the module of that name
        self.folder = words["folder"]
        self.identity = words["folder_id"]
        self.iterations = int(words["iterations"])
        self.duration_ns = int(words["duration_ms"]) * 1_000_000
        self.start_s = int(words["start_ms"]) / 1000
        self.flags = {
            flag: True for word, flag in window.FLAGS.items() if word in words
        }
        self.warmup = 0
        self.first = 0  # step of the window, as torch counts them
        self.steps = 0  # that have passed since
        self.end_ns = 0
        self.is_over = False

    def is_wanted(self) -> bool:
        """Is the folder still there? Whoever has attached takes it away again."""
        try:
            with self.window.same_folder(self.folder, self.identity):
                return True
        except OSError as error:
            if self.window.is_programs(error):
                raise
            return False

    def put(self, name: str, text: str = "") -> None:
        """Have a file in the folder, whole; if that is gone, nobody waits any more."""
        try:
            with self.window.same_folder(self.folder, self.identity) as folder:
                self.window.make_new(folder, "word.tmp", text.encode("utf-8", "replace"))
                os.rename("word.tmp", name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError as error:
            if self.window.is_programs(error):
                raise
            self.is_over = True

    def is_due(self, number: int) -> bool:
        self.is_over = self.is_over or not self.is_wanted()
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
        if not self.is_wanted():
            return False
        now_ns = time.monotonic_ns()
        if self.steps <= self.warmup:
            self.end_ns = now_ns + self.duration_ns
            return True
        if self.iterations:
            return self.steps < self.warmup + self.iterations
        return now_ns < self.end_ns

    def save(self, profile: Any) -> None:
        if not self.is_wanted():
            return
        window, hidden = self.window, "trace.tmp"
        with window.same_folder(self.folder, self.identity) as folder:
            window.make_new(folder, hidden)
            profile.profiler.export_chrome_trace(window.path_below(folder, hidden))
            if os.stat(hidden, dir_fd=folder, follow_symlinks=False).st_size == 0:
                raise OSError("torch wrote nothing")
            os.rename(hidden, TRACE, src_dir_fd=folder, dst_dir_fd=folder)
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


def read(config: str, window: Any) -> Ordered | None:
    """The order for this process beside the recorder's socket, which is gone then; None:
    there is none. WINDOW is the module of that name."""
    name = f"order-{os.getpid()}"
    words = {}
    try:
        with window.socket_folder(config) as folder:
            text = window.read_own(folder, name)
            with window.ours(OSError):
                os.unlink(name, dir_fd=folder)
        for line in text.splitlines():
            key, _, value = line.partition("=")
            words[key] = value
        return Ordered(words, window)
    except (OSError, KeyError, ValueError) as error:
        if window.is_programs(error):
            raise
        return None


def refusal(order: Ordered, windows: Any, window: Any) -> str:
    """Why WINDOWS cannot follow ORDER now; "": it can."""
    torch = windows.torch
    if windows.order is not None and windows.order.is_wanted():
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


def take(config: str, windows: Any, window: Any) -> None:
    """Follow the order for this process, if there is one. WINDOWS is this process's,
    WINDOW the module that it is from."""
    order = read(config, window)
    if order is None:
        return
    if sentence := refusal(order, windows, window):
        order.fail(sentence)
        return
    if windows.torch.cuda.is_initialized():
        order.warmup = DEVICE_WARMUP
    windows.order = order
    windows.listen()
