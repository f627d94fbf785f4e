"""Windows of torch's profiler, for the run that records this process.

Two things are here. What `lapwing run --torch` does in an unmodified script: torch's
own profiler is started and stopped at the boundaries of steps, as a schedule says, and
what it saw is put into the run. And the way in, which lapwing.torch.profile uses too:
torch writes its trace into the run's folder (src/lap/traces.h says under which names).

It runs in somebody else's program: nothing here raises into it or prints, and between
windows a step costs one comparison. Kineto can serve one profiler at a time; the
program's own comes first, and ours steps aside.
"""

from __future__ import annotations

import atexit
import functools
import os
import re
import socket
import struct
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

OLDEST = "2.6"  # what tests/live/test_torch_windows.py has seen work
NEVER = sys.maxsize

NUMBERS = ("wait", "warmup", "active", "repeat", "skip_first", "skip_first_wait")
FLAGS = {
    "shapes": "record_shapes",
    "memory": "profile_memory",
    "stack": "with_stack",
    "flops": "with_flops",
    "modules": "with_modules",
}


# ---- the run -------------------------------------------------------------------------


def socket_of(config: str) -> str:
    """Where the recorder listens, out of LAPWING_AGENT's text."""
    return config.split(",")[0].partition("=")[2]


def note(config: str, sentence: str) -> None:
    """A sentence for the report of the run (agent/layout.h, struct lw_agent_hello)."""
    text = sentence.encode("utf-8", "replace")
    hello = struct.pack("=QIIII", 0x31474E4957504C4C, 1, 3, len(text), 0)
    with (
        suppress(OSError),
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as speaker,
    ):
        speaker.settimeout(1)
        speaker.connect(socket_of(config))
        speaker.send(hello + text)


def traces_folder(config: str) -> str:
    """The run's folder of traces, made if need be. OSError: there is no run."""
    folder = os.path.join(os.path.dirname(socket_of(config)), "run", "traces")
    with suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    return folder


def hidden_path(folder: str) -> str:
    """What this process's window is called until it is whole."""
    return os.path.join(folder, f".lapwing-{os.getpid()}.json")


def _owner() -> str:
    rank = os.environ.get("RANK", "")
    return f"rank{int(rank)}" if rank.isdigit() else f"pid{os.getpid()}"


def put_in_run(config: str, write: Callable[[str], None]) -> str:
    """Have WRITE write a trace at the path it is given, and put it into the run.
    Returns the path. OSError: it could not be, and nothing is left of it."""
    folder = traces_folder(config)
    hidden = hidden_path(folder)
    try:
        write(hidden)
        os.chmod(hidden, 0o600)
        if os.path.getsize(hidden) == 0:
            raise OSError("torch wrote nothing")
        start = _owner() + "-"
        number = 1 + sum(name.startswith(start) for name in os.listdir(folder))
        while True:
            path = os.path.join(folder, f"{start}{number:06d}.pt.trace.json")
            if not os.path.exists(path) and not os.path.exists(path + ".gz"):
                os.rename(hidden, path)
                return path
            number += 1
    except BaseException:
        with suppress(OSError):
            os.unlink(hidden)
        raise


# ---- what was asked for --------------------------------------------------------------


class Schedule:
    """What to do in which step, as torch.profiler.schedule() counts them."""

    def __init__(self, numbers: dict[str, int]) -> None:
        self.wait = numbers["wait"]
        self.warmup = numbers["warmup"]
        self.active = numbers["active"]
        self.repeat = numbers["repeat"]
        self.skip_first = numbers["skip_first"]
        self.skips_first_wait = numbers["skip_first_wait"] > 0
        self.period = self.wait + self.warmup + self.active

    def place(self, step: int) -> int:
        """Where in its cycle STEP is, from 0; below `wait`: in no window."""
        step -= self.skip_first
        if step < 0:
            return -1
        if self.skips_first_wait:
            step += self.wait
        if self.repeat and step >= self.repeat * self.period:
            return -1
        return step % self.period

    def next_window(self, step: int) -> int:
        """The first step from STEP on in which there is something to do, or NEVER."""
        shift = self.skip_first - (self.wait if self.skips_first_wait else 0)
        inside = max(step, self.skip_first) - shift  # of all cycles
        inside += max(self.wait - inside % self.period, 0)
        if self.repeat and inside >= self.repeat * self.period:
            return NEVER
        return inside + shift

    def action(self, step: int, actions: Any) -> Any:
        place = self.place(step)
        if place < self.wait:
            return actions.NONE
        if place < self.wait + self.warmup:
            return actions.WARMUP
        if place < self.period - 1:
            return actions.RECORD
        return actions.RECORD_AND_SAVE


