"""A small training, in the ways that windows of torch's profiler must get along with.

    window_train.py STEPS [STORY] [AT] [FAILS_AT]

STORY is what happens in step AT: `own` (the program profiles a step itself), `fork` (a
child changes its own parameters, and ends), `kill` (by SIGKILL), `mine`
(lapwing.torch.profile over everything), `gpu` (torch says that it uses one, though it
does not), `said` (lapwing.step() says what a step is: two of those), `plain` (nothing).
"""

import hashlib
import os
import signal
import sys

import lapwing
import torch
from torch import nn

begin_step = lapwing.step


def make():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
    return model, torch.optim.SGD(model.parameters(), lr=0.01)


def train(model, optimizer):
    optimizer.zero_grad()
    loss = model(torch.ones(4, 8)).square().mean()
    loss.backward()
    optimizer.step()
    return loss


def happen(story, model, optimizer):
    if story == "fork":
        child = os.fork()
        if child == 0:
            try:  # gradients are not worked out in a child (pytorch's wiki says why)
                for _ in range(6):
                    optimizer.step()
            finally:
                os._exit(0)
        os.waitpid(child, 0)
    elif story == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif story == "own":
        with torch.profiler.profile() as profile:
            train(model, optimizer)
        names = {event.name for event in profile.events()}
        print("own:", "aten::linear" in names)


def pretend_to_use_a_gpu():
    """What happens where torch is imported, on a machine that has one."""
    from lapwing._agent import agent
    from lapwing._inject import _lapwing_window

    torch.version.cuda = "12.8"
    torch.cuda.is_initialized = lambda: True
    _lapwing_window.start(agent.config, torch, agent)


def main():
    steps = int(sys.argv[1])
    story = sys.argv[2] if len(sys.argv) > 2 else "plain"
    at = int(sys.argv[3]) if len(sys.argv) > 3 else -1
    if story == "gpu":
        pretend_to_use_a_gpu()
    model, optimizer = make()
    fails_at = int(sys.argv[4]) if len(sys.argv) > 4 else -1
    if story == "mine":
        import lapwing.torch

        profile = lapwing.torch.profile(
            schedule=lapwing.torch.schedule(wait=1, warmup=1, active=2, repeat=1),
            record_shapes=True,
        )
        profile.start()
    for number in range(steps):
        if number == at:
            happen(story, model, optimizer)
        if number == fails_at:
            raise RuntimeError("as asked for")
        if story == "said" and number % 2 == 0:
            begin_step()
        train(model, optimizer)
        if story == "mine":
            profile.step()
    if story == "mine":
        profile.stop()
        profile.export_chrome_trace("mine.json")
        with open("mine.txt", "w") as file:
            file.write(profile.key_averages().table("self_cpu_time_total", -1))
    weights = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
    print("weights:", hashlib.sha256(weights).hexdigest()[:16])


main()
