"""A watched program sees the same interpreter, torch and environment as without us."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from packages import environment
from pythons import interpreter
from recording import PROGRAMS, run_info

VERSIONS = ["3.10", "3.11", "3.12", "3.13"]
MODES = [[], ["--calls"]]


def watch(
    lapwing: str, options: list[str], command: list[str], folder: Path, **more: object
) -> subprocess.CompletedProcess[str]:
    words = [lapwing, "run", "-q", "--no-summary", "-o", str(folder / "x.lap")]
    return subprocess.run(  # type: ignore[call-overload,no-any-return]
        [*words, *options, "--", *command],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        **more,
    )


def alone(command: list[str], folder: Path, **more: object) -> tuple[str, str, int]:
    done = subprocess.run(  # type: ignore[call-overload]
        command, cwd=folder, capture_output=True, text=True, timeout=120, **more
    )
    return done.stdout, done.stderr, done.returncode


def same(
    lapwing: str, options: list[str], command: list[str], folder: Path, **more: object
) -> str:
    """What COMMAND prints, which is the same with us and without."""
    bare = alone(command, folder, **more)
    done = watch(lapwing, options, command, folder, **more)
    assert (done.stdout, done.stderr, done.returncode) == bare
    return done.stdout


@pytest.mark.parametrize("options", MODES, ids=["samples", "calls"])
@pytest.mark.parametrize("version", VERSIONS)
def test_nothing_in_the_interpreter_looks_changed(
    lapwing: str, tmp_path: Path, version: str, options: list[str]
) -> None:
    command = [interpreter(version), str(PROGRAMS / "patched.py")]
    shown = json.loads(same(lapwing, options, command, tmp_path))
    assert shown["environments"]["none"] == ""
    assert run_info(tmp_path)["state"] == "finished"


@pytest.mark.torch
@pytest.mark.parametrize("options", [[], ["--torch"]], ids=["steps", "windows"])
def test_nothing_in_torch_looks_changed(
    lapwing: str, torch_python: str, tmp_path: Path, options: list[str]
) -> None:
    same(
        lapwing,
        options,
        [torch_python, str(PROGRAMS / "patched_torch.py")],
        tmp_path,
    )


# ---- children ----------------------------------------------------------------------

WAYS = {
    "keyword": "os.execve(sys.executable, child, env=dict(os.environ, A='b'))",
    "positional": "os.execve(sys.executable, child, {**os.environ, 'A': 'b'})",
    "bytes": "os.execve(sys.executable, child, {**os.environb, b'A': b'b'})",
    "no environment": "os.execve(sys.executable, child, {})",
    "spawn": "os.waitpid(os.posix_spawn(sys.executable, child, dict(os.environ)), 0)",
    "list": "subprocess.run(child, env=dict(os.environ, A='b'))",
    "system": "os.system(' '.join(map(shlex.quote, child)))",
    "exec": "os.execv(sys.executable, child)",
    "own path": "os.environ['PYTHONPATH'] = '/nowhere'; subprocess.run(child)",
    "cleared": "os.environ.clear(); subprocess.run(child)",
}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("way", WAYS)
def test_children_are_recorded_however_they_are_started(
    lapwing: str, tmp_path: Path, version: str, way: str
) -> None:
    script = (
        "import os, shlex, subprocess, sys\n"
        "text = 'def leaf(): pass\\nfor i in range(7): leaf()'\n"
        "child = [sys.executable, '-c', text]\n"
        "if os.fork() == 0:\n"
        f"    {WAYS[way]}\n"
        "    os._exit(0)\n"
        "os.wait()\n"
    )
    command = [interpreter(version), "-c", script, way]
    assert watch(lapwing, ["--calls"], command, tmp_path).returncode == 0
    words = [
        lapwing,
        "report",
        str(tmp_path / "x.lap"),
        "functions",
        "--json",
        "-n",
        "0",
    ]
    rows = json.loads(subprocess.check_output(words))["rows"]
    assert [r["calls"] for r in rows if r["function"] == "leaf"] == [7]


# What a launcher does with the variable before it starts Python.
LAUNCHERS = {
    "in front": "PYTHONPATH=src:$PYTHONPATH",
    "behind": "PYTHONPATH=$PYTHONPATH:src",
    "both": "PYTHONPATH=$PYTHONPATH:src:$PYTHONPATH",
    "twice": "PYTHONPATH=src:$PYTHONPATH; export PYTHONPATH; "
    "PYTHONPATH=more:$PYTHONPATH",
    "absolute": 'PYTHONPATH="$PWD/src:$PYTHONPATH"',
    "guarded": 'PYTHONPATH="src:${PYTHONPATH}"',
}
SHOW = (
    "import json, os, sys\n"
    "own = os.environ.get('PYTHONPATH')\n"
    "print(json.dumps([own, sys.path, 'LAPWING_AGENT' in os.environ]))\n"
    "import subprocess\n"
    "text = 'import os, sys, job; print(sys.path, os.environ.get(\"PYTHONPATH\"))'\n"
    "child = [sys.executable, '-c', text]\n"
    "for env in None, dict(os.environ):\n"
    "    sys.stdout.flush(); subprocess.run(child, env=env)\n"
)


@pytest.mark.parametrize("version", ["3.9", *VERSIONS])
@pytest.mark.parametrize("own", [None, "", "/nowhere:/else", "src"])
def test_launchers_may_do_with_the_python_path_what_they_like(
    lapwing: str, tmp_path: Path, version: str, own: str | None
) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "job.py").write_text("")
    (tmp_path / "more").mkdir()
    script = "".join(
        f'({line}; export PYTHONPATH; $PYTHON -c "$SHOW")\n'
        for line in LAUNCHERS.values()
    )
    env = {**environment(PYTHON=interpreter(version), SHOW=SHOW)}
    env.pop("PYTHONPATH")
    if own is not None:
        env["PYTHONPATH"] = own
    shown = same(lapwing, [], ["/bin/sh", "-c", script], tmp_path, env=env)
    assert shown.count("\n") == 3 * len(LAUNCHERS)
    assert "_inject" not in shown


def test_the_programs_own_python_path_is_as_a_shell_makes_it(
    lapwing: str, tmp_path: Path
) -> None:
    """A program that hands its own variable on by os.system."""
    python = interpreter("3.11")
    script = (
        "import os, sys\n"
        "for line in 'PYTHONPATH=x:$PYTHONPATH', 'PYTHONPATH=', 'unset PYTHONPATH;':\n"
        "    sys.stdout.flush()\n"
        f"    os.system(line + ' {python} show.py')\n"
    )
    for own in (None, "", "/a"):
        env = environment()
        env.pop("PYTHONPATH")
        if own is not None:
            env["PYTHONPATH"] = own
        folder = tmp_path / f"own-{own}".replace("/", "_")
        folder.mkdir()
        show = "import os, sys; print(sys.path, os.environ.get('PYTHONPATH'))"
        (folder / "show.py").write_text(show)
        same(lapwing, [], [python, "-c", script], folder, env=env)


# ---- the end of a recording --------------------------------------------------------

ENDS = """
import ctypes, os, subprocess, sys
import _posixsubprocess, _imp
import lapwing

