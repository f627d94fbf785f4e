"""profile: torch's, with what it lacks; see the package's own words."""

from __future__ import annotations

import functools
import inspect
import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch.profiler
from torch.profiler import ProfilerAction

from lapwing.torch import _trace
from lapwing.torch._events import EventList, repaired

RECORDS = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)
PARENTS = (os.path.dirname(torch.profiler.__file__), os.path.dirname(__file__))


class profile(torch.profiler.profile):
    """torch.profiler.profile: same arguments, methods and behaviour, but for what the
    head of lapwing.torch says. What follows is torch's own text.

    """

    __doc__ = f"{__doc__}{torch.profiler.profile.__doc__}"

    _lapwing_trace: _trace.SavedTrace | None = None
    _lapwing_has_recorded = False
    _lapwing_first_step: int | None = None  # of what is being recorded

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # No method that torch calls while it records is overridden: with stacks it
        # would be a frame among the program's. What we do is done just before the
        # recording starts and just after it has stopped.
        for actions in self.action_map.values():
            actions[:] = self._with_ours(actions)
        for action in (ProfilerAction.NONE, ProfilerAction.WARMUP):
            at_end = self.action_map.setdefault((action, None), [])
            at_end.append(self._lapwing_at_end)

    def _with_ours(self, actions: list[Any]) -> Iterator[Any]:
        for action in actions:
            if action == self.start_trace:
                yield self._lapwing_before_start
            yield action
            if action == self.stop_trace:
                yield self._lapwing_after_stop

    def _lapwing_before_start(self) -> None:
        if self.current_action in RECORDS:  # and not at the end of a warm-up
            self._lapwing_first_step = self.step_num
            self._lapwing_has_recorded = True

    def _lapwing_after_stop(self) -> None:
        first, self._lapwing_first_step = self._lapwing_first_step, None
        self._lapwing_trace = None
        # A window that was left in its first step shows nothing, and the run would take
        # it for the latest.
        is_empty = self.record_steps and first == self.step_num
        if first is not None and not is_empty and _trace.can_save(self):
            self._lapwing_trace = _trace.put_in_run(self.profiler)

    def _lapwing_at_end(self) -> None:
        if self.record_steps and not self._lapwing_has_recorded:
            warnings.warn(
                f"the schedule never recorded: the profiler was stopped in step "
                f"{self.step_num}, before the first that it records",
                stacklevel=_level_of_program(),
            )

    def export_chrome_trace(
        self, path: str | os.PathLike[str], *args: Any, **kwargs: Any
    ) -> None:
        path = os.fspath(path)
        if not _trace.can_save(self, *args, **kwargs):
            super().export_chrome_trace(path, *args, **kwargs)
            return
        if self._lapwing_trace is None:
            folder = Path(path).absolute().parent
            self._lapwing_trace = _trace.save(self.profiler, folder)
        self._lapwing_trace.copy_to(path)

    export_chrome_trace.__doc__ = torch.profiler.profile.export_chrome_trace.__doc__

    def events(self) -> EventList:
        return repaired(super().events())

    events.__doc__ = torch.profiler.profile.events.__doc__

    def key_averages(
        self, *args: Any, python_functions: bool = False, **kwargs: Any
    ) -> EventList:
        """PYTHON_FUNCTIONS keeps the Python functions and modules that with_stack=True
        adds, as torch does; the rest is torch's own text.

        """
        if self.profiler is None:
            return repaired(super().key_averages(*args, **kwargs))
        events = self.events()  # so that what torch asks for averages is ours
        if not python_functions:
            return repaired(super().key_averages(*args, **kwargs))
        words = KEY_AVERAGES.bind(self, *args, **kwargs)
        words.apply_defaults()
        _, *groups = words.arguments.values()  # EventList's have other names
        return events.key_averages(*groups, python_functions=True)

    key_averages.__doc__ = (
        f"{key_averages.__doc__}{torch.profiler.profile.key_averages.__doc__}"
    )


# So that its signature is torch's.
functools.update_wrapper(profile.__init__, torch.profiler.profile.__init__)

KEY_AVERAGES = inspect.signature(torch.profiler.profile.key_averages)


def _level_of_program() -> int:
    """The stacklevel at which our caller's warning points at the program."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back and frame.f_code.co_filename.startswith(PARENTS):
        level, frame = level + 1, frame.f_back
    return level
