"""lapwing.Profile: cProfile.Profile, faster, for all threads or for one.

Whatever takes a cProfile.Profile takes it: pstats.Stats, snakeviz, IPython's %prun.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from os import PathLike
from types import CodeType
from typing import Any, ParamSpec, TypeVar

from lapwing._agent import agent
from lapwing._stats import Entry, Stats, make_entries, make_stats, say_losses

P = ParamSpec("P")
T = TypeVar("T")


class Profile(agent.Calls):
    """Profile(timer=None, timeunit=0.0, subcalls=True, builtins=True, *, threads="all")

    Counts and times every call of the process, in every thread, each thread's calls
    apart; with threads="this" those of the thread that enables it. timer is a
    function that returns the time, as a number of timeunit seconds or, with timeunit
    0, in seconds.
    """

    stats: Stats

    def create_stats(self) -> None:
        """Stop counting and fill in .stats, as pstats.Stats wants it."""
        self.disable()
        self.snapshot_stats()

    def snapshot_stats(self) -> None:
        self.stats = make_stats(self.totals())
        for text in say_losses(self.take_losses()):
            warnings.warn(text, RuntimeWarning, stacklevel=2)

    def getstats(self) -> list[Entry]:
        """Entries like those of _lsprof.Profiler."""
        return make_entries(self.totals())

    def print_stats(self, sort: str | int | tuple[str | int, ...] = -1) -> None:
        """Print what pstats prints."""
        import pstats

        keys: Any = sort if isinstance(sort, tuple) else (sort,)
        like_cprofile: Any = self
        pstats.Stats(like_cprofile).strip_dirs().sort_stats(*keys).print_stats()

    def dump_stats(self, file: str | PathLike[str]) -> None:
        """Write the .prof file that pstats and snakeviz read."""
        import marshal

        with open(file, "wb") as out:
            self.create_stats()
            marshal.dump(self.stats, out)

    def run(self, cmd: str) -> Profile:
        import __main__

        return self.runctx(cmd, __main__.__dict__, __main__.__dict__)

    def runctx(
        self, cmd: str | CodeType, globals: dict[str, Any], locals: Mapping[str, Any]
    ) -> Profile:
        # A string that exec itself compiles has this file's future features.
        code = (
            cmd
            if isinstance(cmd, CodeType)
            else compile(cmd, "<string>", "exec", dont_inherit=True)
        )
        self.enable()
        try:
            exec(code, globals, locals)
        finally:
            self.disable()
        return self

    def runcall(self, func: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        self.enable()
        try:
            return func(*args, **kwargs)
        finally:
            self.disable()

    def __enter__(self) -> Profile:
        self.enable()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.disable()


def run(statement: str, filename: str | None = None, sort: str | int = -1) -> None:
    """Profile a statement in __main__, print the result or save it; as cProfile.run."""
    import __main__

    runctx(statement, __main__.__dict__, __main__.__dict__, filename, sort)


def runctx(
    statement: str,
    globals: dict[str, Any],
    locals: Mapping[str, Any],
    filename: str | None = None,
    sort: str | int = -1,
) -> None:
    """As run, with the given name spaces; as cProfile.runctx."""
    profile = Profile()
    try:
        profile.runctx(statement, globals, locals)
    except SystemExit:
        pass
    finally:
        if filename is None:
            profile.print_stats(sort)
        else:
            profile.dump_stats(filename)


def label(code: str | CodeType) -> tuple[str, int, str]:
    """(file, line, name): how pstats knows a function; as cProfile.label."""
    if isinstance(code, str):
        return ("~", 0, code)
    return (code.co_filename, code.co_firstlineno, code.co_name)
