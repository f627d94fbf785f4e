"""A program that tells Lapwing what it does, in every way that Python has.

`marked.py WHAT` does one of them (or several: WHAT,WHAT) and prints what it saw itself,
as one line of JSON; so it runs the same alone.
"""

import asyncio
import json
import os
import sys
import threading
import time

import lapwing

PAUSE = 0.004


def plain():
    """Three steps with nested phases; how long each took by our own clock, from inside
    and from outside."""
    took = {"load": [], "parse": [], "step": []}
    now = time.monotonic_ns
    before_step = now()
    lapwing.step()
    for i in range(3):
        began = now()
        with lapwing.phase("load"):
            in_load = now()
            time.sleep(PAUSE)
            before_parse = now()
            with lapwing.phase("parse"):
                in_parse = now()
                time.sleep(PAUSE)
                in_parse = now() - in_parse
            took["parse"].append((in_parse, now() - before_parse))
            in_load = now() - in_load
        took["load"].append((in_load, now() - began))
        lapwing.counter("loss", 1 / (i + 1))
        lapwing.counter("batch", i)  # an int
        lapwing.mark("batch done")
        in_step, before_next = now() - began, now()
        lapwing.step()
        took["step"].append((in_step, now() - before_step))
        before_step = before_next
    return took


def loops():
    """Two loops: what is between them is no step's."""
    for _ in range(2):
        for _ in range(3):
            lapwing.step()
            time.sleep(PAUSE)
        lapwing.step(begin=False)
        time.sleep(10 * PAUSE)
    lapwing.step(begin=False)  # nothing to end
    return None


@lapwing.phase("recurse")
def recurse(depth):
    time.sleep(PAUSE)
    return 1 + recurse(depth - 1) if depth else 1


@lapwing.phase
def fails():
    raise KeyError("as it should")


def shapes():
    """Recursion, exceptions, any text for a name, one object many times over."""
    seen = [recurse(2)]
    try:
        fails()
    except KeyError as error:
        seen.append(error.args[0])
    try:
        with lapwing.phase("block fails"):
            raise ValueError("so does this")
    except ValueError as error:
        seen.append(str(error))
    for name in ("", "größe\n\t", "nul\0byte", "lone \ud800", "x" * 5000):
        with lapwing.phase(name):
            pass
    again = lapwing.phase("again")
    with again, again:
        with again:
            pass
    again.__exit__(None, None, None)  # one too many
    return seen


class Shared:
    """One phase object for several threads at once."""

    phase = lapwing.phase("shared")

    @phase
    def method(self, pause):
        time.sleep(pause)

    def block(self, pause):
        with self.phase:
            time.sleep(pause)


def threads():
    """Each thread has steps of its own, and phases of a shared object."""
    shared = Shared()

    def run(number):
        lapwing.step()
        for _ in range(number):
            shared.method(number * PAUSE)
            shared.block(number * PAUSE)
            lapwing.step()

    running = [threading.Thread(target=run, args=(i,), name=f"T{i}") for i in (1, 3)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return None


def fork():
    """A child made inside a phase and a step: the phase is cut, the step is not."""
    lapwing.step()
    with lapwing.phase("around"):
        time.sleep(10 * PAUSE)
        child = os.fork()
        if child == 0:
            time.sleep(PAUSE)
            lapwing.step()
            time.sleep(PAUSE)
            lapwing.step()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    lapwing.step()
    return None


@lapwing.phase("values")
def values(count):
    for i in range(count):
        time.sleep(PAUSE)
        got = yield i
        if got == "stop":
            return "stopped"
    return "all"


@lapwing.phase("avalues")
async def avalues(count):
    for i in range(count):
        yield i


@lapwing.phase("task")
async def task(pause):
    await asyncio.sleep(pause)
    return pause


def suspended():
    """Generators, coroutines, and blocks of tasks that take turns."""
    seen = []
    for value in values(2):
        time.sleep(20 * PAUSE)  # not the generator's
        seen.append(value)
    generator = values(5)
    seen.append(next(generator))
    try:
        generator.send("stop")
    except StopIteration as end:
        seen.append(end.value)
    generator = values(5)
    next(generator)
    try:
        generator.throw(KeyError("thrown"))
    except KeyError as error:
        seen.append(error.args[0])

    async def block(pause):
        with lapwing.phase("block"):
            await asyncio.sleep(pause)

    async def main():
        found = [value async for value in avalues(3)]
        first = asyncio.create_task(task(4 * PAUSE))
        await asyncio.sleep(2 * PAUSE)
        found += await asyncio.gather(first, task(6 * PAUSE))
        await asyncio.gather(block(6 * PAUSE), block(PAUSE), block(3 * PAUSE))
        return found

    return seen + asyncio.run(main())


def torrent():
    """More than the ring holds, and more names than are kept."""
    for _ in range(300_000):
        lapwing.mark("drop")
    for i in range(70_000):
        lapwing.mark(f"name {i}")
    return None


if __name__ == "__main__":
    what = sys.argv[1]
    print(json.dumps([globals()[name]() for name in what.split(",")]))
