"""A program's own clock for its steps, told as one line of JSON at its end.

The first steps warm caches and allocators up and are left out. Of the others both the
median and the mean are told: a cost that only some steps have shows in the mean alone.

Who stops the program for a while and continues it later keeps in the file that
LAPWING_BENCH_CLOCK names, 8 bytes, for how many ns it stood: that is no step's time.
"""

from __future__ import annotations

import json
import mmap
import os
import resource
import statistics
import time

WARM_UP = 20  # steps


def open_clock() -> memoryview[int]:
    name = os.environ.get("LAPWING_BENCH_CLOCK")
    if not name:
        return memoryview(bytes(8)).cast("Q")
    with open(name, "rb") as file:
        mapped = mmap.mmap(file.fileno(), 8, prot=mmap.PROT_READ)
    return memoryview(mapped).cast("Q")


class StepTimes:
    """Call begin() before the first step of a series, and end() after each step."""

    def __init__(self, program: str) -> None:
        self.program = program
        self.count = 0
        self.steps_ns: list[int] = []
        self.cpu_ns = 0  # of this thread, in them
        self.last_ns = 0
        self.last_cpu_ns = 0
        self.stood_ns = open_clock()

    def begin(self) -> None:
        self.last_cpu_ns = time.thread_time_ns()
        self.last_ns = time.perf_counter_ns() - self.stood_ns[0]

    def end(self) -> None:
        now = time.perf_counter_ns() - self.stood_ns[0]
        self.count += 1
        if self.count > WARM_UP:
            self.steps_ns.append(now - self.last_ns)
        elif self.count == WARM_UP:
            self.last_cpu_ns = time.thread_time_ns()
        self.last_ns = now

    def close(self) -> None:
        """The series is over; what follows until begin() is no step."""
        if self.count > WARM_UP:
            self.cpu_ns += time.thread_time_ns() - self.last_cpu_ns

    def tell(self) -> None:
        """To be called as the last thing that the program does."""
        said = {
            "program": self.program,
            "steps": len(self.steps_ns),
            "step_median": statistics.median(self.steps_ns) / 1e9,
            "step_mean": statistics.fmean(self.steps_ns) / 1e9,
            "step_cpu": self.cpu_ns / len(self.steps_ns) / 1e9,
            "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            "ended_ns": time.monotonic_ns() - self.stood_ns[0],
        }
        print(json.dumps(said), flush=True)