def calls(function):
    definition = ctypes.c_void_p.from_address(id(function) + 16).value
    return ctypes.c_void_p.from_address(definition + 8).value

starters = os.system, os.execv, os.execve, os.posix_spawn, os.posix_spawnp
starters += (_posixsubprocess.fork_exec,)
child = ["/usr/bin/env"]
before = [calls(f) for f in starters], subprocess.check_output(child)
with lapwing.record("one", output="one.lap"):
    during = [calls(f) for f in starters]
after = [calls(f) for f in starters], subprocess.check_output(child)
print(all(a != b for a, b in zip(before[0], during)), before == after)
"""


@pytest.mark.parametrize("version", VERSIONS)
def test_when_a_recording_ends_everything_is_as_it_was(
    lapwing: str, tmp_path: Path, version: str
) -> None:
    path = f"{Path(lapwing).parent}:/usr/bin:/bin"
    command = [interpreter(version), "-c", ENDS]
    stdout, stderr, code = alone(command, tmp_path, env=environment(PATH=path))
    assert (stdout, stderr, code) == ("True True\n", "", 0)


# ---- subinterpreters ---------------------------------------------------------------

# _testcapi's makes a legacy one, which shares the GIL; the others have their own.
SUBS = """
import sys
code = "import os, sys; print(sorted(sys.modules), sorted(os.environ), sys.path)"
if sys.version_info >= (3, 13):
    import _interpreters as subs
    for kind in "legacy", "isolated":
        one = subs.create(kind)
        sys.stdout.flush()
        print(subs.exec(one, code))
else:
    import _xxsubinterpreters as subs
    for isolated in False, True:
        one = subs.create(isolated=isolated)
        sys.stdout.flush()
        print(subs.run_string(one, code))
