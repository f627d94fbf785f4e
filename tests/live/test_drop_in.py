"""lapwing where cProfile was: `python -m lapwing`, run(), subclasses of Profile.

A program under `python -m lapwing` must find itself as plain Python has it, so most of
these compare with what the same program says when nobody watches.
"""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from packages import environment

LAPWING = ("-m", "lapwing", "-o", "saved.prof")


def run(
    python: str, folder: Path, *words: str | Path, text: str = "", **more: str
) -> subprocess.CompletedProcess[str]:
    # A pool that waits for ever must end, and its children with it.
    bounded = ["timeout", "-k", "5", "60", python, *words]
    return subprocess.run(
        bounded,
        cwd=folder,
        env=environment(**more),
        input=text,
        capture_output=True,
        text=True,
    )


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


# What a program can know of how it was started. A loader has its address in its name.
IDENTITY = """
import re, sys
main = sys.modules["__main__"]
def shown(value):
    return re.sub(" at 0x[0-9a-f]+", "", repr(value))
known = {name: shown(value) for name, value in sorted(vars(main).items())
         if name.startswith("__") and name not in ("__cached__", "__doc__")}
if __spec__ is not None:
    known["cached"] = main.__cached__ == __spec__.cached
# Where the package that is under test lies is no matter of the program's.
print(known, main.__dict__ is globals(), sys.argv, sys.path, sep="\\n")
print(sys._getframe().f_code.co_filename)
"""

WAYS: dict[str, tuple[str | Path, ...]] = {
    "name": ("x.py", "a", "-o", "b"),
    "dotted": ("./x.py",),
    "in a folder": ("scripts/x.py", "--", "-m"),
    "above": ("scripts/../x.py",),
    "a link": ("link.py",),
    "no suffix": ("plain",),
    "module": ("-m", "x", "-s", "a"),
    "module in a package": ("-m", "package.x"),
    "package": ("-m", "package"),
    "folder": ("folder", "a"),
    "zip": ("x.zip",),
}


def make_programs(folder: Path) -> None:
    write(folder / "x.py", IDENTITY)
    write(folder / "plain", IDENTITY)
    write(folder / "scripts" / "x.py", IDENTITY)
    (folder / "link.py").symlink_to(Path("scripts") / "x.py")
    write(folder / "package" / "__init__.py", "")
    write(folder / "package" / "x.py", IDENTITY)
    write(folder / "package" / "__main__.py", IDENTITY)
    write(folder / "folder" / "__main__.py", IDENTITY)
    with zipfile.ZipFile(folder / "x.zip", "w") as packed:
        packed.writestr("__main__.py", IDENTITY)


@pytest.mark.parametrize("way", WAYS)
def test_a_program_finds_itself_as_plain_python_has_it(
    python: str, way: str, tmp_path: Path
) -> None:
    make_programs(tmp_path)
    words = WAYS[way]
    bare = run(python, tmp_path, *words)
    assert bare.returncode == 0, bare.stderr
    ours = run(python, tmp_path, *LAPWING, *words)
    assert (ours.stdout, ours.stderr) == (bare.stdout, bare.stderr)


def test_python_that_trusts_no_folder_is_left_so(python: str, tmp_path: Path) -> None:
    """-P, since 3.11: neither the script's folder nor the current one is searched. A
    folder or zip file that is itself the program still is."""
    make_programs(tmp_path)
    for words in (("scripts/x.py",), ("folder",), ("x.zip",)):
        bare = run(python, tmp_path, *words, PYTHONSAFEPATH="1")
        ours = run(python, tmp_path, *LAPWING, *words, PYTHONSAFEPATH="1")
        assert (ours.stdout, ours.stderr) == (bare.stdout, bare.stderr)


POOLS = """
import concurrent.futures, multiprocessing, os, sys
class Answer:  # found in __main__ by its name, there and back
    def __init__(self, value):
        self.value = value
def double(answer):
    return Answer(2 * answer.value)
def main():
    for method in ("spawn", "forkserver", "fork"):
        context = multiprocessing.get_context(method)
        questions = [Answer(n) for n in range(4)]
        with context.Pool(1) as pool:
            print(method, [a.value for a in pool.map(double, questions)])
        with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
            print(method, [a.value for a in pool.map(double, questions)])
if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize("words", [("pools.py",), ("-m", "pools")])
def test_pools_of_every_kind_find_their_work_in_main(
    python: str, words: tuple[str, ...], tmp_path: Path
) -> None:
    write(tmp_path / "pools.py", POOLS)
    expected = "".join(
        f"{method} [0, 2, 4, 6]\n" * 2 for method in ("spawn", "forkserver", "fork")
    )
    ours = run(python, tmp_path, *LAPWING, *words)
    assert (ours.returncode, ours.stdout) == (0, expected), ours.stderr


LOADER = """
import torch
from torch.utils.data import DataLoader, Dataset
class Squares(Dataset):
    def __len__(self):
        return 8
    def __getitem__(self, index):
        return torch.tensor(index * index)
