"""Coroutines, tasks, async generators and async context managers, counts known.

    coroutines.py [TASKS] [TURNS]

A coroutine that gives way k times is entered k + 1 times, and so is each coroutine
that awaits it.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from types import TracebackType

from known import say


def work(x: int) -> int:
    return x + 1


async def give_way(turns: int) -> int:
    total = 0
    for _ in range(turns):
        await asyncio.sleep(0)
        total = work(total)
    return total


async def waiter(turns: int) -> int:
    return await give_way(turns)


async def immediate(x: int) -> int:
    """Never gives way: one call, whoever awaits it."""
    return work(x)


async def ticks(n: int) -> AsyncIterator[int]:
    for i in range(n):
        yield i


class Guard:
    async def __aenter__(self) -> Guard:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await asyncio.sleep(0)


async def cancelled(started: asyncio.Event) -> None:
    """Entered, then woken once by its cancellation."""
    started.set()
    await asyncio.Event().wait()


async def everything(tasks: int, turns: int) -> None:
    assert (
        await asyncio.gather(*[waiter(turns) for _ in range(tasks)]) == [turns] * tasks
    )
    total = 0
    for i in range(turns):
        total += await immediate(i)
    assert total == turns * (turns + 1) // 2
    assert [i async for i in ticks(turns)] == list(range(turns))
    async with Guard():
        work(0)
    started = asyncio.Event()
    task = asyncio.ensure_future(cancelled(started))
    await started.wait()
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        pass
    else:
        raise AssertionError("the cancellation was lost")


def main() -> None:
    tasks = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    turns = int(sys.argv[2]) if len(sys.argv) > 2 else 500
    asyncio.run(everything(tasks, turns))
    say(
        {
            "work": tasks * turns + turns + 1,
            "give_way": tasks * (turns + 1),
            "waiter": tasks * (turns + 1),
            "immediate": turns,
            "ticks": turns + 1,
            "__aenter__": 1,
            "__aexit__": 2,
            "cancelled": 2,
            "main": 1,
        }
    )


if __name__ == "__main__":
    main()
