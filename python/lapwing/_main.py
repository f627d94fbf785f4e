"""python -m lapwing: as python -m cProfile.

The program finds itself as plain Python would have started it: `__main__` is a module
of its own with the `__spec__` that Python gives it (None for a script), since that is
how multiprocessing tells its children what to import and pickle finds the program's
classes. It stays there after the program's last line, for threads and exit handlers.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import sys
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from types import CodeType, ModuleType
from typing import TYPE_CHECKING

from lapwing._profile import Profile

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

SORT_KEYS = (
    "calls cumtime cumulative file filename line module name ncalls nfl pcalls stdname "
    "time tottime"
).split()


class Options:
    """What the command line says."""

    def __init__(self, words: list[str]) -> None:
        # cProfile's own parser, so that every command line of its means the same here.
        from optparse import OptionParser

        parser = OptionParser(
            prog="python -m lapwing",
            usage="%prog [-o FILE] [-s KEY] [-m MODULE | SCRIPT] [ARG...]",
            description="Profile every call of a script or module in this process.",
            epilog="`lapwing run` records children too; see `lapwing --help`.",
        )
        parser.allow_interspersed_args = False
        parser.add_option(
            "-o", "--outfile", metavar="FILE", help="save a .prof to FILE"
        )
        parser.add_option(
            "-s",
            "--sort",
            metavar="KEY",
            choices=SORT_KEYS,
            default="cumulative",
            help="order of the printed table (default: cumulative): "
            + ", ".join(SORT_KEYS),
        )
        parser.add_option(
            "-m",
            action="store_true",
            dest="is_module",
            help="run a module, not a script",
        )
        parsed, self.program = parser.parse_args(words)
        if not self.program:
            parser.error("no script or module to run")
        self.is_module: bool = parsed.is_module
        self.sort: str = parsed.sort
        # Absolute: the program may change its folder.
        self.outfile: str | None = parsed.outfile and os.path.abspath(parsed.outfile)


def search_first(folder: str, *, is_program: bool) -> None:
    """Put FOLDER where `python -m` has put the current one, the first of sys.path.

    A Python that trusts no such folder (-P, -I) has put none there, and searches one
    only if that IS the PROGRAM.
    """
    trusts_none = sys.flags.isolated or getattr(sys.flags, "safe_path", False)
    if not trusts_none and sys.path:
        sys.path[0] = folder
    elif is_program:
        sys.path.insert(0, folder)


def new_main(
    path: str | None, loader: object, spec: ModuleSpec | None, cached: str | None
) -> ModuleType:
    """The module that is `__main__` from now on."""
    module = ModuleType("__main__")
    module.__dict__.update(
        {
            "__annotations__": {},
            "__builtins__": builtins,
            "__cached__": cached,
            "__file__": path,
            "__loader__": loader,
            "__package__": spec.parent if spec else None,
            "__spec__": spec,
        }
    )
    sys.modules["__main__"] = module
    return module


def run_module(name: str | None) -> None:
    """Import and run a module, or the one that the first of sys.path has as its main.

    Its packages are imported on the way, so this is part of what is profiled.
    """
    import runpy

    # What `python -m` itself calls, and pdb and trace; there is no public name for it.
    private: tuple[Callable[..., tuple[str, ModuleSpec, CodeType]], ...] = (
        runpy._get_module_details,  # type: ignore[attr-defined]
        runpy._get_main_module_details,  # type: ignore[attr-defined]
    )
    get_details, get_main_details = private
    not_found: type[Exception] = runpy._Error  # type: ignore[attr-defined]
    try:
        if name is None:
            _, spec, code = get_main_details(not_found)
        else:
            sys.argv[0] = "-m"
            _, spec, code = get_details(name, not_found)
            sys.argv[0] = str(spec.origin)
    except not_found as error:
        print(f"lapwing: {error}", file=sys.stderr)
        raise SystemExit(1) from None
    module = new_main(spec.origin, spec.loader, spec, spec.cached)
    exec(code, module.__dict__)


def read_script(path: str) -> CodeType:
    """The code of a script, under the name that plain Python gives it."""
    try:
        with io.open_code(os.path.abspath(path)) as source:
            text = source.read()
    except OSError as error:
        print(f"lapwing: {path}: {error.strerror}", file=sys.stderr)
        raise SystemExit(2) from None
    return compile(text, script_name(path), "exec", dont_inherit=True)


def script_name(path: str) -> str:
    """PATH made absolute as plain Python does it, which keeps "." and ".." in it."""
    return os.path.join(os.getcwd(), path)


def prepare(options: Options, profile: Profile) -> Callable[[], object]:
    """Set up sys for the program; what runs it in PROFILE is given back."""
    path = options.program[0]
    sys.argv[:] = options.program
    if options.is_module:
        return lambda: profile.runcall(run_module, path)

    import pkgutil

    if pkgutil.get_importer(path) is not None:  # a folder or a zip file
        search_first(script_name(path), is_program=True)
        return lambda: profile.runcall(run_module, None)
    code = read_script(path)
    name = code.co_filename
    search_first(os.path.dirname(os.path.realpath(path)), is_program=False)
    names = new_main(name, SourceFileLoader("__main__", name), None, None).__dict__
    return lambda: profile.runctx(code, names, names)


def has_reader() -> bool:
    """Will anybody read our output? After `| head` nobody does."""
    import select

    try:
        poll = select.poll()
        poll.register(sys.stdout.fileno(), 0)
        return not poll.poll(0)
    except (AttributeError, OSError, ValueError):  # it is no file at all
        return True


def show(profile: Profile, options: Options) -> int:
    """Print or save; the exit code is given back."""
    try:
        if options.outfile is None:
            profile.print_stats(options.sort)
            if sys.stdout is not None:
                sys.stdout.flush()
        else:
            profile.dump_stats(options.outfile)
    except BrokenPipeError:
        sys.stdout = None  # else Python tries to write the rest at its end, and says so
        return errno.EPIPE
    except OSError as error:
        name = options.outfile or "standard output"
        print(f"lapwing: {name}: {error.strerror}", file=sys.stderr)
        return 1
    return 0


def main() -> None:
    """Run the program that sys.argv names, and print or save its profile."""
    options = Options(sys.argv[1:])
    profile = Profile()
    run = prepare(options, profile)
    try:
        run()
    except BrokenPipeError as error:
        if has_reader():  # of another pipe, then
            show(profile, options)
            raise
        sys.stdout = None
        show(profile, options)
        raise SystemExit(error.errno) from None
    except BaseException as error:
        is_failure = not isinstance(error, SystemExit) or error.code not in (None, 0)
        code = show(profile, options)
        if is_failure or code == 0:
            raise
        raise SystemExit(code) from None
    if code := show(profile, options):
        raise SystemExit(code)
