"""Trains while Kineto's thread is held on its way to its wait (slow_config.c), lets it
go and forks a child that ends by itself. Says whether the thread was there in the
training, whether the child ended, and whether the thread is gone."""

import os
import sys
import threading

import torch


def threads():
    return set(os.listdir("/proc/self/task"))


def train():
    parameter = torch.nn.Parameter(torch.ones(4))
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    for _ in range(8):
        parameter.sum().backward()
        optimizer.step()


torch.set_num_threads(1)
before = threads()
train()
kinetos = threads() - before
print("in the training:", len(kinetos), flush=True)
open(os.environ["SLOW_UNTIL"], "w").close()
child = os.fork()
if child == 0:
    sys.exit(7)
threading.Timer(30, os.kill, (child, 9)).start()
print("the child:", os.waitpid(child, 0)[1] >> 8, flush=True)
print("after the fork:", len(threads() & kinetos), flush=True)
os._exit(0)
