"""Windows of torch's profiler, for the run that records this process.

Two things are here. What `lapwing run --torch` does in an unmodified script: torch's
own profiler is started and stopped at the boundaries of steps, as a plan says (a
schedule, or an order: _lapwing_order.py), and what it saw is put where it was asked
for. And the way into the run, which lapwing.torch.profile uses too: torch writes its
trace into the run's folder (src/lap/traces.h says under which names).

It runs in somebody else's program: nothing here raises into it or prints. Where steps
end the agent says (python/_lapwing/steps_bounds.c), as long as somebody asks; between
windows a step costs one comparison. Kineto can serve one profiler at a time; the
program's own comes first, and ours steps aside.
"""

from __future__ import annotations

import atexit
import gc
import os
import re
import socket
import stat
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

OLDEST = "2.6"  # what tests/live/test_torch_windows.py has seen work
NEVER = sys.maxsize
SILENT = 99  # no message of Kineto's is so grave
PHASE = "torch's profiler (Lapwing)"  # the time that we take, as the report names it

NUMBERS = ("wait", "warmup", "active", "repeat", "skip_first", "skip_first_wait")
FLAGS = {
    "shapes": "record_shapes",
    "memory": "profile_memory",
    "stack": "with_stack",
    "flops": "with_flops",
    "modules": "with_modules",
}


# ---- trouble -------------------------------------------------------------------------


_agent: Any = None  # the extension, in a process that it watches


def is_programs(error: BaseException) -> bool:
    """Whether ERROR, which came while our code ran, is the program's: what a signal's
    handler raises goes on to it (python/_lapwing/error.h)."""
    if _agent is None:
        return not isinstance(error, Exception)
    return bool(_agent.is_programs(error))


class ours:
    """Go on after an error of KIND, as suppress() does, if it is not the program's."""

    def __init__(self, kind: type[Exception]) -> None:
        self.kind = kind

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> bool:
        return isinstance(error, self.kind) and not is_programs(error)


# ---- the run -------------------------------------------------------------------------


def socket_of(config: str) -> str:
    """Where the recorder listens, out of LAPWING_AGENT's text."""
    return config.split(",")[0].partition("=")[2]


def is_trusted(uid: int) -> bool:
    """Is UID ours or root's? Nobody else's folders, links and sockets are believed."""
    return uid in (0, os.geteuid())


@contextmanager
def opened(path: str, dir_fd: int | None = None) -> Iterator[int]:
    """The descriptor of the folder PATH, which is no link, for the length of a block:
    none of ours stays open in somebody else's program."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(path, flags, dir_fd=dir_fd)
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def socket_folder(config: str) -> Iterator[int]:
    """The descriptor of the folder that the recorder's socket is in. It lies where
    every user may make folders, and may be gone: PermissionError: it is another's."""
    with opened(os.path.dirname(socket_of(config))) as fd:
        about = os.fstat(fd)
        if not is_trusted(about.st_uid) or about.st_mode & 0o022:
            raise PermissionError("the recorder's folder is another user's")
        yield fd


@contextmanager
def same_folder(path: str, identity: str) -> Iterator[int]:
    """The descriptor of the folder PATH, if it is still the one of that IDENTITY
    (lw_folder_identity()): who may write above it may have put another one there."""
    with opened(path) as fd:
        about = os.fstat(fd)
        if identity != f"{about.st_dev}:{about.st_ino}":
            raise PermissionError(f"{path} is another folder now")
        yield fd


def path_below(fd: int, name: str) -> str:
    """What torch, which takes no descriptor, may call NAME in the folder FD."""
    return f"/proc/self/fd/{fd}/{name}"


def note(config: str, sentence: str) -> None:
    """A sentence for the report of the run (agent/layout.h, struct lw_agent_hello)."""
    text = sentence.encode("utf-8", "replace")
    hello = struct.pack("=QIIII", 0x31474E4957504C4C, 1, 3, len(text), 0)
    path = socket_of(config)
    with (
        ours(OSError),
        socket_folder(config),
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as speaker,
    ):
        speaker.setblocking(False)  # never wait for the recorder
        speaker.connect(path)
        peer = speaker.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        if is_trusted(struct.unpack("3i", peer)[1]):
            speaker.send(hello + text)


