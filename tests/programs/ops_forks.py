"""Forks 200 children while ops are recorded, in two threads; prints how many ops were.

Each child runs ops of its own, one of them through autograd, whose threads it does not
have, and must end by itself within ten seconds.
"""

import json
import os
import signal
import threading

import torch

FORKS = 200
BESIDE = 20_000


def child():
    signal.alarm(10)
    x = torch.ones(3, requires_grad=True)
    x.square().sum().backward()
    os._exit(0 if x.grad.sum() == 6 else 1)


def main():
    torch.set_num_threads(1)

    def beside():
        for _ in range(BESIDE):
            one.cos_()

    one = torch.ones(1)
    thread = threading.Thread(target=beside)
    thread.start()
    failed = 0
    for _ in range(FORKS):
        torch.ones(3).sin()
        pid = os.fork()
        if pid == 0:
            child()
        failed += os.waitpid(pid, 0)[1] != 0
    thread.join()
    print(
        json.dumps(
            {
                "pid": os.getpid(),
                "failed": failed,
                "forks": FORKS,
                "counts": {"aten::sin": FORKS, "aten::cos_": BESIDE},
            }
        )
    )


main()
