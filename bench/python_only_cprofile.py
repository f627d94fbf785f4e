"""python -m cProfile -o FILE SCRIPT ..., but with builtins=False.

cProfile's own command has no such option; this is its main() with that one change, so
that Lapwing without C calls can be held against cProfile without C calls.
"""

from __future__ import annotations

import cProfile
import os
import sys


def main() -> None:
    """Profile the script as the main program."""
    option, output, script, *_ = sys.argv[1:]
    assert option == "-o"
    sys.argv[:] = sys.argv[3:]
    sys.path[0] = os.path.dirname(script)
    with open(script, "rb") as file:
        code = compile(file.read(), script, "exec")
    names = {"__name__": "__main__", "__file__": script, "__builtins__": __builtins__}
    profiler = cProfile.Profile(builtins=False)
    try:
        profiler.runctx(code, names, names)  # type: ignore[arg-type]
    except SystemExit:
        pass
    finally:
        profiler.dump_stats(output)


if __name__ == "__main__":
    main()