def main():
    for method in ("spawn", "forkserver"):
        loader = DataLoader(
            Squares(), batch_size=4, num_workers=1, multiprocessing_context=method
        )
        print(method, [batch.sum().item() for batch in loader])
if __name__ == "__main__":
    main()
"""


@pytest.mark.torch
def test_a_loader_whose_workers_are_spawned_gives_its_batches(
    torch_python: str, tmp_path: Path
) -> None:
    write(tmp_path / "load.py", LOADER)
    ours = run(torch_python, tmp_path, *LAPWING, "load.py")
    assert ours.returncode == 0, ours.stderr
    assert ours.stdout == "spawn [14, 126]\nforkserver [14, 126]\n"


def test_main_is_the_programs_own_until_the_end(python: str, tmp_path: Path) -> None:
    """Threads and exit handlers outlive the last line of a program."""
    code = (
        "import atexit, pickle, sys, threading\n"
        "class Thing: pass\n"
        "def late(word):\n"
        "    print(word, type(pickle.loads(pickle.dumps(Thing()))) is Thing)\n"
        "atexit.register(late, 'exit')\n"
        "threading.Timer(0.05, late, ['thread']).start()\n"
    )
    write(tmp_path / "late.py", code)
    for words in (("late.py",), ("-m", "late")):
        ours = run(python, tmp_path, *LAPWING, *words)
        assert ours.stdout == "thread True\nexit True\n", ours.stderr


# True where annotations are what they say; "str" where our own future flag leaked in.
FIELD = (
    "import dataclasses\n"
    "@dataclasses.dataclass\n"
    "class Options:\n"
    "    rate: float = 0.1\n"
    "print(dataclasses.fields(Options)[0].type is float)\n"
)


def test_nothing_of_our_own_source_leaks_into_the_programs(
    python: str, tmp_path: Path
) -> None:
    write(tmp_path / "x.py", FIELD)
    for words in (("x.py",), ("-m", "x")):
        ours = run(python, tmp_path, *LAPWING, *words)
        assert ours.stdout == "True\n", ours.stderr
    code = f"""
import contextlib, io, lapwing
field = {FIELD!r}
def printed(work, *arguments):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        work(*arguments)
    return out.getvalue().splitlines()[0]
space = {{"__name__": "space"}}
print(printed(lapwing.run, field), printed(lapwing.runctx, field, space, space),
      printed(lapwing.Profile().run, field),
      printed(lapwing.Profile().runctx, field, space, space))
"""
    write(tmp_path / "strings.py", code)
    ours = run(python, tmp_path, "strings.py")
    assert ours.stdout == "True True True True\n", ours.stderr


# Each line is run with cProfile's Profile and with ours, and must say the same.
SUBCLASSES = """
import sys
module = __import__(sys.argv[1])
def leaf(): pass
def calls(profile):
    profile.create_stats()
    return [row[1] for key, row in profile.stats.items() if key[2] == "leaf"]
class Named(module.Profile):
    def __init__(self, name, *, level):
        super().__init__()
        self.name, self.level = name, level
p = Named("first", level=3)
p.runcall(leaf)
print(p.name, p.level, calls(p))
class Clocked(module.Profile):
    def __init__(self, name):
        self.now = 0
        super().__init__(self.clock, 0.5, builtins=False)
    def clock(self):
        self.now += 1
        return self.now
p = Clocked("a timer of its own")
p.runcall(leaf)
print(calls(p), [row[2] for key, row in p.stats.items() if key[2] == "leaf"])
class Late(module.Profile):
    def __new__(cls, *words):
        return super().__new__(cls)
    def __init__(self, *words):
        pass
p = Late("anything", object())
p.runcall(leaf)
print(calls(p))
p = module.Profile()
p.runcall(leaf)
p.__init__(subcalls=False)  # keeps what was counted
p.runcall(leaf)
print(calls(p))
p.enable()
p.__init__()  # while it counts
leaf()
p.disable()
print(calls(p))
for words in ([1, 2, 3, 4, 5, 6], ["timer", "unit"]):
    try:
        module.Profile(*words)
        print("taken")
    except TypeError as error:
        print("TypeError")
try:
    module.Profile(nothing=1)