def parse(config: str) -> tuple[bool, Schedule, dict[str, bool]] | None:
    """The word torch= of LAPWING_AGENT's text: whether it is only for a GPU, when, and
    torch's arguments. None: no windows are wanted."""
    text = dict(part.partition("=")[::2] for part in config.split(",")).get("torch", "")
    if not text:
        return None
    numbers = dict.fromkeys(NUMBERS, 0)
    flags = {}
    for word in text.split(";"):
        name, _, value = word.partition(":")
        if name in numbers and value.isdigit():
            numbers[name] = int(value)
        elif name in FLAGS:
            flags[FLAGS[name]] = True
    if numbers["active"] < 1:
        return None
    return "auto" in text.split(";"), Schedule(numbers), flags


# ---- windows -------------------------------------------------------------------------


class Windows:
    """The windows of one process.

    Its hooks (hook(), below) tell it when a loader is asked for a batch and when an
    optimizer has made a step. A step of the training is a batch with which an optimizer
    stepped; without a loader it ends with the last of the optimizers that take turns.
    """

    def __init__(
        self,
        config: str,
        torch: Any,
        only_gpu: bool,
        schedule: Schedule,
        flags: dict[str, bool],
    ) -> None:
        self.config = config
        self.torch = torch
        self.only_gpu = only_gpu
        self.schedule = schedule
        self.flags = flags
        self.begin()

    def begin(self) -> None:
        """As if nothing had happened."""
        self.thread = 0  # of the training; 0: not known yet
        self.number = 0  # of the step that runs
        self.next = self.schedule.next_window(0)
        self.by_loader = False  # batches bound the steps, else optimizers
        self.has_trained = False  # in the step that runs
        self.optimizers: list[int] = []  # that take turns; the last ends a step
        self.profile: Any = None  # torch's, in a window of ours
        self.is_ours = False  # it is us who call torch
        self.has_foreign = False  # the program has a profiler of its own
        self.has_said = False
        self.saved = 0

    def begin_in_child(self) -> None:
        """After a fork. A window that is open is the parent's, and so this process's
        torch believes for ever that it is being profiled: then it has none."""
        had_profiler = self.profile is not None or self.has_foreign
        self.begin()
        self.has_said = True  # the parent speaks for the program
        if had_profiler:
            self.next = NEVER

    # ---- boundaries ----

    def on_data(self) -> None:
        """A loader is asked for a batch."""
        if not self.by_loader:
            self.by_loader = True
            if self.optimizers:
                return  # it has trained without: this step ends as they did
            self.number -= 1  # the first step begins here
        elif not self.has_trained and self.optimizers:
            return  # a batch to evaluate with, or one of several before an update
        self.has_trained = False
        self.step()

    def on_optimizer(self, optimizer: object) -> None:
        """An optimizer has made a step."""
        self.has_trained = True
        key = id(optimizer)
        is_known = key in self.optimizers
        ends = not self.optimizers or (is_known and key == self.optimizers[-1])
        if not is_known:
            self.optimizers = [*self.optimizers[-15:], key]
        if ends and not self.by_loader:
            self.step()

    def step(self) -> None:
        """A step has ended, and the next begins. Whatever goes wrong is only told."""
        self.number += 1
        if self.number < self.next and self.profile is None:
            return
        try:
            self._step()
        except Exception as error:
            self._give_up(error)

    def _step(self) -> None:
        schedule = self.schedule
        if self.thread and self.thread != threading.get_ident():
            self.number -= 1  # not the training that has the window
            return
        if self.profile is not None:
            if schedule.place(self.number - 1) != schedule.period - 1:
                self._call(self.profile.step)
                return
            self._close()
            self.next = schedule.next_window(self.number)
        if self.number >= self.next:
            self._open()

    # ---- one window ----

    def _open(self) -> None:
        torch = self.torch
        if self.only_gpu and not torch.cuda.is_initialized():
            self.next = self.schedule.next_window(self.number + 1)
            return
        if self.has_foreign or torch.autograd._profiler_enabled():
            self._step_aside()
            return
        actions = torch.profiler.ProfilerAction
        with open(hidden_path(traces_folder(self.config)), "wb"):
            pass  # if we are killed in the window, the recorder sees that there was one
        self.thread = threading.get_ident()
        # One for each window: torch warns where one is used again.
        profile = torch.profiler.profile(
            schedule=lambda step: self.schedule.action(step, actions),
            on_trace_ready=self._save,
            **self.flags,
        )
        # It begins with this step, not with the program's first.
        profile.step_num = self.number
        profile.current_action = self.schedule.action(self.number, actions)
        profile._prev_schedule_action = profile.current_action
        self.profile = profile
        self._call(profile.start)
        let_kineto_speak()

    def _close(self) -> None:
        """End the window that is open; what it has recorded is saved."""
        profile, self.profile = self.profile, None
        self.thread = 0
        try:
            self._call(profile.stop)
        finally:
            self._forget()

    def _call(self, method: Callable[[], None]) -> None:
        self.is_ours = True
        try:
            method()
        finally:
            self.is_ours = False

    def _save(self, profile: Any) -> None:
        schedule = self.schedule
        ended = schedule.place(self.number - 1) == schedule.period - 1
        if not ended and schedule.place(self.number) == schedule.wait + schedule.warmup:
            return  # the program ended in the first of its steps
        put_in_run(self.config, profile.profiler.export_chrome_trace)
        self.saved += 1

    def _forget(self) -> None:
        """Nothing of a window is in the run's folder any more, but what was saved."""
        with suppress(OSError):
            os.unlink(hidden_path(traces_folder(self.config)))

    # ---- trouble ----

    def _say(self, sentence: str) -> None:
        self.has_said = True
        note(self.config, sentence)

    def _abandon(self) -> None:
        """End the window that is open, if one is, and save nothing."""
        if self.profile is not None:
            self.profile.on_trace_ready = None
            self._close()

    def _step_aside(self) -> None:
        """The program profiles itself: what is left of this window is its own."""
        self._abandon()
        rest = self.schedule.period - self.schedule.place(self.number)
        self.next = self.schedule.next_window(self.number + rest)
        self._say(
            "the program ran torch's profiler itself, and two cannot run at once: a "
            "window of --torch was left out"
        )

    def _give_up(self, error: Exception) -> None:
        self.next = NEVER
        with suppress(Exception):
            self._abandon()
        self._say(
            "no more windows of torch's profiler: "
            f"{type(error).__name__}: {str(error)[:300]}"
        )

    # ---- the program's own profiler ----

    def watch_out(self) -> None:
        """Notice, before torch does, that the program starts a profiler of its own:
        whichever way it goes, it calls one of these by these names."""
        module = self.torch.autograd.profiler
        for name, starts in (
            ("_prepare_profiler", True),
            ("_enable_profiler", True),
            ("_disable_profiler", False),
        ):
            setattr(module, name, self._announced(getattr(module, name), starts))

    def _announced(self, original: Any, starts: bool) -> Any:
        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            if not self.is_ours:
                self._foreign(starts)
            return original(*args, **kwargs)

        return call

    def _foreign(self, starts: bool) -> None:
        self.has_foreign = starts
        if starts and self.profile is not None:
            try:
                self._step_aside()
            except Exception as error:
                self._give_up(error)

    # ---- the end ----

    def finish(self) -> None:
        """The program ends. A window that is open is kept as far as it went, as torch
        does when its block is left."""
        try:
            if self.profile is not None:
                self._close()
            if not (self.saved or self.only_gpu or self.has_said) and self.number > 0:
                first = self.schedule.next_window(0) + self.schedule.warmup
                self._say(
                    "no window of torch's profiler was recorded: the program ended in "
                    f"step {self.number}, and the schedule records from step {first} on"
                )
        except Exception as error:
            self._give_up(error)


