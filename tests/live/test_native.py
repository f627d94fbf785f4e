"""C and C++ frames between Python's, and threads that stand still to be read.

The stacks are those that there are: Python calls C calls Python. On a busy machine a
thread may not stop in time; then its Python frames stand alone, which is counted, and
no more of them may be alone than were counted.
"""

from __future__ import annotations

import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
import sampling
from pythons import ROOT, interpreter
from sampling import PROGRAMS, VERSIONS
from test_sampler_truth import is_possible, legal_edges

PROGRAM = str(PROGRAMS / "native.py")
SAMPLES = 400
SECONDS = 120


def stacks(sampled: sampling.Sampled) -> dict[tuple[int, str], int]:
    """How often each thread was in each stack, frames parted by ';'."""
    found: dict[tuple[int, str], int] = {}
    for count, _weight_ns, tid, _state, frames in sampled.rows:
        key = (tid, ";".join(":".join(frame) for frame in frames))
        found[key] = found.get(key, 0) + count
    return found


def sample(
    python: str, kind: str, rate: float = 500, settle: float = 0
) -> sampling.Sampled:
    """SETTLE: seconds until the program is where it stays."""
    with sampling.running([python, PROGRAM, kind]) as program:
        time.sleep(settle)
        process = sampling.start(program.pid, rate, SECONDS, SAMPLES, "--native")
        return sampling.finish(process)


def python_frame(name: str) -> str:
    return rf"native\.py:\d+:{name}"


def native(library: str, name: str = "[^;]*") -> str:
    return rf"<(?:{library})[^;:]*:{name}>"


def check(sampled: sampling.Sampled, merged: str, alone: str) -> int:
    """Every stack is like MERGED, or as few as were counted are like ALONE (patterns).

    Gives back how many were merged.
    """
    found = {True: 0, False: 0}
    for (_tid, stack), count in stacks(sampled).items():
        is_merged = bool(re.fullmatch(merged, stack))
        is_moving = stack.endswith(";(moving)")
        assert is_merged or is_moving or re.fullmatch(alone, stack), stack
        found[is_merged] += count
    counts = sampled.counts
    assert found[False] <= counts["uncaught"] + counts["mismatched"]
    assert counts["mismatched"] <= 0.01 * counts["stacks"]
    assert counts["cut"] <= 0.01 * counts["stacks"]
    assert found[True] > 20
    return found[True]


START = f"{python_frame('<module>')};{python_frame('main')}"
# What the interpreter itself does is on top of any function.
INSIDE = r"(;<[^;]*>)*"


@pytest.mark.parametrize("version", VERSIONS)
def test_python_calls_c_calls_python(version: str) -> None:
    there = rf"({native('_ctypes')};)*({native('libffi')};)*"
    here = rf"({native('libffi')};)*({native('_ctypes')};)*"
    begun = f"{START};{python_frame('sort')}"
    called = rf"{there}{native('libc', 'qsort(_r)?')};({native('libc')};)*{here}"
    back = rf"{python_frame('less')}(;{python_frame('burn')})?"
    # Between the calls of less() it is somewhere in C.
    outside = rf"{begun}(;<[^;]*>)*"
    inside = rf"{begun};{called}{back}{INSIDE}"
    sampled = sample(interpreter(version), "sort")
    check(sampled, f"({inside}|{outside})", rf"{begun}(;{back})?")
    assert any(re.fullmatch(inside, stack) for _tid, stack in stacks(sampled))


