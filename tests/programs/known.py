"""What the programs here that know their own call counts say at the end.

Each prints one line of JSON:

    {"program": "recursion", "processes": 1, "threads": 1,
     "functions": {"down": {"calls": 50001, "primitive": 1}, ...}}

`functions` holds functions of the program's own file by their code's name, and counts
as pstats does: each time a frame is entered or resumed is a call (a generator of n
values is n + 1), and a call is primitive when the function is not on the stack
already. The counts cover all processes and threads together. Functions that are not
listed were called too; the listed ones must agree exactly. cProfile agrees with these
numbers on every Python from 3.10 on where it can see them (check.py).
"""

from __future__ import annotations

import json
import os
import sys

Counts = dict[str, int | tuple[int, int]]  # calls, or (calls, primitive)


def say(functions: Counts, processes: int = 1, threads: int | None = 1) -> None:
    """Print the line; THREADS are those that ran Python, None if it does not matter."""
    table = {}
    for name, count in functions.items():
        calls, primitive = count if isinstance(count, tuple) else (count, count)
        table[name] = {"calls": calls, "primitive": primitive}
    print(
        json.dumps(
            {
                "program": os.path.splitext(os.path.basename(sys.argv[0]))[0],
                "processes": processes,
                "threads": threads,
                "functions": table,
            }
        ),
        flush=True,
    )