import time
time.sleep(0.5)  # long enough to be sampled on a busy machine
"""


@pytest.mark.parametrize("options", MODES, ids=["samples", "calls"])
@pytest.mark.parametrize("version", VERSIONS)
def test_subinterpreters_are_left_alone(
    lapwing: str, tmp_path: Path, version: str, options: list[str]
) -> None:
    command = [interpreter(version), "-c", SUBS]
    same(lapwing, options, command, tmp_path)
    losses = run_info(tmp_path).get("losses") or []
    assert not [loss for loss in losses if loss["unit"] == "processes"]


def test_lapwing_in_a_subinterpreter_says_that_it_does_not_work_there(
    tmp_path: Path,
) -> None:
    script = (
        "import _xxsubinterpreters as subs\n"
        "subs.run_string(subs.create(), 'import lapwing')\n"
    )
    command = [interpreter("3.11"), "-c", script]
    _, stderr, _ = alone(command, tmp_path, env=environment())
    assert "lapwing works in a process's main interpreter only" in stderr


# ---- imports -----------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_a_tracer_of_the_program_sees_no_code_of_ours(
    lapwing: str, tmp_path: Path, version: str
) -> None:
    script = (
        "import cProfile, sys\n"
        "seen = set()\n"
        "def trace(frame, event, arg):\n"
        "    seen.add(frame.f_code.co_filename)\n"
        "    return trace\n"
        "sys.settrace(trace)\n"
        "import csv, wave, decimal\n"
        "sys.settrace(None)\n"
        "with cProfile.Profile() as profile:\n"
        "    import smtplib, xmlrpc.client\n"
        "rows = profile.getstats()\n"
        "print(sorted(seen), sum(row.callcount for row in rows))\n"
    )
    # Whether a .pyc is there decides what importlib calls.
    command = [interpreter(version), "-B", "-c", script]
    alone(command, tmp_path)
    same(lapwing, [], command, tmp_path)


@pytest.mark.torch
@pytest.mark.parametrize("where", ["main", "thread", "lazy"])
def test_torch_is_noticed_wherever_it_is_imported(
    lapwing: str, torch_python: str, tmp_path: Path, where: str
) -> None:
    lines = {
        "main": "import torch",
        "thread": "def go():\n    import torch\n"
        "thread = threading.Thread(target=go); thread.start(); thread.join()",
        "lazy": "spec = importlib.util.find_spec('torch')\n"
        "spec.loader = importlib.util.LazyLoader(spec.loader)\n"
        "lazy = importlib.util.module_from_spec(spec)\n"
        "sys.modules['torch'] = lazy\n"
        "spec.loader.exec_module(lazy)\n"
        "print('torch._C' in sys.modules)\n"
        "lazy.nn\n"
        "import later",
    }[where]
    (tmp_path / "later.py").write_text("")
    (tmp_path / "job.py").write_text(
        f"import importlib.util, sys, threading\n{lines}\nimport torch\n"
        "model = torch.nn.Linear(2, 1)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "for _ in range(5):\n"
        "    optimizer.zero_grad()\n"
        "    model(torch.ones(1, 2)).sum().backward()\n"
        "    optimizer.step()\n"
        "print(len(sys.meta_path))\n"
    )
    if where == "lazy" and alone([torch_python, "job.py"], tmp_path)[2]:
        return  # torch 2.6 cannot be imported so on 3.13, with us or without
    same(lapwing, [], [torch_python, "job.py"], tmp_path)
    words = [lapwing, "report", str(tmp_path / "x.lap"), "steps", "--json"]
    table = json.loads(subprocess.check_output(words))
    assert "5 steps" in table["title"] or table["rows"]


# ---- the reason --------------------------------------------------------------------


def test_the_true_reason_is_said_when_the_agent_does_not_load(
    lapwing: str, tmp_path: Path
) -> None:
    package = tmp_path / "home" / "_inject"
    package.mkdir(parents=True)
    source = Path(environment()["PYTHONPATH"]) / "lapwing" / "_inject"
    for file in source.glob("*.py"):
        (package / file.name).write_bytes(file.read_bytes())
    (package / "_lapwing.abi3.so").write_bytes(b"no library")
    done = subprocess.run(
        [
            lapwing,
            "run",
            "--calls",
            "-o",
            "x.lap",
            "--",
            sys.executable,
            "-c",
            "print(1)",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**environment(), "LAPWING_HOME": str(tmp_path / "home")},
    )
    assert (done.returncode, done.stdout) == (0, "1\n")
    assert "could not be entered: " in done.stderr
    assert "file too short" in done.stderr or "invalid ELF header" in done.stderr
    assert "started no Python" not in done.stderr


def test_the_true_reason_is_said_when_memory_is_lacking(
    lapwing: str, tmp_path: Path
) -> None:
    def run_with(kilobytes: int) -> subprocess.CompletedProcess[str]:
        script = f"ulimit -v {kilobytes}; exec {interpreter('3.11')} -c 'print(1)'"
        words = [lapwing, "run", "--calls", "-o", f"{kilobytes}.lap", "--", "/bin/sh"]
        return subprocess.run(
            [*words, "-c", script], cwd=tmp_path, capture_output=True, text=True
        )

    # The largest limit, to 128 kB, with which there is too little to record into: how
    # much that is, is Python's and ours.
    too_little, enough = 10_000, 150_000
    done = run_with(too_little)
    assert " calls of " not in done.stderr
    while enough - too_little > 128:
        middle = (too_little + enough) // 2
        ran = run_with(middle)
        if " calls of " in ran.stderr:
            enough = middle
        else:
            too_little, done = middle, ran
    assert (done.returncode, done.stdout) == (0, "1\n")
    reasons = ["Cannot allocate memory", "there is no memory or address space left"]
    assert any(reason in done.stderr for reason in reasons)
    assert "started no Python" not in done.stderr


# How a launcher loses us, and the words by which the report says so.
LOST = {
    "PYTHONPATH=/nowhere {child}": "PYTHONPATH of its own",
    "env -i {child}": "an environment of its own",
    "PYTHONPATH=own:$PYTHONPATH {child}": "a sitecustomize.py of its own",
    "{child_isolated}": "started with -I",
}


@pytest.mark.parametrize("options", MODES, ids=["samples", "calls"])
@pytest.mark.parametrize("line", LOST)
def test_a_launcher_that_loses_us_is_named(
    lapwing: str, tmp_path: Path, line: str, options: list[str]
) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "sitecustomize.py").write_text("")
    # Long enough to be found, however busy the machine is.
    wait = "-c 'import time; time.sleep(5)'"
    python = interpreter("3.11")
    script = line.format(child=f"{python} {wait}", child_isolated=f"{python} -I {wait}")
    command = ["/bin/sh", "-c", f"{script}; true"]
    words = [lapwing, "run", *options, "-o", "x.lap", "--", *command]
    done = subprocess.run(
        words, cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0
    assert LOST[line] in done.stderr
    assert "started no Python" not in done.stderr


def test_a_library_that_starts_isolated_pythons_is_no_loss_to_the_rest(
    lapwing: str, python: str, tmp_path: Path
) -> None:
    script = (
        "import subprocess, sys\n"
        "def leaf(): pass\n"
        "for i in range(3): leaf()\n"
        "subprocess.run([sys.executable, '-I', '-c', 'import time; time.sleep(3)'])\n"
    )
    words = [lapwing, "run", "--calls", "-o", "x.lap", "--", python, "-c", script]
    done = subprocess.run(
        words, cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0
    assert "1 process" in done.stderr and "started with -I" in done.stderr


# Each asks its parent for one thing; which methods are asked, and how often, is said.
MAPPINGS = """
import os, sys

