"""Runs at the bottom of 30 calls, for ever: deep.py [DEPTH]. It says "ready" first."""

import sys


def spin():
    print("ready", flush=True)
    n = 0
    while True:
        n = n + 1 & 255


def down(depth):
    return down(depth - 1) if depth else spin()


down(int(sys.argv[1]) if len(sys.argv) > 1 else 27)
