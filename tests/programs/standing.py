"""Threads that stand at known places, for those who look at them from outside.

    python standing.py [THREADS]

THREADS threads (3) wait in `waits`, one recurses 10 deep into `deep`, the main thread
runs in `busy`, and a forked child in `child_runs`. When all are there it prints their
process numbers and goes on until it is ended.
"""

from __future__ import annotations

import os
import sys
import threading
import time

never = threading.Event()
here: list[str] = []


def waits() -> None:
    here.append("waits")
    never.wait()  # line: waits


def deep(left: int) -> None:
    if left:
        deep(left - 1)  # line: deep
    else:
        here.append("deep")
        time.sleep(10000)


def child_runs() -> None:
    while os.getppid() == parent:
        pass


def busy() -> None:
    print(parent, child, flush=True)
    while True:  # line: busy
        pass


parent = os.getpid()
count = int(sys.argv[1]) if len(sys.argv) > 1 else 3
child = os.fork()
if child == 0:
    child_runs()
    os._exit(0)
for _ in range(count):
    threading.Thread(target=waits, daemon=True).start()
threading.Thread(target=deep, args=(10,), daemon=True).start()
while len(here) <= count:
    time.sleep(0.01)
time.sleep(0.1)  # until they wait
busy()