LOG_LEVEL = "KINETO_LOG_LEVEL"


def hush_kineto() -> None:
    """Keep Kineto from printing "USDT: ... profiler_start" (2.13 does) for windows that
    the program knows nothing of. It looks at this once, when its first profiler starts;
    os.environ does not show it. Now, because who changes the environment later may meet
    a thread that reads it."""
    if LOG_LEVEL not in os.environ:
        os.putenv(LOG_LEVEL, "99")


def let_kineto_speak() -> None:
    """It has looked: child programs shall not find what was not there."""
    if LOG_LEVEL not in os.environ:
        os.unsetenv(LOG_LEVEL)


def hook(windows: Windows, torch: Any) -> None:
    """Have the loaders and optimizers of TORCH tell WINDOWS what they do.

    Not by torch's hooks for optimizers, which run inside the range that torch announces
    for a step: a window that begins or ends in there would cut it in two."""
    is_compiling = torch.compiler.is_compiling  # dynamo sees a constant, and no call
    batches = torch.utils.data.dataloader._BaseDataLoaderIter
    next_batch = batches.__next__
    optimizers = torch.optim.Optimizer
    make_step = optimizers.profile_hook_step

    @functools.wraps(next_batch)
    def __next__(self: Any) -> Any:  # noqa: N807
        windows.on_data()
        return next_batch(self)

    @functools.wraps(make_step)
    def profile_hook_step(function: Any) -> Any:
        inner = make_step(function)

        @functools.wraps(inner)
        def step(*args: Any, **kwargs: Any) -> Any:
            result = inner(*args, **kwargs)
            if not is_compiling():
                windows.on_optimizer(args[0])
            return result

        return step

    batches.__next__ = __next__
    optimizers.profile_hook_step = staticmethod(profile_hook_step)