@contextmanager
def traces_folder(config: str) -> Iterator[int]:
    """The descriptor of the run's folder of traces, made if need be. OSError: there is
    no run any more."""
    with socket_folder(config) as fd:
        path, identity = (os.readlink(name, dir_fd=fd) for name in ("run", "run-id"))
    with same_folder(path, identity) as run:
        with suppress(FileExistsError):
            os.mkdir("traces", 0o700, dir_fd=run)
        with opened("traces", run) as traces:
            yield traces


def hidden_name() -> str:
    """What this process's window is called until it is whole."""
    return f".lapwing-{os.getpid()}.json"


def make_new(folder: int, name: str, content: bytes = b"") -> None:
    """A new file of ours, in place of what may be there."""
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(name, flags, 0o600, dir_fd=folder)
    try:
        while content:
            content = content[os.write(fd, content) :]
    finally:
        os.close(fd)


def read_own(folder: int, name: str) -> str:
    """The text of a file that is ours or root's. OSError: there is no such file."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    fd = os.open(name, flags, dir_fd=folder)
    try:
        about = os.fstat(fd)
        if not stat.S_ISREG(about.st_mode) or not is_trusted(about.st_uid):
            raise PermissionError(f"{name} is not ours")
        return os.read(fd, 65536).decode("utf-8", "surrogateescape")
    finally:
        os.close(fd)


def _owner() -> str:
    rank = os.environ.get("RANK", "")
    return f"rank{int(rank)}" if rank.isdigit() else f"pid{os.getpid()}"


def put_in_run(config: str, write: Callable[[str], None]) -> str:
    """Have WRITE write a trace at the path it is given, and put it into the run.
    Returns the path. OSError: it could not be, and nothing is left of it."""
    with traces_folder(config) as folder:
        return _put_in(folder, write)


def _put_in(folder: int, write: Callable[[str], None]) -> str:
    hidden = hidden_name()
    try:
        make_new(folder, hidden)
        write(path_below(folder, hidden))
        if os.stat(hidden, dir_fd=folder, follow_symlinks=False).st_size == 0:
            raise OSError("torch wrote nothing")
        start = _owner() + "-"
        names = set(os.listdir(folder))
        number = 1 + sum(name.startswith(start) for name in names)
        while True:
            name = f"{start}{number:06d}.pt.trace.json"
            if name not in names and name + ".gz" not in names:
                os.rename(hidden, name, src_dir_fd=folder, dst_dir_fd=folder)
                return os.path.join(os.readlink(f"/proc/self/fd/{folder}"), name)
            number += 1
    except BaseException:
        with ours(OSError):
            os.unlink(hidden, dir_fd=folder)
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


class Scheduled:
    """The windows that a schedule asks for, which go into the run."""

    takes_calls = False  # they are no steps of a training

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
        self.saved = 0
        self.has_said = False
        self.number = 0  # of the step that runs
        self.next = schedule.next_window(0)

    def is_due(self, number: int) -> bool:
        self.number = number
        if number < self.next:
            return False
        if self.only_gpu and not self.torch.cuda.is_initialized():
            self.next = self.schedule.next_window(number + 1)
            return False
        return True

    def begin(self, number: int) -> None:
        # If we are killed in the window, the recorder sees that there was one.
        with traces_folder(self.config) as folder:
            make_new(folder, hidden_name())

    def action(self, step: int, actions: Any) -> Any:
        return self.schedule.action(step, actions)

    def goes_on(self, number: int) -> bool:
        self.number = number
        return self.schedule.place(number - 1) != self.schedule.period - 1

    def save(self, profile: Any) -> None:
        schedule, number = self.schedule, self.number
        ended = schedule.place(number - 1) == schedule.period - 1
        if not ended and schedule.place(number) == schedule.wait + schedule.warmup:
            return  # the program ended in the first of its steps
        put_in_run(self.config, profile.profiler.export_chrome_trace)
        self.saved += 1

    def end(self) -> None:
        """Nothing of a window is in the run's folder any more, but what was saved."""
        self.next = self.schedule.next_window(self.number)
        with ours(OSError), traces_folder(self.config) as folder:
            os.unlink(hidden_name(), dir_fd=folder)

    def say(self, sentence: str) -> None:
        self.has_said = True
        note(self.config, sentence)

    def step_aside(self) -> None:
        """The program profiles itself: what is left of this window is its own."""
        rest = self.schedule.period - self.schedule.place(self.number)
        self.next = self.schedule.next_window(self.number + rest)
        self.say(
            "the program ran torch's profiler itself, and two cannot run at once: a "
            "window of --torch was left out"
        )

    def wait(self) -> None:
        self.step_aside()

    def give_up(self, error: BaseException) -> None:
        self.next = NEVER
        self.say(
            "no more windows of torch's profiler: "
            f"{type(error).__name__}: {str(error)[:300]}"
        )

    def finish(self) -> None:
        if not (self.saved or self.only_gpu or self.has_said) and self.number > 0:
            first = self.schedule.next_window(0) + self.schedule.warmup
            self.say(
                "no window of torch's profiler was recorded: the program ended in "
                f"step {self.number}, and the schedule records from step {first} on"
            )

    def begin_in_child(self, can_profile: bool) -> Scheduled | None:
        """What a forked child is to do; the parent speaks for the program."""
        if not can_profile:
            return None
        parts = (self.config, self.torch, self.only_gpu, self.schedule, self.flags)
        child = Scheduled(*parts)
        child.has_said = True
        return child


