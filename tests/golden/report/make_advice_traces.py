#!/usr/bin/env python3
"""Small traces of a torch profiler to advise on: make_advice_traces.py STORY FILE.

A host and a GPU are played through: an op takes the host a while and launches a
kernel, which begins when it was launched and the stream is free. So the gaps that
advice is about come about as they do in a program, and can be worked out by hand: times
are at each story, in microseconds. Each has four steps; of two that differ in one
thing, the second is what must not be advised on. Those of several ranks write a folder.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

STEPS = 4
LAUNCH = 2  # after the start of its op
DELAY = 3  # from the end of the call to the start of the kernel, at least


class Trace:
    def __init__(
        self, gpu: str = "Some GPU", capability: str = "6.0", rank: int = 0
    ) -> None:
        major, minor = capability.split(".")
        self.head: dict[str, Any] = {
            "schemaVersion": 1,
            "baseTimeNanoseconds": 1700000000000000000,
            "deviceProperties": [
                {
                    "id": device,
                    "name": gpu,
                    "computeMajor": int(major),
                    "computeMinor": int(minor),
                    "totalGlobalMem": 32 << 30,
                }
                for device in (0, 1)
            ],
        }
        self.events: list[dict[str, Any]] = []
        self.now = 100.0  # the host
        self.free: dict[tuple[int, int], float] = {}  # when a stream has nothing to do
        self.count = 0
        self.python_ids = [0]
        self.pid = 100 + rank

    def add(self, cat: str, name: str, at: float, dur: float, **args: Any) -> None:
        on_device = cat in ("kernel", "gpu_memcpy")
        self.events.append(
            {
                "ph": "X",
                "cat": cat,
                "name": name,
                "pid": args.get("device", 0) if on_device else self.pid,
                "tid": args.get("stream", self.pid),
                "ts": at,
                "dur": dur,
                "args": {key.replace("_", " "): value for key, value in args.items()},
            }
        )

    def go(self, us: float) -> None:
        self.now += us

    @contextmanager
    def inside(self, name: str, cat: str = "user_annotation") -> Iterator[None]:
        """A range, or with "(...)" in its name a Python function."""
        start, args = self.now, {}
        if ".py(" in name:
            cat = "python_function"
            args = {"Python_id": len(self.events) + 1}
        yield
        self.add(cat, name, start, self.now - start, **args)

    def work(
        self, cat: str, name: str, us: float, device: int, stream: int, **args: Any
    ) -> float:
        """On the device, as soon as it can; when it ends."""
        start = max(self.now + DELAY, self.free.get((device, stream), 0))
        self.free[device, stream] = start + us
        self.add(
            cat,
            name,
            start,
            us,
            device=device,
            stream=stream,
            correlation=self.count,
            **args,
        )
        return start + us

    def op(
        self,
        name: str,
        kernel: str,
        us: float,
        host: float = 20,
        types: str = "float",
        device: int = 0,
        stream: int = 7,
    ) -> None:
        """An op of HOST us, of which 5 are its launch of a kernel of US."""
        self.count += 1
        self.add("cpu_op", name, self.now, host, Input_type=[types, types])
        self.add(
            "cuda_runtime",
            "cudaLaunchKernel",
            self.now + LAUNCH,
            5,
            correlation=self.count,
        )
        end = self.now + host
        self.now += LAUNCH + 5
        self.work("kernel", kernel, us, device, stream)
        self.now = end

    def copy(
        self,
        name: str,
        us: float,
        count: int,
        waits: bool,
        outer: str,
        stream: int = 7,
    ) -> None:
        """Of COUNT bytes, in 10 us; then the host may wait for it, and 2 more."""
        start = self.now
        self.count += 1
        self.add(
            "cuda_runtime", "cudaMemcpyAsync", start + 2, 5, correlation=self.count
        )
        self.now += 7
        done = self.work("gpu_memcpy", name, us, 0, stream, bytes=count)
        self.now = start + 9
        if waits:
            self.count += 1
            self.add(
                "cuda_runtime",
                "cudaStreamSynchronize",
                self.now,
                max(done + 2 - self.now, 1),
                correlation=self.count,
            )
            self.now = max(done + 2, self.now + 1)
        self.now += 1
        self.add("cpu_op", outer, start, self.now - start)

    def item(self) -> None:
        self.copy(
            "Memcpy DtoH (Device -> Pinned)", 2, 4, True, "aten::_local_scalar_dense"
        )

    def write(self, path: Path) -> None:
        path.write_text(json.dumps({**self.head, "traceEvents": self.events}) + "\n")


def steps(trace: Trace, step: Callable[[], None]) -> Trace:
    with trace.inside("train.py(10): main"):
        for number in range(STEPS):
            with trace.inside(f"ProfilerStep#{number}"):
                step()
    return trace


def layers(trace: Trace, count: int, us: float, host: float = 20) -> None:
    for _ in range(count):
        trace.op("aten::relu", "relu_kernel", us, host)


# A step is 20 kernels of 100 us; the host is ahead of them by far.


def fine() -> Trace:
    trace = Trace()
    return steps(trace, lambda: layers(trace, 20, 100))


# sync: the value of the loss is read after each 5 of the kernels.


def sync(waits: bool = True) -> Trace:
    trace = Trace()

    def step() -> None:
        for _ in range(4):
            layers(trace, 5, 100)
            if waits:
                with trace.inside("train.py(30): log"):
                    trace.item()
            trace.go(60)

    return steps(trace, step)


# The host waits as often and as long, but for what was launched one wait before, so
# that the GPU has something to do meanwhile.
def sync_behind() -> Trace:
    trace = Trace()
    before = [0.0]

    def step() -> None:
        for _ in range(4):
            layers(trace, 5, 100)
            end = max(before[0], trace.now + 1)
            trace.count += 1
            trace.add(
                "cuda_runtime",
                "cudaEventSynchronize",
                trace.now,
                end - trace.now,
                correlation=trace.count,
            )
            before[0] = trace.free[0, 7]
            trace.now = end
            trace.go(60)

    return steps(trace, step)


def copies_to_host(waits: bool = True) -> Trace:
    """As sync, with .cpu() of 64 KB."""
    trace = Trace()

    def step() -> None:
        for _ in range(4):
            layers(trace, 5, 100)
            trace.copy("Memcpy DtoH (Device -> Pageable)", 20, 65536, waits, "aten::to")
            trace.go(60)

    return steps(trace, step)


# idle: Python code in a step of which the kernels take 2,000 us. When the 20 * 20 us of
# ops before it are over the GPU has 1,600 left, so it does not wait for 600 us of such
# code, but for 2,400 it does.


def python(us: float) -> Trace:
    trace = Trace()

    def step() -> None:
        layers(trace, 20, 100)
        with trace.inside("train.py(40): draw"):
            trace.go(us)
        trace.copy("Memcpy DtoH (Device -> Pinned)", 2, 4, False, "aten::copy_")

    return steps(trace, step)


# Memory is taken from the driver in each step, for 1,200 us.
def driver(us: float = 1200) -> Trace:
    trace = Trace()

    def step() -> None:
        layers(trace, 5, 100)
        start = trace.now
        trace.go(5)
        if us:
            trace.add("cuda_runtime", "cudaMalloc", trace.now, us)
        trace.go(us + 5)
        trace.add("cpu_op", "aten::empty", start, trace.now - start)

    return steps(trace, step)


# An op that computes on the host, for 1,200 us: in so many of the first steps.
def slow_op(times: int) -> Trace:
    trace = Trace()
    left = [times]

    def step() -> None:
        layers(trace, 10, 100)
        if left[0] > 0:
            left[0] -= 1
            trace.add("cpu_op", "aten::sort", trace.now, 1200)
            trace.go(1200)

    return steps(trace, step)


# launch: 200 ops of 20 us on the host and 3 on the GPU.


def small(count: int = 200) -> Trace:
    trace = Trace()
    return steps(trace, lambda: layers(trace, count, 3 * 200 / count))


def small_optimizer(count: int = 200) -> Trace:
    trace = Trace()

    def step() -> None:
        layers(trace, 10, 100)
        with trace.inside("Optimizer.step#Adam.step"):
            for _ in range(count):
                trace.op("aten::addcdiv_", "addcdiv_kernel", 3 * 200 / count)

    return steps(trace, step)


# amp: 10 matrix products of 150 us, 10 others of 50.


def products(trace: Trace, kernel: str, types: str = "float", us: float = 150) -> Trace:
    def step() -> None:
        for _ in range(10):
            trace.op("aten::addmm", kernel, us, types=types)
            trace.op("aten::relu", "relu_kernel", 50)

    return steps(trace, step)


# pinned: a batch of 8 MB is copied in 800 us, then 10 kernels of 100 us run.


def batches(memory: str, us: float = 800, stream: int = 7) -> Trace:
    trace = Trace()
    name = f"Memcpy HtoD ({memory} -> Device)"

    def step() -> None:
        with trace.inside("train.py(22): step"):
            trace.copy(name, us, 8 << 20, False, "aten::to", stream)
        layers(trace, 10, 100)

    return steps(trace, step)


def memory(gigabytes: int) -> Trace:
    trace = fine()
    for number, total in enumerate((1, gigabytes, 2)):
        trace.events.append(
            {
                "ph": "i",
                "s": "t",
                "cat": "cpu_instant_event",
                "name": "[memory]",
                "pid": trace.pid,
                "tid": trace.pid,
                "ts": 105 + 20 * number,
                "args": {
                    "Device Type": 1,
                    "Device Id": 0,
                    "Addr": 4096 + number,
                    "Bytes": 1 << 30,
                    "Total Allocated": total << 30,
                    "Total Reserved": total << 30,
                },
            }
        )
    return trace


# comm: 10 kernels of 100 us and a collective of 500, behind them or beside them.

NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def reduces(beside: bool) -> Trace:
    trace = Trace()

    def step() -> None:
        layers(trace, 2, 100)
        if beside:
            trace.op("c10d::allreduce_", NCCL, 500, stream=20)
        layers(trace, 8, 100)
        if not beside:
            trace.op("c10d::allreduce_", NCCL, 500)

    return steps(trace, step)


# Four ranks, which compute for so many us each; what they reduce then takes 100 us from
# when all are there.
LATE = (1000, 1000, 1000, 1800)
EVEN = (1200, 1200, 1200, 1200)


def one_rank(rank: int, times: tuple[int, ...]) -> Trace:
    trace = Trace(rank=rank)
    trace.head["distributedInfo"] = {"rank": rank, "world_size": 4, "backend": "nccl"}
    mine, longest = times[rank], max(times)

    def step() -> None:
        layers(trace, 10, mine / 10)
        trace.op("c10d::allreduce_", NCCL, 100 + longest - mine)

    return steps(trace, step)


def data_parallel(devices: int) -> Trace:
    trace = Trace()

    def step() -> None:
        with trace.inside("DataParallel.forward"):
            for number in range(20):
                trace.op("aten::relu", "relu_kernel", 100, device=number % devices)

    return steps(trace, step)


def gloo() -> Trace:
    trace = Trace()

    def step() -> None:
        with trace.inside("DistributedDataParallel.forward"):
            layers(trace, 20, 100)
        with trace.inside("gloo:all_reduce"):
            trace.go(20)

    return steps(trace, step)


# loader: a batch takes 1,500 us; the GPU then has 1,000 us to do.


def loads(kind: str, us: float) -> Trace:
    trace = Trace()

    def step() -> None:
        with trace.inside("train.py(15): batches"):
            trace.go(1)
            with trace.inside(f"enumerate(DataLoader)#_{kind}DataLoaderIter.__next__"):
                trace.add("cpu_op", "aten::stack", trace.now + 1, us - 2)
                trace.go(us)
        layers(trace, 10, 100)

    return steps(trace, step)


VOLTA = "Tesla V100-SXM2-32GB"
AMPERE = "NVIDIA A100-SXM4-80GB"
STORIES: dict[str, Callable[[], Trace]] = {
    "fine": fine,
    "sync": sync,
    "sync-behind": sync_behind,
    "to-host": copies_to_host,
    "python": lambda: python(2400),
    "python-hidden": lambda: python(600),
    "driver": driver,
    "slow-op": lambda: slow_op(STEPS),
    "slow-op-at-first": lambda: slow_op(1),
    "small": small,
    "small-optimizer": small_optimizer,
    "products": lambda: products(Trace(VOLTA, "7.0"), "volta_sgemm_128x64_nn"),
    "products-ampere": lambda: products(Trace(AMPERE, "8.0"), "ampere_sgemm_128x64_nn"),
    "products-old": lambda: products(Trace("Quadro GP100", "6.0"), "sgemm_128x64_nn"),
    "products-half": lambda: products(Trace(VOLTA, "7.0"), "gemm_kernel", "c10::Half"),
    "products-tf32": lambda: products(
        Trace(AMPERE, "8.0"), "ampere_s1688gemm_128x64_nn"
    ),
    "products-amd": lambda: products(
        Trace("AMD Instinct MI300X", "9.4"), "Cijk_Ailk_Bljk_SB_MT128x64"
    ),
    "pageable": lambda: batches("Pageable"),
    "pinned": lambda: batches("Pinned"),
    "memory-full": lambda: memory(31),
    "memory-half": lambda: memory(16),
    "reduce": lambda: reduces(beside=False),
    "reduce-beside": lambda: reduces(beside=True),
    "data-parallel": lambda: data_parallel(2),
    "data-parallel-of-one": lambda: data_parallel(1),
    "gloo": gloo,
    "loader": lambda: loads("SingleProcess", 1500),
    "loader-of-workers": lambda: loads("MultiProcessing", 1500),
    "loader-quick": lambda: loads("SingleProcess", 20),
}

# The same with the change that is advised, as good as it can be made.
CHANGED: dict[str, Callable[[], Trace]] = {
    "sync": lambda: sync(waits=False),
    "to-host": lambda: copies_to_host(waits=False),
    "python": lambda: python(0),
    "driver": lambda: driver(0),
    "slow-op": lambda: slow_op(0),
    "small": lambda: small(1),
    "small-optimizer": lambda: small_optimizer(1),
    "products": lambda: products(Trace(VOLTA, "7.0"), "volta_h884gemm", us=60),
    "pageable": lambda: batches("Pinned", 400, stream=20),
    "reduce": lambda: reduces(beside=True),
    "loader": lambda: loads("MultiProcessing", 20),
    "loader-of-workers": lambda: loads("MultiProcessing", 20),
}


def write_ranks(folder: Path, times: tuple[int, ...]) -> None:
    folder.mkdir()
    for rank in range(4):
        one_rank(rank, times).write(folder / f"rank{rank}.pt.trace.json")


def main() -> None:
    story, path = sys.argv[1], Path(sys.argv[2])
    if story == "ranks-late":
        write_ranks(path, LATE)
    elif story == "ranks-even":
        write_ranks(path, EVEN)
    else:
        STORIES[story]().write(path)


if __name__ == "__main__":
    main()
