"""Small traces of a job's ranks, as torch.profiler writes them.

make_ranks.py STORY FOLDER, the stories being

before  four ranks, two steps: a DataLoader, a linear layer, its weights gathered by two
        and two, gradients reduced by all, activations sent from rank 0 to 1 and from 2
        to 3. Rank 3 is late, and the clock of rank 2 is 2 ms ahead.
after   the same with a DataLoader of workers, a faster kernel and a new op
gloo    two ranks without a GPU
old     two ranks as torch 2.0 wrote them, one of which saw a collective less; whole us
"""

import json
import sys
from pathlib import Path

STEP = 1000.0  # us


class Trace:
    def __init__(self, rank: int, world_size: int, clock: float = 0) -> None:
        self.rank, self.world_size, self.clock = rank, world_size, clock
        self.events: list[dict] = []
        self.count = 0

    def add(self, category: str, name: str, at: float, dur: float, **args) -> None:
        on_device = category in ("kernel", "gpu_memcpy")
        self.events.append(
            {
                "ph": "X",
                "cat": category,
                "name": name,
                "pid": 0 if on_device else 100 + self.rank,
                "tid": args.get("stream", 100 + self.rank),
                "ts": at + self.clock,
                "dur": dur,
                "args": {key.replace("_", " "): value for key, value in args.items()},
            }
        )

    def launch(self, at: float, kernel: str, start: float, dur: float, **args) -> None:
        self.count += 1
        self.add("cuda_runtime", "cudaLaunchKernel", at, 5, correlation=self.count)
        args = {"device": 0, "stream": 7, **args, "correlation": self.count}
        self.add("kernel", kernel, start, dur, **args)

    def collective(
        self, at: float, name: str, start: float, end: float, **args
    ) -> None:
        """A range, the call around it with what it tells, and the kernel."""
        told = {"Collective_name": name, "dtype": "Float", **args}
        self.add("cpu_op", "record_param_comms", at, 20, **told)
        self.add("user_annotation", args.pop("range", f"nccl:{name}"), at + 2, 16)
        kernel = args.pop("kernel", "ncclDevKernel_Generic(ncclDevKernelArgsStorage)")
        told.pop("range", None)
        told.pop("kernel", None)
        self.launch(at + 4, kernel, start, end - start, **{**told, "stream": 20})

    def write(self, folder: Path) -> None:
        info = {"backend": "nccl", "rank": self.rank, "world_size": self.world_size}
        head = {"schemaVersion": 1, "distributedInfo": info}
        text = json.dumps({**head, "traceEvents": self.events})
        (folder / f"rank{self.rank}.json").write_text(text)


def group(name: str, *ranks: int) -> dict:
    return {
        "Process_Group_Name": name,
        "Process_Group_Description": {"0": "default_pg"}.get(name, "undefined"),
        "Process_Group_Ranks": str(list(ranks)),
        "Group_size": len(ranks),
    }


def tell(elements: int, gathered: int = 1) -> dict:
    return {"In_msg_nelems": elements, "Out_msg_nelems": elements * gathered}


def step(trace: Trace, n: int, is_after: bool) -> None:
    at, rank = n * STEP, trace.rank
    late = 150 if rank == 3 else 0
    trace.add("user_annotation", f"ProfilerStep#{n}", at, STEP - 10)
    loader = "_MultiProcessing" if is_after else "_SingleProcess"
    name = f"enumerate(DataLoader)#{loader}DataLoaderIter.__next__"
    trace.add("user_annotation", name, at + 10, 30 if is_after else 180)
    if not is_after:
        trace.add("cpu_op", "aten::stack", at + 20, 100)
    at += 60 if is_after else 200
    pair = (rank // 2 * 2, rank // 2 * 2 + 1)
    trace.collective(
        at,
        "_allgather_base",
        at + 40 + rank % 2 * 10,
        at + 100,
        **group("1" if rank < 2 else "2", *pair),
        **tell(1000, gathered=2),
    )
    trace.add("cpu_op", "aten::linear", at + 100 + late, 60)
    trace.add("cpu_op", "aten::addmm", at + 110 + late, 40)
    trace.launch(at + 120 + late, "sgemm", at + 140 + late, 60 if is_after else 80)
    if is_after:
        trace.add("cpu_op", "aten::gelu", at + 165 + late, 20)
        trace.launch(at + 170 + late, "gelu", at + 200 + late, 10)
    sends = rank % 2 == 0
    trace.collective(
        at + 200 + late,
        "send" if sends else "recv",
        at + 240,
        at + 300,
        range="nccl:send 0->1" if sends else "nccl:recv 1<-0",
        **group("1" if rank < 2 else "2", *pair),
        **tell(64),
    )
    trace.collective(
        at + 320 + late,
        "allreduce",
        at + 350 + late,
        at + 560,
        **group("0", 0, 1, 2, 3),
        **tell(250_000),
    )


def job(folder: Path, is_after: bool) -> None:
    for rank in range(4):
        trace = Trace(rank, 4, clock=2000 if rank == 2 else 0)
        for n in (1, 2):
            step(trace, n, is_after)
        trace.write(folder)


def gloo(folder: Path) -> None:
    for rank in range(2):
        trace = Trace(rank, 2)
        trace.add("user_annotation", "ProfilerStep#1", 0, 900)
        trace.add("cpu_op", "aten::mm", 10, 100 + 200 * rank)
        trace.add(
            "user_annotation",
            "gloo:all_reduce",
            120 + 200 * rank,
            300 - 200 * rank,
            Input_Dims=[[1000]],
            Input_type=["float"],
        )
        trace.write(folder)


def old(folder: Path) -> None:
    for rank in range(2):
        trace = Trace(rank, 2)
        for n in (1, 2):
            at = n * STEP
            trace.add("user_annotation", f"ProfilerStep#{n}", at, 990)
            trace.launch(at + 10, "sgemm", at + 30, 100)
            for i in range(2 - (n == 2 and rank)):
                begin = at + 200 + 200 * i
                trace.add(
                    "user_annotation",
                    "nccl:all_reduce",
                    begin,
                    20 + 5 * rank,
                    External_id=trace.count + 1000,
                    Input_Dims=[[500]],
                    Input_type=["float"],
                )
                name = "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*)"
                start = begin + 20 + 30 * rank
                end = begin + 100
                trace.launch(begin + 5, name, start, end - start, stream=20)
        trace.write(folder)


def main() -> None:
    story, folder = sys.argv[1], Path(sys.argv[2])
    folder.mkdir()
    if story == "gloo":
        gloo(folder)
    elif story == "old":
        old(folder)
    else:
        job(folder, story == "after")


main()
