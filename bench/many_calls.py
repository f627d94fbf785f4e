"""Make N Python calls (10 million) along many paths: many_calls.py [N].

Fifty functions, each calling two others, twelve levels deep from twelve of them: 80,794
different paths of calls. The training in examples/ has 128,000, so a report on this
recording has about as much to add up.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

FUNCTIONS = 50
ROOTS = 12
DEPTH = 12
CALLS_A_ROOT = 2 ** (DEPTH + 1) - 1


def make_functions() -> list[Callable[[int], None]]:
    """Functions that are different code, as those of a program are."""
    functions: list[Callable[[int], None]] = []
    names: dict[str, object] = {"functions": functions}
    for number in range(FUNCTIONS):
        left, right = (7 * number + 1) % FUNCTIONS, (13 * number + 5) % FUNCTIONS
        source = (
            f"def function_{number}(depth):\n"
            f"    if depth > 0:\n"
            f"        functions[{left}](depth - 1)\n"
            f"        functions[{right}](depth - 1)\n"
            f"functions.append(function_{number})\n"
        )
        exec(compile(source, f"module_{number}.py", "exec"), names)
    return functions


def main() -> None:
    """Call roots in turn until N calls are made."""
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
    functions = make_functions()
    made = 0
    while made < wanted:
        functions[made // CALLS_A_ROOT % ROOTS](DEPTH)
        made += CALLS_A_ROOT
    print(made)


if __name__ == "__main__":
    main()