class Logged(dict):
    def items(self): raise KeyboardInterrupt("nobody asks for items")
    def keys(self):
        said.append("keys")
        return [k for k in dict.keys(self) if k != "SECRET"]
    def values(self):
        said.append("values")
        return [str(self[k]) for k in self.keys()]
    def __len__(self):
        said.append("len")
        return len(self.keys())

class Raises(dict):
    def keys(self): raise TimeoutError("no keys today")

said = []
env = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME")}
show = "import os; print(sorted(set(os.environ) - {'LC_CTYPE'}))"
mine = [sys.executable, "-c", show]
for start in (os.posix_spawn, os.posix_spawnp):
    os.waitpid(start(mine[0], mine, Logged(env, N=4, SECRET="s")), 0)
print(said, flush=True)
for environment in (Raises(env), 5, {1: "a"}, {"A": 1}, {"A=B": "1", "PATH": "x"}):
    try:
        os.waitpid(os.posix_spawn(mine[0], mine, environment), 0)
    except Exception as error:
        print(type(error).__name__, error, flush=True)
os.execve(mine[0], mine, Logged(env, N=4, SECRET="s"))
"""


@pytest.mark.parametrize("version", VERSIONS)
def test_an_environment_of_any_kind_is_asked_as_without_us(
    lapwing: str, tmp_path: Path, version: str
) -> None:
    """Its methods are the program's own code, and what they leave out stays out."""
    command = [interpreter(version), "-c", MAPPINGS]
    shown = same(lapwing, ["--no-sample"], command, tmp_path)
    assert "SECRET" not in shown and "no keys today" in shown
