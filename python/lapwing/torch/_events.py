"""torch's lists of events with a table whose columns are right.

The text is made by torch itself, so that it is the text of whatever version is there.
Only what is wrong is made right before: the order of rows, which rows there are, and
the cells that torch puts under each other's heads.
"""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Callable
from typing import Any

from torch.autograd.profiler_util import EventList as TorchEventList

COLUMNS = (
    "name",
    "overload_name",
    "self_cpu_time_total",
    "cpu_time_total",
    "cpu_time",
    "self_device_time_total",
    "device_time_total",
    "device_time",
    "cpu_memory_usage",
    "self_cpu_memory_usage",
    "device_memory_usage",
    "self_device_memory_usage",
    "count",
    "node_id",
    "input_shapes",
    "stack",
    "flops",
)
"""What `sort_by` may be; `cuda`, `xpu` or `privateuse1` may stand for `device`."""

FLOPS_WIDTH = 12
GAP = "  "


class EventList(TorchEventList):
    """torch's EventList, as events() and key_averages() of lapwing.torch give it."""

    def table(self, *args: Any, **kwargs: Any) -> str:
        bound = inspect.signature(TorchEventList.table).bind(self, *args, **kwargs)
        words = bound.arguments
        del words["self"]
        events = self
        sort_by = words.pop("sort_by", None)
        if sort_by is not None:
            key = _sort_key(sort_by)
            events = self._like(sorted(self, key=key, reverse=True))
        if events and events._with_flops and _has_stack(events):
            return _table_with_stacks_and_flops(events, words)
        return str(TorchEventList.table(events, **words))

    table.__doc__ = TorchEventList.table.__doc__

    def key_averages(
        self, *args: Any, python_functions: bool = False, **kwargs: Any
    ) -> EventList:
        # with_stack=True adds each Python function as an event. They hold the ops they
        # call, so as rows among them they count all time twice: only where asked for.
        ops = [
            e
            for e in self
            if python_functions or not getattr(e, "is_python_function", False)
        ]
        if len(ops) == len(self):
            return repaired(super().key_averages(*args, **kwargs))
        events = self._like(ops)
        events._tree_built = self._tree_built
        return repaired(TorchEventList.key_averages(events, *args, **kwargs))

    key_averages.__doc__ = TorchEventList.key_averages.__doc__

    def _like(self, events: list[Any]) -> EventList:
        """EVENTS as a list with all that this one says of itself."""
        return EventList(
            events,
            use_device=self._use_device,
            profile_memory=self._profile_memory,
            with_flops=self._with_flops,
        )


def repaired(events: TorchEventList) -> EventList:
    """EVENTS, which torch made, itself: from now on its table is right."""
    events.__class__ = EventList
    return events  # type: ignore[no-any-return]


def _sort_key(sort_by: str) -> Callable[[Any], Any]:
    column = sort_by
    for device in ("cuda", "xpu", "privateuse1"):
        column = column.replace(device, "device")
    if column == "key":
        column = "name"
    if column not in COLUMNS:
        known = ", ".join(COLUMNS)
        raise ValueError(
            f"there is no column {sort_by!r} to sort by; there are {known} "
            "(cuda or xpu may be written for device)"
        )
    if column == "name":
        return lambda event: event.key
    if column in ("input_shapes", "stack", "overload_name"):
        return lambda event: str(getattr(event, column, None) or "")
    return lambda event: getattr(event, column)


def _has_stack(events: EventList) -> bool:
    return any(event.stack for event in events)


def _scale_flops(events: EventList) -> tuple[float, str] | None:
    """What to multiply FLOPs by, and the head of their column; None: there are none."""
    least = min((event.flops for event in events if event.flops > 0), default=None)
    if least is None:
        return None
    power = math.floor(max(0.0, min(math.log10(least) / 3, 5.0)))
    return 10.0 ** (-3 * power), f"Total {('', 'K', 'M', 'G', 'T', 'P')[power]}FLOPs"


def _table_with_stacks_and_flops(events: EventList, words: dict[str, Any]) -> str:
    """torch 2.13 writes the heads "Source Location, Total FLOPs" over cells in the
    other order. So it is asked for stacks alone, and each line of a stack already has
    the cell of FLOPs behind it; the heads and rules follow."""
    scaled = _scale_flops(events)
    if scaled is None:
        return str(TorchEventList.table(events, **words))
    scale, title = scaled
    width = max(len(line) for event in events for line in event.stack or ()) + 4
    if (most := words.get("max_src_column_width", 75)) is not None:
        width = min(width, most)

    def cells(event: Any) -> list[str]:
        figure = f"{event.flops * scale:8.3f}" if event.flops > 0 else "--"
        lines = [_cut_left(line, width) for line in event.stack or ()] or [""]
        figures = [figure, *[""] * (len(lines) - 1)]
        return [
            f"{line:<{width}}{GAP}{number:>{FLOPS_WIDTH}}"
            for line, number in zip(lines, figures, strict=True)
        ]

    shown = events._like([copy.copy(event) for event in events])
    shown._with_flops = False
    for event in shown:
        event.stack = cells(event)
    both = width + len(GAP) + FLOPS_WIDTH
    text = str(TorchEventList.table(shown, **{**words, "max_src_column_width": both}))
    rule = "-" * width + GAP + "-" * FLOPS_WIDTH
    text = text.replace(f"{GAP}{'-' * both}{GAP}\n", f"{GAP}{rule}{GAP}\n")
    head = f"{'Source Location':<{both}}{GAP}\n"
    heads = f"{'Source Location':<{width}}{GAP}{title:>{FLOPS_WIDTH}}{GAP}\n"
    return text.replace(head, heads, 1)


def _cut_left(line: str, width: int) -> str:
    if len(line) <= width:
        return line
    return "..." + line[len(line) - width + 3 :] if width > 3 else line[-width:]
