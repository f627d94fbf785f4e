"""lapwing in a program: Profile, record, python -m lapwing."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from packages import environment


def run_code(python: str, code: str, folder: Path, **more: str) -> str:
    """What CODE prints, run by PYTHON in FOLDER with lapwing in reach."""
    done = subprocess.run(
        [python, "-c", code],
        cwd=folder,
        env=environment(**more),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def on_path(lapwing: str) -> dict[str, str]:
    """The program where another Python's package finds it."""
    import os

    return {"PATH": f"{Path(lapwing).parent}:{os.environ['PATH']}"}


WORK = """
import lapwing
def leaf(): pass
def work(n):
    for _ in range(n): leaf()
"""


def leaf_counts(lapwing: str, run: Path) -> list[int]:
    command = [lapwing, "report", str(run), "functions", "--json", "--limit", "0"]
    shown = json.loads(subprocess.check_output(command, text=True))
    return [row["calls"] for row in shown["rows"] if row["function"] == "leaf"]


def test_every_method_of_cprofile_is_there(python: str) -> None:
    code = (
        "import cProfile, lapwing; print(sorted("
        "{n for n in dir(cProfile.Profile) if not n.startswith('__')}"
        " - set(dir(lapwing.Profile))))"
    )
    # 3.12 and later show their callbacks among the methods.
    internal = {"_ccall_callback", "_creturn_callback", "_pystart_callback"}
    internal |= {"_pyreturn_callback", "_pythrow_callback", "_pyunwind_callback"}
    missing = run_code(python, code, Path.cwd())
    assert set(eval(missing)) <= internal  # noqa: S307


def test_profile_is_used_as_cprofiles(python: str, tmp_path: Path) -> None:
    code = WORK + (
        "p = lapwing.Profile()\n"
        "assert p.runcall(lambda x: x, 3) == 3\n"
        "p.clear(); p.run('work(5)'); p.runctx('work(n)', globals(), {'n': 7})\n"
        "with p: work(11)\n"
        "p.enable(subcalls=True, builtins=False); work(13); p.disable()\n"
        "p.create_stats()\n"
        "print([v[1] for k, v in p.stats.items() if k[2] == 'leaf'])\n"
        "p.dump_stats('x.prof')\n"
        "import pstats; print(pstats.Stats('x.prof').total_calls > 0)\n"
        "p.clear(); p.create_stats(); print(p.stats)\n"
    )
    assert run_code(python, code, tmp_path) == "[36]\nTrue\n{}\n"


def test_own_timer_and_two_profiles_at_once(python: str, tmp_path: Path) -> None:
    code = WORK + (
        "t = [0]\n"
        "def clock():\n"
        "    t[0] += 1\n"
        "    return t[0]\n"
        "a = lapwing.Profile(clock, 0.5, builtins=False); b = lapwing.Profile()\n"
        "a.enable(); work(3); b.enable(); work(4); b.disable(); a.disable()\n"
        "for p in a, b:\n"
        "    p.create_stats()\n"
        "    print([v[:2] for k, v in p.stats.items() if k[2] == 'leaf'])\n"
        "print([v[2] for k, v in a.stats.items() if k[2] == 'leaf'])\n"
        "print([k for k in a.stats if k[2] == 'clock'])\n"
    )
    # Each call of leaf is one tick of half a second.
    assert run_code(python, code, tmp_path) == "[(7, 7)]\n[(4, 4)]\n[3.5]\n[]\n"


def test_all_threads_are_in_one_profile(python: str, tmp_path: Path) -> None:
    code = WORK + (
        "import threading\n"
        "p = lapwing.Profile(); p.enable()\n"
        "ts = [threading.Thread(target=work, args=(100,)) for _ in range(20)]\n"
        "[t.start() for t in ts]; [t.join() for t in ts]\n"
        "p.disable(); p.create_stats()\n"
        "print([v[1] for k, v in p.stats.items() if k[2] == 'leaf'])\n"
    )
    assert run_code(python, code, tmp_path) == "[2000]\n"


def test_a_program_that_compiles_in_a_loop_does_not_grow(
    python: str, tmp_path: Path
) -> None:
    code = (
        "import lapwing, resource\n"
        "p = lapwing.Profile(builtins=False); p.enable()\n"
        "def churn(n):\n"
        "    for i in range(n): exec(compile('def f(): pass\\nf()', '<s>', 'exec'))\n"
        "churn(2000)\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "churn(40000)\n"
        "grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before\n"
        "p.disable(); p.create_stats()\n"
        "print([v[1] for k, v in p.stats.items() if k[2] == 'f'], grown < 2000)\n"
    )
    assert run_code(python, code, tmp_path) == "[42000] True\n"


