"""The ways to run a program that are compared, each as its users would type it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import places

PYTHON_ONLY_CPROFILE = str(places.PROJECT / "bench" / "python_only_cprofile.py")


@dataclass(frozen=True)
class Where:
    """What a command is made of."""

    python: str
    lapwing: str
    output: str  # a path that does not exist yet


@dataclass(frozen=True)
class Mode:
    """One way to run a program."""

    name: str
    tool: str  # what has to be there: "", "lapwing" or a peer
    core: bool  # takes part in every round; the slow peers do in some
    with_c: bool | None  # whether C functions are seen; None: it samples, or is bare
    command: Callable[[Where], list[str]]  # all that comes before the script


MODES = (
    Mode("bare", "", True, None, lambda w: [w.python]),
    Mode(
        "cProfile",
        "",
        True,
        True,
        lambda w: [w.python, "-m", "cProfile", "-o", w.output],
    ),
    Mode(
        "cProfile builtins=False",
        "",
        True,
        False,
        lambda w: [w.python, PYTHON_ONLY_CPROFILE, "-o", w.output],
    ),
    Mode(
        "lapwing --calls",
        "lapwing",
        True,
        False,
        lambda w: [w.lapwing, "run", "--calls", "-o", w.output, "--", w.python],
    ),
    Mode(
        "lapwing --calls --c-calls",
        "lapwing",
        True,
        True,
        lambda w: [
            *[w.lapwing, "run", "--calls", "--c-calls"],
            *["-o", w.output, "--", w.python],
        ],
    ),
    Mode(
        "yappi",
        "yappi",
        False,
        False,
        lambda w: [w.python, "-m", "yappi", "-c", "wall", "-o", w.output],
    ),
    Mode(
        "yappi -b",
        "yappi",
        False,
        True,
        lambda w: [w.python, "-m", "yappi", "-b", "-c", "wall", "-o", w.output],
    ),
    Mode(
        "viztracer --ignore_c_function",
        "viztracer",
        False,
        False,
        lambda w: [
            *[w.python, "-m", "viztracer", "--ignore_c_function"],
            *["-o", w.output + ".json", "--"],
        ],
    ),
    Mode(
        "viztracer",
        "viztracer",
        False,
        True,
        lambda w: [w.python, "-m", "viztracer", "-o", w.output + ".json", "--"],
    ),
    Mode(
        "pyinstrument",
        "pyinstrument",
        False,
        None,
        lambda w: [w.python, "-m", "pyinstrument", "-o", w.output + ".txt"],
    ),
)

BY_NAME = {mode.name: mode for mode in MODES}
