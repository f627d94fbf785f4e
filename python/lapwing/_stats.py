"""From what the agent has added up to what pstats and _lsprof show."""

from __future__ import annotations

from collections import namedtuple
from types import CodeType

Label = tuple[str, int, str]  # file, line, name: how pstats knows a function
Cost = tuple[int, int, float, float]
Stats = dict[Label, tuple[int, int, float, float, dict[Label, Cost]]]
Function = tuple[CodeType | None, str | None, int, str]  # code, file, line, name
# Caller (0: all of them), function, calls, primitive calls, self and total ticks.
Row = tuple[int, int, int, int, int, int]
Totals = tuple[dict[int, Function], list[Row], float, bool]

NOTES = {0xFFFFFFFE: "(more)", 0xFFFFFFFD: "(unknown)"}  # the agent's own words

Entry = namedtuple(
    "Entry", "code callcount reccallcount totaltime inlinetime calls", defaults=(None,)
)

ANY_CODE = (lambda: None).__code__

# By cause, as enum lw_agent_loss (src/agent/layout.h) has them: those that a Profile
# can have. tests/live/test_losses.py compares.
OWN_HOOK = "the program had a profile function of its own: "
LOSSES = {
    0: "the call tree was full: {} calls have no callers",  # LW_LOST_NODES
    2: "{} threads were not counted: there was no place for more",  # LW_LOST_THREADS
    # LW_LOST_MISMATCH
    4: "{} returns fitted no call: calls around them may be out of place",
    5: OWN_HOOK + "builtins were not counted meanwhile",  # LW_LOST_HOOKED
    # LW_LOST_TOOLS
    9: "the program had all tool ids of sys.monitoring: no call was counted meanwhile",
    10: OWN_HOOK + "the calls of a deep recursion were not counted",  # LW_LOST_DEEP
    # LW_LOST_GETITEM
    11: OWN_HOOK + "a[i] that called a __getitem__ was not counted meanwhile",
}


def label(functions: dict[int, Function], number: int) -> Label:
    if number in NOTES:
        return ("~", 0, NOTES[number])
    _, file, line, name = functions[number]
    return ("~" if file is None else file, line, name)


def add(cost: Cost | None, more: Cost) -> Cost:
    if cost is None:
        return more
    return (cost[0] + more[0], cost[1] + more[1], cost[2] + more[2], cost[3] + more[3])


def make_stats(totals: Totals) -> Stats:
    """The dict that pstats.Stats reads. Functions that print alike are added up."""
    functions, rows, tick_s, subcalls = totals
    stats: Stats = {}
    pairs: dict[Label, dict[Label, Cost]] = {}
    for caller, number, calls, primitive, self_ticks, total_ticks in rows:
        if calls == 0:
            continue  # running since before recording began
        name = label(functions, number)
        times = (self_ticks * tick_s, total_ticks * tick_s)
        callers = pairs.setdefault(name, {})
        if caller == 0:
            known = stats.get(name)
            cost = add(known and known[:4], (primitive, calls, *times))
            stats[name] = (*cost, callers)
        elif subcalls:
            # In a pair, pstats has all calls first and primitive ones second.
            from_name = label(functions, caller)
            callers[from_name] = add(callers.get(from_name), (calls, primitive, *times))
    return stats


def code_of(functions: dict[int, Function], number: int) -> CodeType | str:
    """What _lsprof has of a function: its code, or the name of a builtin. For code that
    is gone there is one that looks like it."""
    if number in NOTES:
        return NOTES[number]
    code, file, line, name = functions[number]
    if code or file is None:
        return code or name
    return ANY_CODE.replace(co_filename=file, co_firstlineno=line, co_name=name)


def make_entries(totals: Totals) -> list[Entry]:
    """The list that _lsprof.Profiler.getstats() gives."""
    functions, rows, tick_s, subcalls = totals
    codes = {row[1]: code_of(functions, row[1]) for row in rows if row[0] == 0}
    callees: dict[int, list[Entry]] = {}
    found: list[tuple[int, Entry]] = []
    for caller, number, calls, primitive, self_ticks, total_ticks in rows:
        if calls == 0:
            continue
        entry = Entry(
            codes[number],
            calls,
            calls - primitive,
            total_ticks * tick_s,
            self_ticks * tick_s,
        )
        if caller == 0:
            found.append((number, entry))
        elif subcalls:
            callees.setdefault(caller, []).append(entry)
    return [entry._replace(calls=callees.get(number)) for number, entry in found]


def say_losses(losses: list[int]) -> list[str]:
    return [
        text.format(losses[cause]) for cause, text in LOSSES.items() if losses[cause]
    ]
