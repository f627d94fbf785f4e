#!/usr/bin/env python3
"""Writes out.prof: a small profile as cProfile saves it, always the same."""

import marshal
import os
from pathlib import Path

MAIN = ("/home/me/project/train.py", 1, "<module>")
STEP = ("/home/me/project/train.py", 9, "step")
FIB = ("/home/me/project/lib/fib.py", 3, "fib")
OTHER_FIB = ("/home/me/old/lib/fib.py", 3, "fib")
NAME = ("größe.py", 7, "größe\n")
LEN = ("~", 0, "<built-in method builtins.len>")

stats = {
    MAIN: (1, 1, 0.25, 10.0, {}),
    STEP: (20, 20, 0.5, 7.5, {MAIN: (20, 20, 0.5, 7.5)}),
    FIB: (20, 540, 5.0, 5.0, {STEP: (20, 20, 1.0, 5.0), FIB: (520, 40, 4.0, 4.5)}),
    OTHER_FIB: (2, 2, 0.125, 0.125, {MAIN: (2, 2, 0.125, 0.125)}),
    NAME: (3, 3, 1.875, 2.0, {MAIN: (1, 1, 0.625, 0.75), STEP: (2, 2, 1.25, 1.25)}),
    LEN: (
        1000,
        1000,
        2.25,
        2.25,
        {STEP: (900, 900, 2.0, 2.0), NAME: (100, 100, 0.25, 0.25)},
    ),
}
path = Path("out.prof")
path.write_bytes(marshal.dumps(stats))
os.utime(path, (1794773251, 1794773251))
