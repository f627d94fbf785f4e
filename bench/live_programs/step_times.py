"""When a program's steps were, told as one line of JSON at its end.

The first steps warm caches and allocators up and are left out. Times are those of
CLOCK_MONOTONIC, in ns: who stopped the program for a while knows what is no step's.
"""

from __future__ import annotations

import json
import resource
import time

WARM_UP = 20  # steps


class StepTimes:
    """Call begin() before the first step of a series, and end() after each step."""

    def __init__(self, program: str) -> None:
        self.program = program
        self.count = 0
        self.series: list[list[int]] = []  # when the first step began, and each ended
        self.cpu_ns = 0  # of this thread, in them
        self.last_cpu_ns = 0

    def begin(self) -> None:
        self.last_cpu_ns = time.thread_time_ns()
        self.series.append([time.monotonic_ns()])

    def end(self) -> None:
        now_ns = time.monotonic_ns()
        self.count += 1
        if self.count > WARM_UP:
            self.series[-1].append(now_ns)
        else:
            self.series[-1][0] = now_ns
            self.last_cpu_ns = time.thread_time_ns()

    def close(self) -> None:
        """The series is over; what follows until begin() is no step."""
        if self.count > WARM_UP:
            self.cpu_ns += time.thread_time_ns() - self.last_cpu_ns

    def tell(self) -> None:
        """To be called as the last thing that the program does."""
        said = {
            "program": self.program,
            "series": self.series,
            "cpu_ns": self.cpu_ns,
            "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        }
        print(json.dumps(said | {"ended_ns": time.monotonic_ns()}), flush=True)
