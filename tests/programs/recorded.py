"""What tools/record_image.py takes images of: a bit of everything a stack can hold.

The main thread has recursed over several chunks of the data stack and runs a generator
on top, one thread waits, one has a state and no frames (made by C, as an extension's
thread that has not called into Python yet). It prints, as one line of JSON, every
thread's stack as Python itself sees it, and waits to be killed.

Functions whose name begins with "entry_" are called by C, and so are modules and each
thread's first function; the others are called by Python.
"""

import ctypes
import json
import os
import sys
import threading

DEPTH = 200
waits = os.pipe()  # from which nothing ever comes


def stack_of(frame):
    """Root first, without this program's own looking."""
    stack = []
    while frame:
        code = frame.f_code
        stack.append([code.co_name, code.co_firstlineno, frame.f_lineno])
        frame = frame.f_back
    return stack[::-1]


def announce(tids):
    """Say what all threads' stacks are; the caller's is as when we have returned."""
    stacks = {}
    for ident, frame in sys._current_frames().items():
        stack = stack_of(frame)
        if ident == threading.get_ident():
            del stack[-1]
        stacks[tids[ident]] = stack
    print(json.dumps(stacks), flush=True)


def hold(tids, file):
    announce(tids), os.read(file, 1)
    return True


def entry_generator(tids, file):
    yield hold(tids, file)


def entry_key(arguments):
    return next(entry_generator(*arguments))


def down(depth, arguments):
    if depth:
        return down(depth - 1, arguments)
    return max([arguments], key=entry_key)


class Waiting(threading.Thread):
    def __init__(self, tids, ready):
        threading.Thread.__init__(self, daemon=True)
        self.tids, self.ready = tids, ready

    def run(self):
        self.tids[threading.get_ident()] = threading.get_native_id()
        self.ready.set(), os.read(waits[0], 1)


def add_empty_state():
    """A thread's state that has run nothing."""
    python = ctypes.pythonapi
    python.PyInterpreterState_Get.restype = ctypes.c_void_p
    python.PyThreadState_New.argtypes = [ctypes.c_void_p]
    python.PyThreadState_New.restype = ctypes.c_void_p
    python.PyThreadState_New(python.PyInterpreterState_Get())


def main():
    tids = {threading.get_ident(): threading.get_native_id()}
    ready = threading.Event()
    Waiting(tids, ready).start()
    ready.wait()
    add_empty_state()
    sys.setrecursionlimit(10 * DEPTH)
    down(DEPTH, (tids, waits[0]))


if __name__ == "__main__":
    main()