@pytest.mark.parametrize("version", VERSIONS)
def test_time_in_a_library_is_the_librarys(version: str) -> None:
    caller = f"{START};{python_frame('compress')};{python_frame('squeeze')}"
    library = (
        rf"(;{native('(zlib|(lib)?python)')})*;{native('libz', 'deflate')}(;<[^;]*>)*"
    )
    sampled = sample(interpreter(version), "compress")
    # Around deflate() it is somewhere in zlib's module, or on its way there.
    around = (
        rf"{START};{python_frame('compress')}(;{python_frame('squeeze')})?(;<[^;]*>)*"
    )
    merged = check(sampled, f"({caller}{library}|{around})", caller)
    deflated = sum(
        count
        for (_tid, stack), count in stacks(sampled).items()
        if re.fullmatch(caller + library, stack)
    )
    alone = sum(
        count
        for (_tid, stack), count in stacks(sampled).items()
        if "<" not in stack.replace("<module>", "")
    )
    assert deflated > 0.8 * (merged - alone)


@pytest.mark.parametrize("version", VERSIONS)
def test_threads_that_sleep_are_seen_and_not_woken(version: str) -> None:
    waits = rf";({native('(lib)?python')};)*{native('libc')}(;{native('libc')})*"
    main = rf"{START};{python_frame('sleep')};{python_frame('doze')}{waits}"
    other = (
        r"threading\.py:\d+:_bootstrap;threading\.py:\d+:_bootstrap_inner;"
        rf"threading\.py:\d+:run;{python_frame('doze')}{waits}"
    )
    sampled = sample(interpreter(version), "sleep", settle=1)
    check(sampled, f"({main}|{other})", f"{main}|{other}")
    named = {"select", "clock_nanosleep", "nanosleep", "pselect"}
    for _tid, stack in stacks(sampled):
        assert named & set(re.findall(r":(\w+)>", stack)), stack
    # Once each, if at all: to learn their registers.
    assert sampled.counts["stops"] + sampled.counts["stop_misses"] <= 2


@pytest.mark.parametrize(
    "options", [["--native"], ["--pause"], ["--native", "--pause"]]
)
def test_signals_arrive_as_if_nobody_looked(options: list[str]) -> None:
    words = [interpreter("3.11"), PROGRAM, "alarm"]
    with sampling.running(words) as program:
        process = sampling.start(program.pid, 2000, SECONDS, 10**9, *options)
        assert program.stdout
        got = int(program.stdout.readline())
        assert program.wait(timeout=SECONDS) == 0
        sampled = sampling.finish(process)
    assert sampled.counts["stops"] > 20
    assert got > 100


def state(pid: int) -> str:
    text = Path(f"/proc/{pid}/stat").read_text()
    return text.rpartition(")")[2].split()[0]


@pytest.mark.parametrize("options", [["--native"], ["--pause"]])
def test_nobody_is_left_standing_when_the_sampler_is_killed(options: list[str]) -> None:
    with sampling.running([interpreter("3.11"), PROGRAM, "sort"]) as program:
        for _ in range(10):
            process = sampling.start(program.pid, 5000, SECONDS, 10**9, *options)
            time.sleep(0.1)
            process.kill()
            process.communicate()
            assert state(program.pid) in "RS"
            tracer = re.search(
                r"TracerPid:\s+(\d+)", Path(f"/proc/{program.pid}/status").read_text()
            )
            assert tracer and tracer[1] == "0"


def test_a_stopped_process_is_sampled_and_stays_stopped() -> None:
    with sampling.running([interpreter("3.11"), PROGRAM, "sort"]) as program:
        program.send_signal(signal.SIGSTOP)
        process = sampling.start(program.pid, 500, SECONDS, 50, "--native", "--pause")
        sampled = sampling.finish(process)
        assert state(program.pid) == "T"
        assert sampled.counts["stacks"] >= 50
        program.send_signal(signal.SIGCONT)


