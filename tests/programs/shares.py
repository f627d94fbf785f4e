"""Programs of which it is known where their time goes.

    shares.py clock      functions that run for a time by their own clock
    shares.py counting   functions alike to the byte that count 1, 2, 3 ... times as far
                         and whose caller has the clock
    shares.py lines      one function whose lines run for a time by their own clock

It says "ready", begins when a line comes in, ends at SIGUSR1, and prints as JSON what
part of its time each function or line had ("shares"), what part it was not on a
processor ("off"), and how far that may shift a share, as a variance of p (1 - p): the
squares of the times when it had to wait, over that of the whole ("chance").
"""

import json
import random
import signal
import sys
import time
from itertools import repeat  # noqa: F401  (the functions made below use it)

WEIGHTS = (1, 2, 3, 5, 9)
clock = time.perf_counter_ns
spent = {}
squares = 0.0  # of the ns that something took longer than it should have
running = True

BURN = """
def burn_{i}(ns):
    start = now = clock()
    while now - start < ns:
        now = clock()
    took = clock() - start
    spent["burn_{i}"] = spent.get("burn_{i}", 0) + took
    note(took - ns)
"""
# Numbers stay small: Python makes larger ones anew each time, which takes longer.
COUNT = """
def count_{i}(n):
    for x in repeat(7, n):
        y = x + 1
"""


def note(late_ns):
    global squares
    if late_ns > 0:
        squares += float(late_ns) * late_ns


def by_clock():
    """Times differ from turn to turn, so that no sampler can keep step with them."""
    functions = []
    for i, weight in enumerate(WEIGHTS):
        exec(BURN.format(i=i), globals())
        functions.append((globals()["burn_%d" % i], weight))
    while running:
        random.shuffle(functions)
        for function, weight in functions:
            function(int(weight * random.uniform(20000, 100000)))


def by_counting():
    functions = []
    for i, weight in enumerate(WEIGHTS):
        exec(COUNT.format(i=i), globals())
        functions.append((globals()["count_%d" % i], weight))
        spent["count_%d" % i] = 0
    best = float("inf")  # ns for a weight of 1
    while running:
        random.shuffle(functions)
        for function, weight in functions:
            start = clock()
            function(1000 * weight)
            took = clock() - start
            spent[function.__name__] += took
            best = min(best, took / weight)
            note(took - best * weight)


def by_lines():
    lines = sys._getframe().f_lineno
    while running:
        ends = [int(w * random.uniform(20000, 100000)) for w in WEIGHTS[:3]]
        a = clock()
        while clock() - a < ends[0]: pass  # fmt: skip  # noqa: E701
        b = clock()
        while clock() - b < ends[1]: pass  # fmt: skip  # noqa: E701
        c = clock()
        while clock() - c < ends[2]: pass  # fmt: skip  # noqa: E701
        d = clock()
        for n, ns, end in (
            (4, b - a, ends[0]),
            (6, c - b, ends[1]),
            (8, d - c, ends[2]),
        ):
            spent[str(lines + n)] = spent.get(str(lines + n), 0) + ns
            note(ns - end)


def stop(signum, frame):
    global running
    running = False


def main():
    kinds = {"clock": by_clock, "counting": by_counting, "lines": by_lines}
    signal.signal(signal.SIGUSR1, stop)
    print("ready", flush=True)
    sys.stdin.readline()
    cpu, start = time.process_time(), time.perf_counter()
    kinds[sys.argv[1]]()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - start
    total = sum(spent.values())
    result = {
        "shares": {name: part / total for name, part in spent.items()},
        "off": max(0.0, 1 - cpu / wall),
        "chance": squares / (wall * 1e9) ** 2,
    }
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