def crashes_with_stacks(torch: Any) -> bool:
    """Up to 2.6 torch reads a module's frame as Pythons before 3.13 had it."""
    if sys.version_info < (3, 13):
        return False
    numbers = re.findall(r"\d+", torch.__version__)
    return tuple(int(number) for number in numbers[:2]) < (2, 7)


def start(config: str, torch: Any) -> Windows | None:
    """Take windows in this process, if LAPWING_AGENT's text CONFIG asks for any. TORCH
    is the module, which the program has just imported."""
    asked = parse(config)
    if asked is None:
        return None
    only_gpu, schedule, flags = asked
    if only_gpu and not (torch.version.cuda or getattr(torch.version, "hip", None)):
        return None
    if flags.get("with_stack") and crashes_with_stacks(torch):
        flags["with_stack"] = False
        note(
            config,
            f"torch {torch.__version__} crashes when its profiler records stacks on "
            "Python 3.13 and later: the windows are without them",
        )
    windows = Windows(config, torch, only_gpu, schedule, flags)
    try:
        windows.watch_out()
        hook(windows, torch)
    except AttributeError as error:
        note(
            config,
            f"torch's profiler took no window: torch {torch.__version__} lacks what it "
            f"is driven by ({error}), which {OLDEST} and later have",
        )
        return None
    hush_kineto()
    os.register_at_fork(after_in_child=windows.begin_in_child)
    atexit.register(windows.finish)
    return windows
