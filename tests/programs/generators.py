"""Generators in every way they are left: used up, closed, thrown into, let go.

Each resumption is a call, as pstats counts: a generator of n values used up is n + 1.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator

from known import say


def numbers(n: int) -> Iterator[int]:
    yield from range(n)


def walk(depth: int) -> Iterator[int]:
    """A binary tree by `yield from`: each value passes through the frames above it.

    walk(d) runs once a value and once more to end, 2**d times; with the two walks
    below it (d + 1) * 2**d frames run.
    """
    if depth > 0:
        yield from walk(depth - 1)
        yield depth
        yield from walk(depth - 1)


def echo() -> Generator[int, int, str]:
    received = 0
    while received >= 0:
        received = yield received
    return "done"


def stubborn() -> Generator[int, None, None]:
    """Handles what is thrown into it and goes on."""
    for i in range(1_000):
        try:
            yield i
        except ValueError:
            continue


def tidy(log: list[str]) -> Generator[int, None, None]:
    """Has something to do when it is closed, so closing runs it."""
    try:
        yield 1
        yield 2
    finally:
        log.append("closed")


def untidy() -> Generator[int, None, None]:
    """Not counted: whether closing it is a call differs from Python to Python."""
    yield 1
    yield 2


def outer(log: list[str]) -> Generator[int, None, None]:
    yield from tidy(log)


def failing() -> Iterator[int]:
    yield 1
    raise KeyError("second")


def plain(x: int) -> int:
    return x


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    log: list[str] = []

    assert sum(numbers(n)) == n * (n - 1) // 2

    assert len(list(walk(10))) == 2**10 - 1

    conversation = echo()
    next(conversation)
    assert [conversation.send(i) for i in range(n)] == list(range(n))
    try:
        conversation.send(-1)
    except StopIteration as end:
        assert end.value == "done"

    thrown_into = stubborn()
    assert next(thrown_into) == 0
    assert [thrown_into.throw(ValueError()) for _ in range(5)] == [1, 2, 3, 4, 5]
    del thrown_into

    closed = tidy(log)
    next(closed)
    closed.close()
    forgotten = untidy()
    next(forgotten)
    forgotten.close()
    through = outer(log)
    next(through)
    through.close()
    let_go = tidy(log)
    next(let_go)
    del let_go
    never_started = untidy()
    del never_started
    assert log == ["closed"] * 3

    fails = failing()
    next(fails)
    try:
        next(fails)
    except KeyError:
        pass

    assert sum(plain(i) for i in range(n)) == n * (n - 1) // 2
    assert any(plain(i) == 7 for i in range(n))

    say(
        {
            "numbers": n + 1,
            "walk": (11 * 2**10, 2**10),
            "echo": 1 + n + 1,
            "stubborn": 1 + 5 + 1,
            "tidy": 2 * 3,
            "outer": 2,
            "failing": 2,
            "plain": n + 8,
            "main": 1,
        }
    )


if __name__ == "__main__":
    main()
