"""Read a trace as a peer does: python kineto_peer.py tb|hta FILE. It prints seconds.

tb: what torch_tb_profiler 0.4.3 does when TensorBoard opens a run (it parses the file
and analyses all of it) and the data of its overview page. hta: what TraceAnalysis() of
Holistic Trace Analysis 0.5.0 does with one file, and its temporal breakdown. Neither
the start of the interpreter nor imports are counted.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from time import perf_counter


def processor() -> float:
    """Seconds on a processor, those of child processes too."""
    return sum(os.times()[:4])


def tb(path: str) -> tuple[float, float]:
    from torch_tb_profiler.profiler.data import RunProfileData
    from torch_tb_profiler.profiler.run_generator import RunGenerator

    start = perf_counter(), processor()
    with tempfile.TemporaryDirectory() as cache:
        data = RunProfileData.parse("worker", "1", path, cache)
        RunGenerator("worker", "1", data)._generate_overview()
    return perf_counter() - start[0], processor() - start[1]


def hta(path: str) -> tuple[float, float]:
    from hta.trace_analysis import TraceAnalysis

    start = perf_counter(), processor()
    analysis = TraceAnalysis(trace_files={0: path})
    analysis.get_temporal_breakdown(visualize=False)
    return perf_counter() - start[0], processor() - start[1]


if __name__ == "__main__":
    clock, cpu = {"tb": tb, "hta": hta}[sys.argv[1]](sys.argv[2])
    print(json.dumps({"clock": clock, "cpu": cpu}))
