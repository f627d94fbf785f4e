"""A training that is hard to go back over: which op did each backward node come of?

Prints JSON: {"pid": ..., "steps": ..., "pairs": {"aten::tanh TanhBackward0": times}},
as torch's own profiler says it by its arrows (fwdbwd). torch draws one arrow for an op;
that of a second pass over the same graph is the first one's, by its number. Behind what
the profiler sees is one step more, with its forward pass in another thread.

A comment behind a line names the nodes that the line makes.
"""

import json
import os
import sys
import tempfile
import threading
from collections import Counter

import lapwing
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function
from torch.utils.checkpoint import checkpoint

STEPS = 5


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return 3 * x * x * gradient


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.shared = nn.Linear(8, 8)
        self.layers = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
        self.last = nn.Linear(8, 1)

    def block(self, x):
        return x.sigmoid()  # SigmoidBackward0

    def forward(self, x):
        x = self.shared(x)  # AddmmBackward0 TBackward0
        x = x.tanh()  # TanhBackward0
        x = self.shared(x)  # AddmmBackward0 TBackward0
        x.mul_(2)  # MulBackward0
        x = self.layers(x)  # AddmmBackward0 TBackward0 ReluBackward0
        x = Cube.apply(x)  # CubeBackward
        x = checkpoint(self.block, x, use_reentrant=False)
        x = checkpoint(self.block, x, use_reentrant=True)  # CheckpointFunctionBackward
        return self.last(x)  # AddmmBackward0 TBackward0


def here(model, x):
    return model(x).square().mean()  # PowBackward0 MeanBackward0


def in_thread(model, x):
    """The forward pass in a thread of its own, whose numbers are others' too."""
    out = []
    thread = threading.Thread(target=lambda: out.append(here(model, x)))
    thread.start()
    thread.join()
    return out[0]


def train(model, steps, call):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(steps):
        with record_function("a step"), lapwing.phase("batch"):
            x = torch.randn(4, 8)
            x.select(0, 0).abs()  # has the number of the next op, and makes no node
            loss = call(model, x)
            loss.backward(retain_graph=True)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()


def pairs_of(trace):
    """Each backward node that has a forward op, by torch's arrows."""
    events = [e for e in trace if e.get("cat") == "cpu_op"]
    at = {(e["tid"], e["ts"]): e for e in events}
    arrows = [e for e in trace if e.get("cat") == "fwdbwd"]
    starts = {e["id"]: at[e["tid"], e["ts"]] for e in arrows if e["ph"] == "s"}

    def number(event):
        args = event["args"]
        return args["Fwd thread id"], args["Sequence number"]

    forward_of = {}
    for end in arrows:
        if end["ph"] == "f":
            forward_of[number(at[end["tid"], end["ts"]])] = starts[end["id"]]["name"]
    # What evaluates a node has its number, too.
    nodes = [
        e
        for e in events
        if e["args"].get("Fwd thread id", 0) > 0
        and "evaluate_function" not in e["name"]
    ]
    return Counter(
        f"{forward_of[number(node)]} {node['name']}"
        for node in nodes
        if number(node) in forward_of
    )


def main():
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = Net()
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        train(model, STEPS, here)
    train(model, 1, in_thread)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.json")
        profiler.export_chrome_trace(path)
        with open(path) as file:
            pairs = pairs_of(json.load(file)["traceEvents"])
    json.dump({"pid": os.getpid(), "steps": STEPS, "pairs": pairs}, sys.stdout)


main()
