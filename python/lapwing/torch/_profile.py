"""profile: torch's, with what it lacks; see the package's own words."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import torch.profiler
from torch.profiler import ProfilerAction

from lapwing.torch import _trace
from lapwing.torch._events import EventList, repaired

RECORDS = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


class profile(torch.profiler.profile):
    """torch.profiler.profile: same arguments, methods and behaviour, but for what the
    head of lapwing.torch says. What follows is torch's own text.

    """

    __doc__ = f"{__doc__}{torch.profiler.profile.__doc__}"

    _lapwing_trace: _trace.SavedTrace | None = None
    _lapwing_has_recorded = False
    _lapwing_first_step: int | None = None  # of what is being recorded

    def start_trace(self) -> None:
        super().start_trace()
        if self.current_action in RECORDS:  # and not at the end of a warm-up
            self._lapwing_first_step = self.step_num
            self._lapwing_has_recorded = True

    def stop_trace(self) -> None:
        first, self._lapwing_first_step = self._lapwing_first_step, None
        self._lapwing_trace = None
        super().stop_trace()
        # A window that was left in its first step shows nothing, and the run would take
        # it for the latest.
        is_empty = self.record_steps and first == self.step_num
        if first is not None and not is_empty and _trace.can_save(self):
            self._lapwing_trace = _trace.put_in_run(self.profiler)

    def stop(self) -> None:
        super().stop()
        if self.record_steps and not self._lapwing_has_recorded:
            warnings.warn(
                f"the schedule never recorded: the profiler was stopped in step "
                f"{self.step_num}, before the first that it records",
                stacklevel=2,
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

    def key_averages(self, *args: Any, **kwargs: Any) -> EventList:
        if self.profiler is not None:
            self.events()  # so that what torch asks for averages is ours
        return repaired(super().key_averages(*args, **kwargs))

    key_averages.__doc__ = torch.profiler.profile.key_averages.__doc__