# ---- windows -------------------------------------------------------------------------


class Windows:
    """torch's profiler in this process: one window at a time, each of whole steps."""

    def __init__(self, torch: Any, agent: Any) -> None:
        global _agent
        _agent = agent
        self.torch = torch
        self.agent = agent
        self.schedule: Scheduled | None = None
        self.order: Any = None  # of _lapwing_order.py
        self.can_profile = True
        self.log_level = 0  # Kineto's own
        self.has_woken_kineto = False
        self.begin()

    def begin(self) -> None:
        """As if nothing had happened."""
        self.thread = 0  # of the window
        self.number = 0  # of the step that runs
        self.plan: Any = None  # of the window that is open
        self.profile: Any = None  # torch's, in it
        self.is_ours = False  # it is us who call torch
        self.has_foreign = False  # the program has a profiler of its own

    def start(self) -> None:
        """AttributeError: this torch cannot be driven."""
        self.watch_out()
        os.register_at_fork(
            before=self.agent.guarded(self._before_fork),
            after_in_child=self.agent.guarded(self.begin_in_child),
        )
        atexit.register(self.agent.guarded(self.finish))

    def begin_in_child(self) -> None:
        """After a fork. A window that is open is the parent's, but this process's torch
        believes that it is being profiled, and would crash at its end: it is told that
        it is not. Where that cannot be, it has no windows."""
        profile, is_mine = self.profile, self.thread == threading.get_ident()
        try:
            if profile is not None and is_mine:
                profile.on_trace_ready = None
                self._call(profile.stop)
            self.can_profile = not self.has_foreign and (profile is None or is_mine)
        except BaseException as error:
            self.can_profile = False
            if is_programs(error):
                self.begin()
                raise
        self.begin()
        self.order = None
        if self.schedule is not None:
            self.schedule = self.schedule.begin_in_child(self.can_profile)
        self.listen()

    def listen(self) -> None:
        """Hear of steps as long as there is something to do at them."""
        wanted = self.schedule is not None or self.order is not None
        self.agent.on_step(self.step if wanted else None)

    # ---- steps ----

    def step(self, is_first: bool, is_call: bool) -> None:
        """A step has ended (unless it is the first) and the next begins, or, if it
        IS_CALL, might. Whatever goes wrong is only told."""
        if self.is_ours:
            return
        schedule = self.schedule
        if not (is_first or is_call):
            self.number += 1
        if (
            self.plan is None
            and self.order is None
            and schedule is not None
            and self.number < schedule.next
        ):
            schedule.number = self.number
            return
        try:
            with self.agent.phase(PHASE):
                self._step(is_call)
        except BaseException as error:
            if is_programs(error):
                self._let_go()
                raise
            self._give_up(error)

    def _step(self, is_call: bool) -> None:
        plan = self.plan
        if plan is not None:
            if self.thread != threading.get_ident():
                self.number -= not is_call  # not the training that has the window
                return
            if is_call and not plan.takes_calls:
                return
            if plan.goes_on(self.number):
                self._call(self.profile.step)
                self._stop_thread()
                return
            self._close()
        for plan in (self.order, self.schedule):
            if plan is None or (is_call and not plan.takes_calls):
                continue
            if plan.is_due(self.number):
                self._open(plan)
                break
        if self.order is not None and self.order.is_over:
            self.order = None
            self.listen()

    # ---- one window ----

    def _open(self, plan: Any) -> None:
        torch = self.torch
        if self.has_foreign or torch.autograd._profiler_enabled():
            plan.wait()
            return
        actions = torch.profiler.ProfilerAction
        self.plan = plan
        self.thread = threading.get_ident()
        plan.begin(self.number)
        # One for each window: torch warns where one is used again.
        profile = torch.profiler.profile(
            schedule=lambda step: plan.action(step, actions),
            on_trace_ready=plan.save,
            **plan.flags,
        )
        # It begins with this step, not with the program's first.
        profile.step_num = self.number
        profile.current_action = plan.action(self.number, actions)
        profile._prev_schedule_action = profile.current_action
        self.profile = profile
        self._call(profile.start)
        self._stop_thread()

    def _close(self) -> None:
        """End the window that is open; what it has recorded is saved."""
        plan, profile = self.plan, self.profile
        self.plan = self.profile = None
        try:
            self._call(profile.stop)
        finally:
            plan.end()
        self._stop_thread()

    def _call(self, method: Callable[[], None]) -> None:
        self.is_ours = True
        self._hush()
        try:
            method()
        finally:
            self.agent.set_kineto_log(self.torch._C.__file__, self.log_level)
            self.is_ours = False

    def _hush(self) -> bool:
        """Keep Kineto from printing "USDT: ... profiler_start" (2.13 does) for a window
        that the program knows nothing of. Was it not silent?"""
        level = self.agent.set_kineto_log(self.torch._C.__file__, SILENT)
        if level != SILENT:
            self.log_level = level
        return bool(level != SILENT)

    def _stop_thread(self, must: bool = False) -> None:
        """If Kineto has come to life, for us, it has a thread that waits for orders. A
        forked child, which has it not, would wait for it at its end for ever
        (~ConfigLoader of torch 2.13). The training does not wait until it can be
        stopped: it is tried again, and MUST only be before a fork, and at the end."""
        if self.has_woken_kineto and "KINETO_USE_DAEMON" not in os.environ:
            library = self.torch._C.__file__
            self.has_woken_kineto = not self.agent.stop_kineto_thread(library, must)

    def _before_fork(self) -> None:
        self._stop_thread(must=True)

    # ---- trouble ----

    def _abandon(self) -> None:
        """End the window that is open, if one is, and save nothing."""
        if self.profile is not None:
            self.profile.on_trace_ready = None
            self._close()

    def _let_go(self) -> None:
        """The program is being interrupted: no window is open any more."""
        with ours(Exception):
            self._abandon()
        plan, self.plan = self.plan, None
        if plan is not None:  # it was about to begin
            plan.end()
        # An interrupted stop() leaves torch's profiler running, and torch crashes if
        # the process ends so.
        if not self.has_foreign and self.torch.autograd._profiler_enabled():
            with ours(Exception):
                self._call(self.torch.autograd.profiler._disable_profiler)

    def _give_up(self, error: BaseException) -> None:
        plan = self.plan or self.order or self.schedule
        with ours(Exception):
            self._abandon()
        self.plan = None
        if plan is not None:
            plan.give_up(error)

    # ---- the program's own profiler ----

    def watch_out(self) -> None:
        """Notice, before torch does, that the program starts a profiler of its own."""
        self.agent.on_profiler(self.torch.autograd.profiler, self._profiler)

    def find_foreign(self) -> None:
        """Now that the program runs: one that is about to start says so nowhere but in
        itself, and there is one if anybody counts its steps."""
        torch = self.torch
        if "ProfilerStep" in torch.autograd.profiler.KinetoStepTracker._step_dict:
            warmup = torch.profiler.ProfilerAction.WARMUP
            self.has_foreign = any(
                # Not isinstance(), which asks the thing itself.
                issubclass(type(thing), torch.profiler.profile)
                and thing.current_action == warmup
                for thing in gc.get_objects()
            )

    def _profiler(self, starts: bool, is_done: bool) -> None:
        """A profiler is being started or stopped, by us or the program; or IS_DONE."""
        if not self.is_ours:
            if not is_done:
                self._foreign(starts)
        elif is_done and starts and self._hush():  # Kineto has just chosen its level
            self.has_woken_kineto = True

    def _foreign(self, starts: bool) -> None:
        self.has_foreign = starts
        plan = self.plan
        if starts and plan is not None:
            try:
                self._abandon()
                plan.step_aside()
            except BaseException as error:
                if is_programs(error):
                    raise
                plan.give_up(error)

    # ---- the end ----

    def finish(self) -> None:
        """The program ends. A window that is open is kept as far as it went, as torch
        does when its block is left."""
        try:
            if self.profile is not None:
                self._close()
            if self.schedule is not None:
                self.schedule.finish()
            self._stop_thread(must=True)
        except BaseException as error:
            if is_programs(error):
                self._let_go()
                raise
            self._give_up(error)


