"""The shell prints what `python -m pstats` prints, given the same script; and several
profiles add up to what pstats.Stats(A, B, ...) holds.

The judge is the pstats of the Python that runs the tests (3.11).
"""

from __future__ import annotations

import os
import pstats
import pty
import random
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAMS = ["busy.py", "recursion.py", "generators.py"]

SCRIPTS = {
    "nothing": "",
    "only an end": "EOF\n",
    "quit": "quit\nstats 1\n",
    "stats": "stats\n",
    "restrictions": "stats 5\nstats 0.1\nstats json 3\nstats fib 0.5 1\nstats 0\n",
    "bad restrictions": "stats 1.5\nstats -0.5 2\nstats (\nstats [a 3\nstats -1 x\n",
    "sorting": "sort time\nstats 4\nsort calls name\nstats 4\nsort nfl\ncallers fib\n",
    "bad sorting": "sort\nsort nobody\nsort time nobody\nsort cum\nsort -1\nstats 3\n",
    "every key": "".join(
        f"sort {key}\nstats 6\nreverse\nstats 6\n"
        for key in pstats.Stats.sort_arg_dict_default
    ),
    "reversing": "reverse\nstats 3\nsort time\nreverse\nstats 3\nreverse\nstats 3\n",
    "callers": "sort cumulative\ncallers 5\ncallees 5\ncallers nobody\n",
    "stripping": "strip\nstats 5\nsort name\nstats 5\nstrip\nstats 5\ncallers\n",
    "repeating": "stats 2\n\n\n   \nsort time\n\nfoo\n\n",
    "adding": "sort time\nadd b\nstats 5\nsort time\nstats 5\ncallees fib\n",
    "adding what is stripped": "strip\nadd b\nstats\nsort nfl\ncallers\nstrip\nstats\n",
    "adding itself": "add a\nadd a\nsort pcalls\nstats 9\ncallers 9\n",
    "reading": "read b\nstats 2\nread\nstats 2\nsort time\nread a\nstats 2\n",
    "missing files": "read nobody\nadd nobody\nadd\nstats 1\n",
    "other words": "foo\n!ls\n(x\nstats10\n  stats   2  \nstats(2\nhelpful\n",
    "help of each": "".join(
        f"help {word}\n?{word}\n"
        for word in "EOF add callees callers help quit read reverse sort stats strip "
        "nobody".split()
    ),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a, b and c, which cProfile saved."""
    folder = tmp_path_factory.mktemp("shell")
    for name, program in zip("abc", PROGRAMS, strict=True):
        path = ROOT / "tests" / "programs" / program
        subprocess.run(
            [sys.executable, "-m", "cProfile", "-o", name, path],
            check=True,
            cwd=folder,
            stdout=subprocess.DEVNULL,
        )
    return folder


def browse(words: list[str], folder: Path, script: str) -> str:
    done = subprocess.run(
        words, input=script, cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("files", [[], ["a"], ["a", "b"], ["a", "b", "c", "a"], ["no"]])
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_prints_as_with_pstats(
    lapwing: str, folder: Path, name: str, files: list[str]
) -> None:
    theirs = browse([sys.executable, "-m", "pstats", *files], folder, SCRIPTS[name])
    assert browse([lapwing, "shell", *files], folder, SCRIPTS[name]) == theirs


def test_help_lists_what_pstats_lists_and_the_views(lapwing: str, folder: Path) -> None:
    theirs = browse([sys.executable, "-m", "pstats"], folder, "help\n")
    ours = browse([lapwing, "shell"], folder, "help\n")
    topics = theirs.removesuffix("% \nGoodbye.\n")
    assert ours.startswith(topics)
    assert "functions" in ours.removeprefix(topics)


@pytest.mark.parametrize("seed", range(20))
def test_any_script_prints_as_with_pstats(
    lapwing: str, folder: Path, seed: int
) -> None:
    rng = random.Random(seed)
    commands = [
        "stats",
        "callers",
        "callees",
        "sort",
        "add",
        "read",
        "strip",
        "reverse",
    ]
    words = ["3", "0.2", "json", "fib", r"\(.*e", "time", "calls", "a", "b", "c", "7"]
    script = "".join(
        " ".join([rng.choice(commands), *rng.choices(words, k=rng.randrange(3))]) + "\n"
        for _ in range(15)
    )
    theirs = browse([sys.executable, "-m", "pstats", "a"], folder, script)
    assert browse([lapwing, "shell", "a"], folder, script) == theirs, script


@pytest.mark.parametrize("names", ["aa", "ab", "ba", "abc", "cab", "aabbcc"])
def test_profiles_add_up_as_with_pstats(
    lapwing: str, folder: Path, names: str, tmp_path: Path
) -> None:
    """Every count, every last digit of every time, and the order of all of it."""
    total = tmp_path / "total.prof"
    words = [lapwing, "export", *names, "-o", str(total)]
    subprocess.run(words, check=True, cwd=folder)
    theirs = pstats.Stats(*(str(folder / name) for name in names)).stats
    ours = pstats.Stats(str(total)).stats
    assert ours == theirs
    assert list(ours) == list(theirs)
    assert [list(v[4]) for v in ours.values()] == [list(v[4]) for v in theirs.values()]


def read_until(terminal: int, text: str) -> str:
    """What a terminal shows up to TEXT; fails when that does not come."""
    seen, end = "", time.monotonic() + 20
    while text not in seen:
        ready, _, _ = select.select([terminal], [], [], end - time.monotonic())
        assert ready, f"no {text!r} in {seen!r}"
        seen += os.read(terminal, 4096).decode(errors="replace")
    return seen


def test_a_terminal_completes_words_and_remembers_lines(
    lapwing: str, folder: Path, tmp_path: Path
) -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        environment = os.environ | {"HOME": str(tmp_path), "TERM": "xterm"}
        environment.pop("XDG_STATE_HOME", None)
        os.execve(lapwing, [lapwing, "shell", "a"], environment)
    read_until(terminal, "a% ")
    os.write(terminal, b"sor\tcumu\t\n")
    read_until(terminal, "lative ")
    os.write(terminal, b"sta\t1\n")
    assert "Ordered by: cumulative time" in read_until(terminal, "due to restriction")
    os.write(terminal, b"quit\n")
    read_until(terminal, "Goodbye.")
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    os.close(terminal)
    history = tmp_path / ".local" / "state" / "lapwing" / "history"
    assert "quit" in history.read_text()
    assert history.stat().st_mode & 0o077 == 0
