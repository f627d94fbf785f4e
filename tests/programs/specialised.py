"""Calls that the interpreter shortens once they are hot, counts known.

    specialised.py [N]

From 3.11 on a hot call of a property, __getitem__, __init__ or a generator runs
without going through C, each by an instruction of its own. A profiler that hooks
frames has to see these as well.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator

from known import say


class Point:
    def __init__(self, x: int, y: int = 0) -> None:
        self._x = x
        self.y = y

    @property
    def x(self) -> int:
        return self._x

    def __getitem__(self, index: int) -> int:
        return self._x if index == 0 else self.y

    def __add__(self, other: Point) -> Point:
        return Point(self._x + other._x, self.y + other.y)

    def __lt__(self, other: Point) -> bool:
        return self._x < other._x

    def __call__(self, factor: int) -> int:
        return self._x * factor

    def __len__(self) -> int:
        return 2

    def __contains__(self, value: int) -> bool:
        return value == self._x

    def __getattr__(self, name: str) -> str:
        return name

    @classmethod
    def origin(cls) -> Point:
        return cls(0)

    @staticmethod
    def double(x: int) -> int:
        return 2 * x


class Derived(Point):
    def __init__(self, x: int) -> None:
        super().__init__(x, x)


def count_up(n: int) -> Iterator[int]:
    for i in range(n):
        yield i  # noqa: UP028  (a frame that is resumed for each value)


def many(a: int, *rest: int, scale: int = 1, **named: int) -> int:
    return (a + sum(rest) + sum(named.values())) * scale


@functools.lru_cache(maxsize=None)
def remembered(x: int) -> int:
    return x


def make_adder(amount: int):  # type: ignore[no-untyped-def]
    def add(x: int) -> int:
        return x + amount

    return add


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 5_000
    one = Point(1)
    total = 0
    add = make_adder(1)
    partly = functools.partial(many, 1, scale=2)
    for i in range(n):
        point = Point(i, 1)
        derived = Derived(i)
        total += point.x + point[0] + point(2) + len(point) + derived.y
        total += (point + one)._x
        total += i in point
        total += len(point.missing)
        total += Point.double(i) + Point.origin()._x
        total += many(i, 1, 2, scale=3, extra=4) + partly(i)
        total += remembered(i % 10) + add(i)
    for i in count_up(n):
        total += i
    points = sorted(Point(0) for _ in range(2))
    assert len(points) == 2
    say(
        {
            "__init__": 1 + n + 2 * n + n + n + 2,
            "x": n,
            "__getitem__": n,
            "__call__": n,
            "__len__": n,
            "__add__": n,
            "__contains__": n,
            "__getattr__": n,
            "__lt__": 1,
            "double": n,
            "origin": n,
            "many": 2 * n,
            "remembered": 10,
            "make_adder": 1,
            "add": n,
            "count_up": n + 1,
            "main": 1,
        }
    )


if __name__ == "__main__":
    main()