def test_record_makes_a_run(
    lapwing: str, python: str, on_path: dict[str, str], tmp_path: Path
) -> None:
    code = WORK + (
        "with lapwing.record('first') as r:\n"
        "    assert lapwing.is_recording()\n"
        "    work(100)\n"
        "    with lapwing.record('inner') as inner: work(1)\n"
        "assert not lapwing.is_recording() and inner.run is None\n"
        "print(r.run)\n"
        "work(1000)\n"
        "@lapwing.record('second', output='second.lap', c_calls=True)\n"
        "def job(n): work(n); return n\n"
        "@lapwing.record\n"
        "def third(): work(1)\n"
        "assert job(10) == 10\n"
        "third()\n"
    )
    run = run_code(python, code, tmp_path, **on_path).strip()
    assert leaf_counts(lapwing, tmp_path / run) == [101]
    assert leaf_counts(lapwing, tmp_path / "second.lap") == [10]
    runs = json.loads(
        subprocess.check_output([lapwing, "runs", "--json"], cwd=tmp_path, text=True)
    )
    assert len(runs["rows"]) == 2  # first and third; second lies elsewhere


def test_record_without_the_program_says_so(python: str, tmp_path: Path) -> None:
    code = (
        "import lapwing, sysconfig\n"
        "sysconfig.get_path = lambda *_: '/nonexistent'\n"
        "try:\n"
        "    with lapwing.record('x'): pass\n"
        "except FileNotFoundError as error: print(error)\n"
    )
    said = run_code(python, code, tmp_path, PATH="/nonexistent")
    assert "put the program on PATH" in said


def test_a_recorded_child_process_is_in_the_run(
    lapwing: str, python: str, on_path: dict[str, str], tmp_path: Path
) -> None:
    code = WORK + (
        "import subprocess, sys\n"
        "child = 'def leaf(): pass\\nfor _ in range(50): leaf()'\n"
        "with lapwing.record('family', output='family.lap'):\n"
        "    subprocess.run([sys.executable, '-c', child], check=True)\n"
        "    subprocess.run([sys.executable, '-c', child], check=True, env={})\n"
        "subprocess.run([sys.executable, '-c', 'import os; print(os.environ)'])\n"
    )
    said = run_code(python, code, tmp_path, **on_path)
    assert "LAPWING_AGENT" not in said and "_inject" not in said
    assert leaf_counts(lapwing, tmp_path / "family.lap") == [100]


SCRIPT = """
import sys
def leaf(): pass
if __name__ == "__main__":
    for _ in range(int(sys.argv[1])): leaf()
    print(sys.argv[1:], __name__, sys.modules["__main__"].__dict__ is globals())
    sys.exit(int(sys.argv[2]))
"""


def test_python_dash_m_takes_what_cprofile_takes(python: str, tmp_path: Path) -> None:
    (tmp_path / "prog.py").write_text(SCRIPT)
    base = [python, "-m", "lapwing"]

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*base, *words],
            cwd=tmp_path,
            env=environment(),
            capture_output=True,
            text=True,
        )

    printed = run("-s", "cumulative", "prog.py", "7", "0")
    assert "['7', '0'] __main__ True" in printed.stdout
    assert "Ordered by: cumulative time" in printed.stdout
    assert "prog.py:3(leaf)" in printed.stdout
    saved = run("-o", "x.prof", "-m", "prog", "9", "3")
    assert saved.returncode == 3  # the program's own code, which cProfile loses
    check = (
        "import pstats; s = pstats.Stats('x.prof').stats;"
        "print([v[1] for k, v in s.items() if k[2] == 'leaf'])"
    )
    assert run_code(python, check, tmp_path) == "[9]\n"
    missing = run("nosuch.py")
    assert (missing.returncode, missing.stderr) == (
        2,
        "lapwing: nosuch.py: No such file or directory\n",
    )
    assert run().returncode == 2
    unwritable = run("-o", "/nonexistent/x.prof", "prog.py", "1", "0")
    assert unwritable.returncode == 1
    assert unwritable.stderr.startswith("lapwing: /nonexistent/x.prof: No such file")


CLEAR = """
import lapwing, resource
def leaf(): pass
def count(p):
    return [e.callcount for e in p.getstats() if e.code is leaf.__code__]
p = lapwing.Profile()
with p: leaf()
soft, hard = resource.getrlimit(resource.RLIMIT_AS)
for _ in range(2):
    resource.setrlimit(resource.RLIMIT_AS, (1 << 20, hard))
    try: p.clear()
    except MemoryError: failed = True
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    print(failed, count(p))
    p.enable()
leaf(); p.disable()
print(count(p))
p.create_stats(); p.clear(); print(count(p))
"""


def test_a_profile_that_could_not_be_cleared_is_as_it_was(
    python: str, tmp_path: Path
) -> None:
    shown = run_code(python, CLEAR, tmp_path)
    assert shown == "True [1]\nTrue [1]\n[2]\n[]\n"
