#!/usr/bin/env python3
"""Writes before.prof and after.prof: a program and its faster version."""

import marshal
import os
from pathlib import Path

MAIN = ("/home/me/project/train.py", 1, "<module>")
STEP = ("/home/me/project/train.py", 9, "step")
LOAD = ("/home/me/project/data.py", 4, "load")
CACHE = ("/home/me/project/data.py", 20, "cached")
LEN = ("~", 0, "<built-in method builtins.len>")

before = {
    MAIN: (1, 1, 0.25, 10.0, {}),
    STEP: (20, 20, 3.5, 9.75, {MAIN: (20, 20, 3.5, 9.75)}),
    LOAD: (20, 20, 6.0, 6.0, {STEP: (20, 20, 6.0, 6.0)}),
    LEN: (1000, 1000, 0.25, 0.25, {STEP: (1000, 1000, 0.25, 0.25)}),
}
after = {
    MAIN: (1, 1, 0.25, 5.5, {}),
    LEN: (
        1200,
        1200,
        0.5,
        0.5,
        {STEP: (1000, 1000, 0.25, 0.25), CACHE: (200, 200, 0.25, 0.25)},
    ),
    STEP: (20, 20, 3.75, 5.25, {MAIN: (20, 20, 3.75, 5.25)}),
    CACHE: (
        20,
        40,
        0.5,
        1.25,
        {STEP: (20, 20, 0.25, 1.25), CACHE: (20, 20, 0.25, 0.5)},
    ),
    LOAD: (2, 2, 0.5, 0.5, {CACHE: (2, 2, 0.5, 0.5)}),
}
for name, stats in (("before.prof", before), ("after.prof", after)):
    path = Path(name)
    path.write_bytes(marshal.dumps(stats))
    os.utime(path, (1794773251, 1794773251))
