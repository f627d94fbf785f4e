"""From calling-context trees to what pstats keeps: functions and caller pairs.

A node's function counts towards its total, and as a primitive call, only where it is
not already running further up the path; a caller-callee pair likewise. That is what
cProfile counts while the program runs; here it is read off the finished tree.
"""

from __future__ import annotations

from dataclasses import dataclass, field

Label = tuple[str, int, str]  # file, line, name: how pstats knows a function
Cost = tuple[int, int, float, float]
Stats = dict[Label, tuple[int, int, float, float, dict[Label, Cost]]]
Function = tuple[str | None, int, str]
Node = tuple[int, int, int, int, int]  # node, parent, function, calls, self ticks

NOTE = 0xFFFFFFF0  # function numbers from here on are the agent's own words
NOTES = {0xFFFFFFFE: "(more)", 0xFFFFFFFD: "(unknown)"}
ROOT = 0xFFFFFFFF


@dataclass
class Entry:
    """One function, or one caller-callee pair."""

    calls: int = 0
    primitive: int = 0
    self_ticks: int = 0
    total_ticks: int = 0
    running: int = 0  # activations on the path being walked
    callers: dict[int, Entry] = field(default_factory=dict)

    def enter(self, calls: int, self_ticks: int, total_ticks: int) -> None:
        self.calls += calls
        self.self_ticks += self_ticks
        if self.running == 0:
            self.primitive += calls
            self.total_ticks += total_ticks
        self.running += 1


def walk(nodes: list[Node]) -> dict[int, Entry]:
    """Every function's entry, by number."""
    function_of = {node: function for node, _, function, _, _ in nodes}
    totals = {node: ticks for node, _, _, _, ticks in nodes}
    children: dict[int, list[Node]] = {}
    for row in reversed(nodes):  # children come after their parents
        node, parent, function = row[:3]
        if function != ROOT:
            totals[parent] += totals[node]
            children.setdefault(parent, []).append(row)

    entries: dict[int, Entry] = {}
    # Depth first without recursion: a node is met on the way down, and again, as its
    # two entries, on the way up.
    path: list[Node | tuple[Entry, Entry | None]] = [
        row for root in nodes if root[2] == ROOT for row in children.get(root[0], ())
    ]
    while path:
        step = path.pop()
        if len(step) == 2:
            for entry in step:
                if entry:
                    entry.running -= 1
            continue
        node, parent, function, calls, ticks = step
        entry = entries.setdefault(function, Entry())
        entry.enter(calls, ticks, totals[node])
        pair = None
        caller = function_of[parent]
        if caller != ROOT:
            pair = entry.callers.setdefault(caller, Entry())
            pair.enter(calls, ticks, totals[node])
        path.append((entry, pair))
        path.extend(children.get(node, ()))
    return entries


def label(functions: list[Function], number: int) -> Label:
    if number >= NOTE:
        return ("~", 0, NOTES[number])
    file, line, name = functions[number]
    return ("~" if file is None else file, line, name)


def add(cost: Cost | None, more: Cost) -> Cost:
    if cost is None:
        return more
    return (cost[0] + more[0], cost[1] + more[1], cost[2] + more[2], cost[3] + more[3])


def make_stats(
    functions: list[Function], nodes: list[Node], tick_s: float, subcalls: bool
) -> Stats:
    """The dict that pstats.Stats reads. Functions that print alike are added up."""
    stats: Stats = {}
    for number, entry in walk(nodes).items():
        if entry.calls == 0:
            continue  # running since before recording began
        name = label(functions, number)
        known = stats.get(name)
        callers = known[4] if known else {}
        cost = add(
            known[:4] if known else None,
            (
                entry.primitive,
                entry.calls,
                entry.self_ticks * tick_s,
                entry.total_ticks * tick_s,
            ),
        )
        stats[name] = (*cost, callers)
        for caller, pair in entry.callers.items() if subcalls else ():
            # In a pair, pstats has all calls first and primitive ones second.
            from_name = label(functions, caller)
            callers[from_name] = add(
                callers.get(from_name),
                (
                    pair.calls,
                    pair.primitive,
                    pair.self_ticks * tick_s,
                    pair.total_ticks * tick_s,
                ),
            )
    return stats