except TypeError as error:
    print("TypeError")
"""


def test_subclasses_of_profile_have_their_own_arguments(
    python: str, tmp_path: Path
) -> None:
    write(tmp_path / "x.py", SUBCLASSES)
    theirs = run(python, tmp_path, "x.py", "cProfile")
    assert theirs.returncode == 0, theirs.stderr
    ours = run(python, tmp_path, "x.py", "lapwing")
    assert (ours.stdout, ours.stderr) == (theirs.stdout, theirs.stderr)


def test_a_profile_whose_timer_knows_it_is_freed(python: str, tmp_path: Path) -> None:
    code = """
import gc, lapwing, weakref
class Clocked(lapwing.Profile):
    def __init__(self):
        super().__init__(self.clock)
    def clock(self):
        return 0.0
freed = []
for enabled in (False, True):
    p = Clocked()
    weakref.finalize(p, freed.append, enabled)
    if enabled:
        p.enable()
    del p
    gc.collect()
print(freed)
lapwing.Profile().runcall(len, "")
"""
    write(tmp_path / "x.py", code)
    ours = run(python, tmp_path, "x.py")
    assert ours.stdout == "[False, True]\n", ours.stderr


EVIL_TIMERS = """
import lapwing, sys
class Evil:
    calls = 0
    def __init__(self, at, word):
        self.at, self.word = at, word
    def __call__(self):
        self.calls += 1
        if self.calls == self.at:
            getattr(profile, self.word)()
        return float(self.calls)
def f():
    pass
heard = []
sys.unraisablehook = lambda error: heard.append(str(error.exc_value))
for word in ("disable", "clear", "__init__"):
    for at in (1, 2, 3):
        profile = lapwing.Profile(Evil(at, word))
        profile.enable()
        f()
        f()
        profile.disable()
        profile.create_stats()
        assert [r[1] for k, r in profile.stats.items() if k[2] == "f"] == [2]
print(*heard, sep="\\n")
heard.clear()
lapwing.Profile(lambda: "no number").runcall(f)
print(set(heard))
"""


def test_a_timer_may_do_what_it_likes(python: str, tmp_path: Path) -> None:
    write(tmp_path / "x.py", EVIL_TIMERS)
    ours = run(python, tmp_path, "x.py")
    refused = [
        f"cannot {word} profiler in external timer\n" * 3
        for word in ("disable", "clear", "set up")
    ]
    expected = "".join(refused) + "{'must be real number, not str'}\n"
    assert (ours.returncode, ours.stdout) == (0, expected), ours.stderr


SLOW_AND_FAST = """
def a_fast(): pass
def z_slow():
    for _ in range(300): a_fast()
