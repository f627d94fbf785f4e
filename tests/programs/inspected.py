"""Variables, threads and asyncio tasks that are known, for those who look at them from
outside.

When all is in its place it prints a line and stays there until it is ended.
"""

# Who looks at the variables is outside.
# ruff: noqa: F841

import asyncio
import collections
import enum
import sys
import threading
import time


class Point:
    def __init__(self, x):
        self.x = x


class Color(enum.IntEnum):
    RED = 3


class Name(str):
    pass


def numbers():
    small, negative, zero = 7, -12345678901234567890, 0
    big, huge = 2**70, 2**2000
    ratio, whole, far, nothing = 0.1, 3.0, 1e300, float("nan")
    yes, no, none = True, False, None
    texts(1, "two", 3, 4, key="v")


def texts(first, second, *rest, flag=True, **more):
    plain, accents, wide, smile = "a", "h\xe9llo", "\u4f60\u597d", "\U0001f600 it's"
    escaped, long, raw = "both ' and \"\n\x1b", "x" * 500, b"raw\x00"
    named = Name("sub")
    containers()


def containers():
    empty_list, items, one, pair = [], list(range(1000)), (1,), (None, "x")
    nested = [[1, [2, [3]]], {"a": (1,), 2: {3}}]
    circle = [1]
    circle.append(circle)
    table = {"alpha": 1, "beta": [1, 2], 3: b"r"}
    removed = {"gone": 0, "kept": 1}
    del removed["gone"]
    large = {n: str(n) for n in range(70000)}
    split = vars(Point(5))
    members, no_members, frozen = {5}, set(), frozenset([6])
    ordered = collections.OrderedDict(a=1)
    instances()


def instances():
    point, color, kind = Point(1), Color.RED, Point
    captured, unset_later = 11, 12
    del unset_later

    def inner():
        own = captured + 1
        print("ready", flush=True)
        time.sleep(10000)
        return own

    inner()


async def sleeps():
    await asyncio.sleep(10000)


async def yields():
    await sleeps()
    yield 1


async def iterates():
    async for _ in yields():
        pass


async def waits(child):
    await child


async def gathers():
    names = ["first of two", "second of two"]
    await asyncio.gather(*[asyncio.ensure_future(sleeps_as(name)) for name in names])


async def sleeps_as(name):
    asyncio.current_task().set_name(name)
    await sleeps()


def spins():
    in_loop.set()
    time.sleep(10000)


async def runs():
    await asyncio.sleep(0.1)
    spins()


async def main():
    child = asyncio.create_task(sleeps(), name="child")
    named = {"waits": waits(child), "iterates": iterates(), "gathers": gathers()}
    tasks = [asyncio.create_task(coro, name=name) for name, coro in named.items()]
    tasks.append(asyncio.create_task(runs(), name="runs"))
    await asyncio.wait(tasks)


in_loop = threading.Event()
threading.Thread(
    target=lambda: asyncio.run(main()), name="lo\xf6p", daemon=True
).start()
in_loop.wait()
threading.Thread(target=time.sleep, args=(10000,), name="n" * 100, daemon=True).start()
numbers()
sys.exit("not reached")
