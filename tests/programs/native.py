"""Python that calls C that calls Python, for tests of --native.

    native.py sort | compress | sleep | alarm | exec [TURN] | torch

sort: qsort() of the C library with a comparison in Python. compress: zlib. sleep: two
threads in time.sleep(). alarm: a signal every millisecond for two seconds; prints how
many it got. exec: a thread that becomes the program anew every 30 ms, while others
run; TURN counts. torch: a gradient.

It says "ready" and runs until it is killed, or for `alarm` until it is done.
"""

import ctypes
import os
import signal
import sys
import threading
import time
import zlib


def burn():
    total = 0
    for i in range(2000):
        total += i
    return total


@ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int)
)
def less(a, b):
    burn()
    return a[0] - b[0]


def sort():
    libc = ctypes.CDLL("libc.so.6")
    numbers = (ctypes.c_int * 64)(*range(64, 0, -1))
    while True:
        libc.qsort(numbers, 64, 4, less)


def squeeze(data):
    return zlib.compress(data, 9)


def compress():
    data = os.urandom(1 << 20)
    while True:
        squeeze(data)


def doze():
    time.sleep(1000)


def sleep():
    threading.Thread(target=doze, daemon=True).start()
    doze()


def alarm():
    seen = []
    signal.signal(signal.SIGALRM, lambda *_: seen.append(None))
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    end = time.monotonic() + 2
    while time.monotonic() < end:
        burn()
        time.sleep(0.0001)
    signal.setitimer(signal.ITIMER_REAL, 0)
    print(len(seen))


def spin():
    while True:
        burn()


def become():
    time.sleep(0.03)
    turn = int(sys.argv[2]) + 1 if len(sys.argv) > 2 else 1
    os.execv(sys.executable, [sys.executable, __file__, "exec", str(turn)])


def execute():
    for function in (spin, spin, become):
        threading.Thread(target=function, daemon=True).start()
    doze()


def descend():
    import torch

    torch.set_num_threads(2)
    weights = torch.randn(400, 400, requires_grad=True)
    while True:
        (weights @ weights).relu().sum().backward()


def main():
    kind = sys.argv[1]
    if kind == "torch":
        import torch  # noqa: F401  # before "ready": it takes a while
    print("ready", flush=True)
    {
        "sort": sort,
        "compress": compress,
        "sleep": sleep,
        "alarm": alarm,
        "exec": execute,
        "torch": descend,
    }[kind]()


if __name__ == "__main__":
    main()
