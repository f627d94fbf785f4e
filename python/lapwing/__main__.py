"""python -m lapwing [-o FILE] [-s KEY] [-m] SCRIPT [ARG...]: as python -m cProfile."""

from __future__ import annotations

import argparse
import importlib.machinery
import io
import sys
from collections.abc import Sequence
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from lapwing._profile import Profile, report

SORT_KEYS = (
    "calls cumtime cumulative file filename line module name ncalls nfl pcalls stdname "
    "time tottime"
).split()


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m lapwing",
        usage="python -m lapwing [-o FILE] [-s KEY] [-m MODULE | SCRIPT] [ARG...]",
        description="Profile every call of a script or module in this process.",
        epilog="`lapwing run` records children too; see `lapwing --help`.",
    )
    parser.add_argument("-o", "--outfile", metavar="FILE", help="save a .prof to FILE")
    parser.add_argument(
        "-s",
        "--sort",
        metavar="KEY",
        choices=SORT_KEYS,
        default=-1,
        help="order of the printed table: " + ", ".join(SORT_KEYS),
    )
    parser.add_argument(
        "-m", action="store_true", dest="is_module", help="run a module, not a script"
    )
    parser.add_argument("program", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    parsed = parser.parse_args(arguments)
    if not parsed.program:
        parser.error("no script or module to run")
    return parsed


def module_program(name: str) -> tuple[str | CodeType, dict[str, Any]]:
    import runpy

    code = "run_module(modname, run_name='__main__')"
    return code, {"run_module": runpy.run_module, "modname": name}


def script_program(path: str) -> tuple[CodeType, dict[str, Any]]:
    try:
        with io.open_code(str(Path(path).absolute())) as source:
            code = compile(source.read(), path, "exec")
    except OSError as error:
        print(f"lapwing: {path}: {error.strerror}", file=sys.stderr)
        raise SystemExit(2) from None
    sys.path.insert(0, str(Path(path).parent))
    module = ModuleType("__main__")
    spec = importlib.machinery.ModuleSpec(name="__main__", loader=None, origin=path)
    module.__dict__.update(
        {
            "__spec__": spec,
            "__file__": spec.origin,
            "__builtins__": __builtins__,
            "__package__": None,
            "__cached__": None,
        }
    )
    # What looks for its own classes in __main__ (pickle) must find them there.
    sys.modules["__main__"] = module
    return code, module.__dict__


def main() -> None:
    options = parse(sys.argv[1:])
    name = options.program[0]
    sys.argv[:] = options.program
    outfile = options.outfile and str(Path(options.outfile).absolute())
    code, names = (module_program if options.is_module else script_program)(name)
    profile = Profile()
    try:
        profile.runctx(code, names, names)
    except BrokenPipeError as error:
        # The reader of a pipe has gone, as after `| head`.
        sys.stdout = None
        raise SystemExit(error.errno) from None
    finally:
        report(profile, outfile, options.sort)


if __name__ == "__main__":
    main()
