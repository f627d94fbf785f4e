"""Write a .prof as cProfile would for a large program: many_functions.py FILE [COUNT].

COUNT functions (20,000) in files of fifty, each calling two others, two levels deep:
the size of profile a training with torch and its friends leaves behind. The functions
are real and cProfile writes the file, so its strings are shared as they always are.
"""

from __future__ import annotations

import cProfile
import sys
from collections.abc import Callable

FUNCTIONS_A_FILE = 50


def make_functions(count: int) -> list[Callable[[int], None]]:
    """COUNT functions of different code, that call each other."""
    functions: list[Callable[[int], None]] = []
    names: dict[str, object] = {"functions": functions}
    for start in range(0, count, FUNCTIONS_A_FILE):
        lines = []
        for number in range(start, min(start + FUNCTIONS_A_FILE, count)):
            near, far = (number + 1) % count, number * 7919 % count
            lines.append(
                f"def function_{number}(depth):\n"
                f"    if depth > 0:\n"
                f"        functions[{near}](depth - 1)\n"
                f"        functions[{far}](depth - 1)\n"
                f"functions.append(function_{number})\n"
            )
        path = f"/home/student/project/package/module_{start // FUNCTIONS_A_FILE}.py"
        exec(compile("".join(lines), path, "exec"), names)
    return functions


def main() -> None:
    """Call each function once, profiled."""
    output = sys.argv[1]
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 20_000
    functions = make_functions(count)
    profiler = cProfile.Profile()
    profiler.enable()
    for function in functions:
        function(2)
    profiler.disable()
    profiler.dump_stats(output)


if __name__ == "__main__":
    main()