def test_what_a_debugger_holds_is_read_running_and_said() -> None:
    attach = (
        "import ctypes, sys, time\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "libc.ptrace.argtypes = [ctypes.c_long] * 4\n"
        "assert libc.ptrace(0x4206, int(sys.argv[1]), 0, 0) == 0\n"
        "print('ready', flush=True)\n"
        "time.sleep(1000)\n"
    )
    python = interpreter("3.11")
    with (
        sampling.running([python, PROGRAM, "sort"]) as program,
        sampling.running([python, "-c", attach, str(program.pid)]),
    ):
        process = sampling.start(program.pid, 500, SECONDS, 50, "--pause")
        sampled = sampling.finish(process)
    assert sampled.counts["stops"] == 0
    assert sampled.counts["stop_refusals"] >= 50
    assert sampled.counts["stacks"] >= 50


def turn(pid: int) -> int:
    """How often `native.py exec` has become itself."""
    words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return int(words[3]) if len(words) > 4 else 0


@pytest.mark.parametrize("options", [["--native"], ["--pause"]])
def test_exec_and_the_sampler_never_wait_for_each_other(options: list[str]) -> None:
    """A thread that calls exec waits for the others to end, and for their tracer."""
    with sampling.running([interpreter("3.11"), PROGRAM, "exec"]) as program:
        for _ in range(30):
            words = [str(sampling.driver()), *options, str(program.pid), "5000", "1"]
            subprocess.run(words, capture_output=True, timeout=SECONDS, check=False)
        before = turn(program.pid)
        end = time.monotonic() + SECONDS
        while turn(program.pid) < before + 3:
            assert time.monotonic() < end, "it stands"
            time.sleep(0.05)
    assert before > 3


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", ["calls", "generators"])
def test_who_stands_still_has_a_whole_stack(kind: str, version: str) -> None:
    legal = legal_edges(kind)
    words = [interpreter(version), str(PROGRAMS / "tearing.py"), kind]
    samples = 1_000_000 if sampling.IS_LONG else 2000
    with sampling.running(words) as program:
        process = sampling.start(program.pid, 4000, 3600, samples, "--pause")
        sampled = sampling.finish(process, timeout=3600)
    counts = sampled.counts
    bad = [frames for *_rest, frames in sampled.rows if not is_possible(frames, legal)]
    assert not bad
    # Those that moved are of those that did not stop.
    assert counts["moving"] <= counts["stop_misses"]


def has_torch(python: Path) -> bool:
    words = [str(python), "-c", "import torch"]
    return python.exists() and subprocess.run(words, check=False).returncode == 0


def test_torch_and_its_threads_show_what_they_do() -> None:
    python = ROOT / ".venv" / "bin" / "python"
    if not has_torch(python):
        pytest.skip("no torch in .venv: make setup-torch")
    sampled = sample(str(python), "torch", 200)
    found = stacks(sampled)
    main = max(found, key=lambda key: ("native.py" in key[1], found[key]))[0]
    engine = [s for tid, s in found if tid == main and "torch::autograd::Engine" in s]
    assert engine, found
    # Out of Python into C++, and all of it under the line that asked.
    assert all(
        re.search(r":descend;.*:_engine_run_backward;<.*libtorch", s) for s in engine
    )
    others = [s for tid, s in found if tid != main]
    assert any("libgomp" in s or "libtorch_cpu" in s for s in others), others
    assert sampled.counts["mismatched"] <= 0.01 * sampled.counts["stacks"]


SUBINTERPRETER = """
try:
    import _interpreters as interpreters
    run = interpreters.exec
except ImportError:
    import _xxsubinterpreters as interpreters
    run = interpreters.run_string
run(interpreters.create(), '''
import time
t = time.time()
while time.time() - t < 0.7: pass
''')
"""


@pytest.mark.parametrize("version", ["3.11", "3.13"])
def test_a_thread_in_a_subinterpreter_is_sampled(
    lapwing: str, tmp_path: Path, version: str
) -> None:
    """It is one of the kernel's, and two of Python's."""
    for number in range(3):
        words = ["run", "--native", "-o", f"{number}.lap", "--no-summary", "--"]
        done = subprocess.run(
            [lapwing, *words, interpreter(version), "-c", SUBINTERPRETER],
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
