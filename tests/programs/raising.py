"""Functions left by exceptions, in every way a frame can be unwound.

raising.py [N]
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import NoReturn

from known import say


class Refused(Exception):
    def __init__(self, reason: str) -> None:
        super().__init__(reason)


def refuse() -> NoReturn:
    raise Refused("always")


def pass_on() -> None:
    refuse()


def clean_up(log: list[int]) -> None:
    try:
        pass_on()
    finally:
        log.append(1)


def swallow(log: list[int]) -> int:
    try:
        clean_up(log)
    except Refused:
        return 1
    return 0


def translate() -> None:
    try:
        refuse()
    except Refused as error:
        raise LookupError("translated") from error


class Fussy:
    def __init__(self, value: int) -> None:
        if value < 0:
            raise ValueError(value)


def key(value: int) -> int:
    """Called back from C; the exception passes through a C frame."""
    if value == 3:
        raise ValueError(value)
    return value


@contextlib.contextmanager
def suppressing() -> Iterator[None]:
    try:
        yield
    except Refused:
        pass


def leave() -> NoReturn:
    sys.exit("not really")


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000
    log: list[int] = []
    assert sum(swallow(log) for _ in range(n)) == n == len(log)
    for _ in range(n):
        with contextlib.suppress(LookupError):
            translate()
        with contextlib.suppress(ValueError):
            Fussy(-1)
        with suppressing():
            refuse()
    with contextlib.suppress(ValueError):
        sorted([0, 1, 2, 3, 4, 5], key=key)
    with contextlib.suppress(ValueError):
        list(map(key, range(6)))
    with contextlib.suppress(SystemExit):
        leave()
    say(
        {
            "swallow": n,
            "clean_up": n,
            "pass_on": n,
            "refuse": 3 * n,
            "translate": n,
            "__init__": 3 * n + n,
            "key": 8,
            "suppressing": 2 * n,
            "leave": 1,
            "main": 1,
        }
    )


if __name__ == "__main__":
    main()