z_slow()
"""


def test_the_table_is_sorted_by_cumulative_time(python: str, tmp_path: Path) -> None:
    write(tmp_path / "x.py", SLOW_AND_FAST)
    ours = run(python, tmp_path, "-m", "lapwing", "x.py")
    assert "Ordered by: cumulative time" in ours.stdout
    assert ours.stdout.index("z_slow") < ours.stdout.index("a_fast")


def test_every_sort_key_of_pstats_is_one(python: str, tmp_path: Path) -> None:
    write(tmp_path / "x.py", "")
    code = "import pstats; print(*pstats.Stats.sort_arg_dict_default)"
    for key in run(python, tmp_path, "-c", code).stdout.split():
        ours = run(python, tmp_path, "-m", "lapwing", "-s", key, "x.py")
        assert (ours.returncode, ours.stderr) == (0, "")
    assert run(python, tmp_path, "-m", "lapwing", "-s", "x", "x.py").returncode == 2


def test_words_are_parted_as_cprofile_parts_them(python: str, tmp_path: Path) -> None:
    write(tmp_path / "x.py", "import sys; print(sys.argv[1:])")
    for words, expected in (
        (("--", "x.py", "--", "a"), "['--', 'a']"),
        (("-ox.prof", "--", "x.py", "-m"), "['-m']"),
        (("-mox.prof", "x", "-o"), "['-o']"),
        (("--outfile=x.prof", "--sort", "calls", "-m", "--", "x"), "[]"),
    ):
        theirs = run(python, tmp_path, "-m", "cProfile", *words)
        ours = run(python, tmp_path, "-m", "lapwing", *words)
        assert ours.stdout.splitlines()[0] == expected, ours.stderr
        assert theirs.stdout.splitlines()[0] == expected


def pipe_to_nobody(
    python: str, folder: Path, *words: str
) -> subprocess.CompletedProcess[str]:
    """Run with a standard output whose reader has gone."""
    code = (
        "import os, sys\n"
        "reads, writes = os.pipe()\n"
        "os.close(reads)\n"
        "os.dup2(writes, 1)\n"
        "os.execv(sys.argv[1], sys.argv[1:])\n"
    )
    return run(sys.executable, folder, "-c", code, python, *words)


def test_a_reader_that_has_gone_is_no_traceback(python: str, tmp_path: Path) -> None:
    write(tmp_path / "quiet.py", "")
    write(tmp_path / "loud.py", "for _ in range(100000): print('word')")
    write(tmp_path / "failed.py", "raise SystemExit(3)")
    for program, code in (("quiet.py", 32), ("loud.py", 32), ("failed.py", 3)):
        ours = pipe_to_nobody(python, tmp_path, "-m", "lapwing", program)
        assert (ours.returncode, ours.stderr) == (code, "")


def test_a_broken_pipe_of_the_programs_own_is_its_exception(
    python: str, tmp_path: Path
) -> None:
    code = "import os\nr, w = os.pipe()\nos.close(r)\nos.write(w, b'x')\n"
    write(tmp_path / "x.py", code)
    ours = run(python, tmp_path, "-m", "lapwing", "x.py")
    assert ours.returncode == 1
    assert ours.stderr.splitlines()[-1] == "BrokenPipeError: [Errno 32] Broken pipe"
    assert "function calls" in ours.stdout


def test_an_exception_of_the_program_outlives_a_profile_that_cannot_be_saved(
    python: str, tmp_path: Path
) -> None:
    write(tmp_path / "x.py", "raise KeyError('mine')")
    ours = run(python, tmp_path, "-m", "lapwing", "-o", "/nonexistent/x", "x.py")
    assert ours.returncode == 1
    assert "lapwing: /nonexistent/x: No such file or directory" in ours.stderr
    assert ours.stderr.splitlines()[-1] == "KeyError: 'mine'"


def test_a_module_that_is_not_there_is_a_sentence(python: str, tmp_path: Path) -> None:
    ours = run(python, tmp_path, "-m", "lapwing", "-m", "no_such_module")
    assert (ours.returncode, ours.stderr) == (
        1,
        "lapwing: No module named no_such_module\n",
    )
    write(tmp_path / "needs.py", "import no_such_module")
    ours = run(python, tmp_path, "-m", "lapwing", "-m", "needs")
    assert ours.stderr.splitlines()[-1].startswith("ModuleNotFoundError: ")


def test_a_profile_that_cannot_be_saved_raises_what_cprofile_raises(
    python: str, tmp_path: Path
) -> None:
    code = (
        "import sys\n"
        "module = __import__(sys.argv[1])\n"
        "for save in (lambda: module.run('1', '/nonexistent/x'),\n"
        "             lambda: module.runctx('1', {}, {}, '/nonexistent/x'),\n"
        "             lambda: module.Profile().dump_stats('/nonexistent/x')):\n"
        "    try: save()\n"
        "    except OSError as error: print(repr(error))\n"
    )
    write(tmp_path / "x.py", code)
    theirs = run(python, tmp_path, "x.py", "cProfile")
    assert theirs.stdout.count("FileNotFoundError") == 3
    assert run(python, tmp_path, "x.py", "lapwing").stdout == theirs.stdout


SURFACE = """
import cProfile, inspect, lapwing, types
for name, theirs in vars(cProfile).items():
    if name.startswith("_") or isinstance(theirs, types.ModuleType):
        continue
    ours = getattr(lapwing, name, None)
    if ours is None:
        print("missing:", name)
    elif inspect.isfunction(theirs):
        a, b = inspect.signature(theirs).parameters, inspect.signature(ours).parameters
        if [(p.name, p.kind, p.default) for p in a.values()] != [
            (p.name, p.kind, p.default) for p in b.values()
        ]:
            print("differs:", name, *map(str, (a, b)))
for name, theirs in vars(cProfile.Profile).items():
    if inspect.isfunction(theirs):
        a, b = (
            [
                (p.kind, p.default, "*" if "VAR" in p.kind.name else p.name)
                for p in inspect.signature(function).parameters.values()
            ]
            for function in (theirs, getattr(lapwing.Profile, name))
        )
        if a != b:
            print("differs:", "Profile", name, a, b)
def f(): pass
for code in (f.__code__, "<built-in>"):
    assert lapwing.label(code) == cProfile.label(code)
print("compared")
"""


def test_everything_of_cprofile_is_there_with_its_arguments(
    python: str, tmp_path: Path
) -> None:
    write(tmp_path / "x.py", SURFACE)
    assert run(python, tmp_path, "x.py").stdout == "compared\n"
