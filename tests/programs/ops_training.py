"""A training that counts its own ops, by torch's own profiler.

Prints JSON: {"pid": ..., "steps": ..., "counts": {op or range: how often}}, the counts
being key_averages() of everything that the main thread did with torch. With the word
`alone` it has no profiler, and no counts.

On the way it does what may go wrong: ranges in ranges, ops that fail, a thread with ops
of its own, a fork inside a range, and a thread that is in an op when the process ends.
"""

import contextlib
import json
import os
import sys
import threading

import torch
from torch.profiler import ProfilerActivity, profile, record_function
from torch.utils.data import DataLoader, TensorDataset

STEPS = int(sys.argv[2]) if len(sys.argv) > 2 else 20


def failing() -> None:
    with contextlib.suppress(RuntimeError), record_function("fails"):
        torch.mm(torch.ones(2, 3), torch.ones(2, 3))


def forked() -> None:
    with record_function("forks"):
        pid = os.fork()
        if pid == 0:
            for _ in range(10):
                torch.ones(3).square()
            os._exit(0)
    _, status = os.waitpid(pid, 0)
    assert status == 0


def threaded() -> None:
    def work() -> None:
        for _ in range(50):
            torch.ones(4).sin()

    thread = threading.Thread(target=work, name="sines")
    thread.start()
    thread.join()


def without_end() -> None:
    big = torch.ones(1500, 1500)
    while True:
        big @ big


def train() -> int:
    torch.manual_seed(1)
    data = TensorDataset(torch.randn(STEPS * 4, 8), torch.randn(STEPS * 4, 1))
    model = torch.nn.Sequential(
        torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    steps = 0
    for x, y in DataLoader(data, batch_size=4):
        with record_function("a step"), record_function(f"step {steps % 3}"):
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
        steps += 1
    return steps


def main() -> None:
    torch.set_num_threads(1)
    alone = "alone" in sys.argv
    profiler = None if alone else profile(activities=[ProfilerActivity.CPU])
    with profiler or contextlib.nullcontext():
        steps = train()
        failing()
        threaded()
        forked()
    counts = {row.key: row.count for row in profiler.key_averages()} if profiler else {}
    print(json.dumps({"pid": os.getpid(), "steps": steps, "counts": counts}))
    sys.stdout.flush()
    threading.Thread(target=without_end, daemon=True).start()
    os._exit(0)


main()