def crashes_with_stacks(torch: Any) -> bool:
    """Up to 2.6 torch reads a module's frame as Pythons before 3.13 had it."""
    if sys.version_info < (3, 13):
        return False
    numbers = re.findall(r"\d+", torch.__version__)
    return tuple(int(number) for number in numbers[:2]) < (2, 7)


def start(
    config: str, torch: Any, agent: Any, lacks_ops: bool = False
) -> Windows | None:
    """Take windows in this process, if LAPWING_AGENT's text CONFIG asks for any. TORCH
    is the module, which the program has just imported. LACKS_OPS: its ops should be
    recorded and cannot be, so the window that is there for a GPU is for them too."""
    asked = parse(config)
    if asked is None:
        return None
    only_gpu, schedule, flags = asked
    replaces_ops = only_gpu and lacks_ops
    only_gpu = only_gpu and not lacks_ops
    if only_gpu and not (torch.version.cuda or getattr(torch.version, "hip", None)):
        return None
    if flags.get("with_stack") and crashes_with_stacks(torch):
        flags["with_stack"] = False
        note(
            config,
            f"torch {torch.__version__} crashes when its profiler records stacks on "
            "Python 3.13 and later: the windows are without them",
        )
    windows = Windows(torch, agent)
    windows.schedule = Scheduled(config, torch, only_gpu, schedule, flags)
    try:
        windows.start()
    except AttributeError as error:
        note(
            config,
            f"torch's profiler took no window: torch {torch.__version__} lacks what it "
            f"is driven by ({error}), which {OLDEST} and later have",
        )
        return None
    if replaces_ops:
        first = schedule.next_window(0) + schedule.warmup
        note(
            config,
            f"torch's own profiler records steps {first} to "
            f"{first + schedule.active - 1} of each process instead",
        )
    windows.listen()
    return windows
