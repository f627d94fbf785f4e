"""What programs tell of themselves: lapwing.step() and its like, and lapwing.h.

The programs are tests/programs/marked.py and marked.c; they run the same alone.
"""

from __future__ import annotations

import copy
import inspect
import json
import pickle
import re
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import lapwing as installed
import pytest
from packages import PROGRAMS, environment

OPTIONS = ["--no-summary", "--no-system", "--ops=off"]  # then the ring is a small one
SLACK_NS = 100_000  # between the recording's clock and the program's


class Span(NamedTuple):
    kind: str  # "phase" or "mark"
    name: str
    pid: int
    thread: str
    start_ns: int
    duration_ns: int

    @property
    def end_ns(self) -> int:
        return self.start_ns + self.duration_ns


class Recorded(NamedTuple):
    said: Any  # by the program
    spans: list[Span]
    counters: dict[str, list[float]]
    losses: Counter[str]

    def named(self, name: str, kind: str = "phase") -> list[Span]:
        found = [s for s in self.spans if (s.kind, s.name) == (kind, name)]
        return sorted(found, key=lambda span: span.start_ns)


def read(lapwing: str, run: Path, said: Any) -> Recorded:
    output = run.with_suffix(".json")
    subprocess.run(
        [lapwing, "export", run, "-t", "json", "-o", output],
        check=True,
        capture_output=True,
    )
    profile = json.loads(output.read_text())
    processes, threads = profile["processes"], profile["threads"]
    spans = []
    for row in profile["spans"]:
        kind = next(kind for kind in ("phase", "mark", "op", "function") if kind in row)
        thread = threads[row["thread"]]
        pid = processes[thread["process"]]["pid"]
        times = row["start_ns"], row["duration_ns"]
        spans.append(Span(kind, row[kind] or "", pid, thread["name"] or "", *times))
    counters: dict[str, list[float]] = {}
    for point in profile["counters"]:
        counters.setdefault(point["name"], []).append(point["value"])
    losses: Counter[str] = Counter()
    for loss in profile["losses"]:
        losses[loss["cause"]] += loss["count"]
    return Recorded(said, spans, counters, losses)


def record(
    lapwing: str, folder: Path, python: str, *words: str, says: str | None = None
) -> Recorded:
    """WORDS under `lapwing run`: what they printed (JSON, or SAYS) and recorded."""
    run = folder / "x.lap"
    done = subprocess.run(
        [lapwing, "run", *OPTIONS, "-o", run, python, *words],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    if says is not None:
        assert done.stdout == says
        return read(lapwing, run, says)
    return read(lapwing, run, json.loads(done.stdout))


def marked(lapwing: str, folder: Path, python: str, what: str) -> Recorded:
    recorded = record(lapwing, folder, python, str(PROGRAMS / "marked.py"), what)
    (said,) = recorded.said
    return recorded._replace(said=said)


def test_the_program_says_the_same_alone(python: str) -> None:
    done = subprocess.run(
        [python, PROGRAMS / "marked.py", "plain,loops,shapes,threads,fork,suspended"],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    said = json.loads(done.stdout)
    assert said[2] == [3, "as it should", "so does this"]
    assert said[5][:6] == [0, 1, 0, "stopped", "thrown", 0]


def test_phases_nest_and_take_as_long_as_the_program_says(
    lapwing: str, python: str, tmp_path: Path
) -> None:
    found = marked(lapwing, tmp_path, python, "plain")
    loads, parses, steps = (found.named(name) for name in ("load", "parse", "step"))
    assert (len(loads), len(parses), len(steps)) == (3, 3, 3)
    for name in ("load", "parse", "step"):
        own = found.said[name]  # as seen from inside and from outside
        for span, (inside_ns, outside_ns) in zip(found.named(name), own, strict=True):
            assert inside_ns - SLACK_NS < span.duration_ns < outside_ns + SLACK_NS
    for load, parse, step in zip(loads, parses, steps, strict=True):
        assert step.start_ns <= load.start_ns <= parse.start_ns
        assert parse.end_ns <= load.end_ns <= step.end_ns
    # A step begins in the very moment in which the one before it ends.
    assert steps[0].end_ns == steps[1].start_ns and steps[1].end_ns == steps[2].start_ns
    marks = found.named("batch done", "mark")
    assert [mark.duration_ns for mark in marks] == [0, 0, 0]
    assert found.counters == {"loss": [1, 1 / 2, 1 / 3], "batch": [0, 1, 2]}
    assert not found.losses["ring full"]


def test_what_is_between_two_loops_is_no_step(
    lapwing: str, python: str, tmp_path: Path
) -> None:
    steps = marked(lapwing, tmp_path, python, "loops").named("step")
    assert len(steps) == 6
    gaps = [b.start_ns - a.end_ns for a, b in zip(steps, steps[1:], strict=False)]
    assert [gap > 0 for gap in gaps] == [False, False, True, False, False]
    assert gaps[2] > 30_000_000


def test_recursion_exceptions_and_odd_names(
    lapwing: str, python: str, tmp_path: Path
) -> None:
    found = marked(lapwing, tmp_path, python, "shapes")
    recursion = found.named("recurse")
    assert len(recursion) == 3
    for outer, inner in zip(recursion, recursion[1:], strict=False):
        assert outer.start_ns <= inner.start_ns and inner.end_ns <= outer.end_ns
        assert outer.duration_ns - inner.duration_ns > 2_000_000
    names = Counter(span.name for span in found.spans)
    assert names["fails"] == names["block fails"] == 1
    assert names["again"] == 3
    for name in ("", "größe\n\t", "nul\0byte", "lone \\ud800", "x" * 4096):
        assert names[name] == 1, name


def test_threads_have_steps_and_phases_of_their_own(
    lapwing: str, python: str, tmp_path: Path
) -> None:
    found = marked(lapwing, tmp_path, python, "threads")
    steps, shared = found.named("step"), found.named("shared")
    assert Counter(step.thread for step in steps) == {"T1": 1, "T3": 3}
    assert Counter(phase.thread for phase in shared) == {"T1": 2, "T3": 6}
    for phase in shared:  # nobody ended another thread's
        least = {"T1": 4_000_000, "T3": 12_000_000}[phase.thread]
        assert phase.duration_ns >= least


def test_a_forked_child_begins_its_own_steps_and_ends_what_it_was_in(
    lapwing: str, python: str, tmp_path: Path
) -> None:
    found = marked(lapwing, tmp_path, python, "fork")
    parent = max(found.named("around"), key=lambda span: span.duration_ns).pid
    (whole,) = [span for span in found.named("around") if span.pid == parent]
    (cut,) = [span for span in found.named("around") if span.pid != parent]
    assert cut.start_ns > whole.start_ns + 30_000_000  # when it was forked
    (own,) = [span for span in found.named("step") if span.pid != parent]
    assert own.start_ns > cut.start_ns
    (step,) = [span for span in found.named("step") if span.pid == parent]
    assert step.start_ns <= whole.start_ns and whole.end_ns <= step.end_ns


def test_generators_are_in_their_phase_while_they_run_and_tasks_until_they_end(
    lapwing: str, python: str, tmp_path: Path
) -> None:
    found = marked(lapwing, tmp_path, python, "suspended")
    values = found.named("values")
    assert len(values) == 3 + 2 + 2
    between = [b.start_ns - a.end_ns for a, b in zip(values, values[1:], strict=False)]
    assert between[0] >= 80_000_000 and between[1] >= 80_000_000  # the program's own
    assert len(found.named("avalues")) == 4
    first, second = found.named("task")
    assert first.duration_ns >= 16_000_000 and second.duration_ns >= 24_000_000
    assert first.end_ns < second.end_ns
    blocks = found.named("block")
    for block, pauses in zip(blocks, (6, 1, 3), strict=True):
        assert block.duration_ns >= pauses * 4_000_000


def test_what_there_is_no_room_for_is_counted(
    lapwing: str, python: str, tmp_path: Path
) -> None:
    found = marked(lapwing, tmp_path, python, "torrent")
    names = Counter(span.name for span in found.spans)
    assert sum(names.values()) + found.losses["ring full"] == 370_000
    assert names["drop"] > 1000
    # Each kept name is one span at most, the others are together.
    assert 0 < found.losses["name log full"] < 70_000
    del names["drop"], names["(more)"]
    assert set(names.values()) <= {1}


# ---- decorating, in this process -----------------------------------------------------


@installed.phase("decorated")
def decorated(a: int, /, b: int = 2, *, c: int = 3) -> int:
    """Adds."""
    return a + b + c


class Class:
    @installed.phase("method")
    def method(self, x: int) -> tuple[Class, int]:
        return self, x

    @classmethod
    @installed.phase("of class")
    def of_class(cls) -> type[Class]:
        return cls

    @staticmethod
    @installed.phase("static")
    def static(x: int) -> int:
        return x


def test_a_decorated_function_is_as_it_was() -> None:
    assert decorated(1) == 6 and decorated(1, 1, c=1) == 3
    assert decorated.__name__ == "decorated" and decorated.__doc__ == "Adds."
    assert str(inspect.signature(decorated)).startswith("(a: 'int', /, b: 'int' = 2, *")
    assert pickle.loads(pickle.dumps(decorated)) is decorated
    assert copy.deepcopy(decorated) is decorated
    with pytest.raises(TypeError, match="positional"):
        decorated()
    one = Class()
    assert one.method(3) == (one, 3) == Class.method(one, 3)
    assert one.of_class() is Class and Class.static(4) == one.static(4) == 4
    assert inspect.iscoroutinefunction(installed.phase("x")(coroutine))
    assert inspect.isgeneratorfunction(installed.phase("x")(generator))


async def coroutine() -> None: ...


def generator() -> Any:
    yield


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: installed.step(1), "no positional"),  # type: ignore
        (lambda: installed.step(end=True), "begin=True"),  # type: ignore[call-arg]
        (lambda: installed.mark(7), "str, not <class 'int'>"),  # type: ignore[arg-type]
        (lambda: installed.counter("x"), "two arguments"),  # type: ignore[call-arg]
        (lambda: installed.counter(b"x", 1), "str, not"),  # type: ignore[arg-type]
        (lambda: installed.counter("x", "y"), "real number"),  # type: ignore[arg-type]
        (lambda: installed.phase(7), "str, not"),  # type: ignore[call-overload]
        (lambda: installed.phase("x")(int), "functions, not <class 'int'>"),
        (lambda: installed.phase("x")(7), "functions"),  # type: ignore[type-var]
    ],
)
def test_a_wrong_argument_is_an_error_recording_or_not(
    call: Callable[[], object], sentence: str
) -> None:
    with pytest.raises(TypeError, match=sentence):
        call()


# ---- from C --------------------------------------------------------------------------

FROM_C = """
import ctypes, json, sys, threading
library = ctypes.CDLL(sys.argv[1])
{code}
"""
INCLUDE = ["-I", installed.get_include(), "-pthread", "-Wall", "-Wextra", "-Werror"]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("marked") / "marked.so"
    source = PROGRAMS / "marked.c"
    command = ["cc", "-std=c11", "-D_POSIX_C_SOURCE=200809L", "-shared", "-fPIC"]
    subprocess.run([*command, *INCLUDE, "-o", path, source, "-ldl"], check=True)
    return str(path)


def test_threads_of_c_are_heard_without_pythons_lock(
    lapwing: str, python: str, tmp_path: Path, library: str
) -> None:
    code = (
        "threads = library.work(3, 4)\n"
        "library.nest(64)\n"
        "library.nest(70)\n"
        "print(json.dumps(threads))"
    )
    words = ["-c", FROM_C.format(code=code), library]
    found = record(lapwing, tmp_path, python, *words)
    assert found.said == 3
    names = Counter((span.kind, span.name) for span in found.spans)
    assert names == {
        ("phase", "outer"): 12,
        ("phase", "inner"): 12,
        ("phase", "forgotten"): 12,
        ("phase", "step"): 15,  # and one a thread that step_end() cut short
        ("mark", "round 0"): 6,
        ("mark", "round 1"): 6,
        ("phase", "deep"): 128,
    }
    assert found.losses["ring full"] == 6
    assert sorted(found.counters["rounds"]) == sorted([0, 1, 2, 3] * 3)
    assert min(span.duration_ns for span in found.named("inner")) >= 2_000_000
    assert len([s for s in found.named("step") if s.duration_ns >= 2_000_000]) == 12


def test_the_same_library_runs_where_nobody_records(python: str, library: str) -> None:
    code = "library.nest(100); print(library.work(2, 1))"
    words = [python, "-c", FROM_C.format(code=code), library]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "2\n", "")


def test_a_program_without_python_runs_alone_and_under_lapwing(
    lapwing: str, tmp_path: Path
) -> None:
    program = tmp_path / "marked"
    source = PROGRAMS / "marked.c"
    flags = ["-DALONE", "-std=gnu11", *INCLUDE]
    subprocess.run(["cc", *flags, "-o", program, source, "-ldl"], check=True)
    alone = subprocess.run([program], capture_output=True, text=True, timeout=60)
    words = [lapwing, "run", "--no-summary", "-o", str(tmp_path / "x.lap")]
    words.append(str(program))
    under = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert alone.stdout == under.stdout == "3 threads, recording: 0\n"


def test_c_plus_plus_has_a_phase_that_ends_with_its_block(
    lapwing: str, python: str, tmp_path: Path
) -> None:
    source = tmp_path / "marked.cc"
    source.write_text(
        "#include <lapwing.h>\n"
        "#include <stdexcept>\n"
        'extern "C" int block(void)\n'
        "{\n"
        "    try {\n"
        '        lapwing::phase outer("outer");\n'
        '        lapwing::phase inner("inner");\n'
        '        throw std::runtime_error("out of both");\n'
        "    } catch (const std::exception &) {\n"
        "        return lapwing_is_recording();\n"
        "    }\n"
        "}\n"
    )
    path = tmp_path / "marked_cc.so"
    flags = ["-std=c++11", "-shared", "-fPIC", *INCLUDE]
    subprocess.run(["c++", *flags, "-o", path, source, "-ldl"], check=True)
    words = ["-c", FROM_C.format(code="print(library.block())"), str(path)]
    found = record(lapwing, tmp_path, python, *words)
    assert found.said == 1
    assert [span.name for span in found.named("outer") + found.named("inner")] == [
        "outer",
        "inner",
    ]


def test_a_recording_may_end_and_begin_while_threads_of_c_write(
    lapwing: str, python: str, tmp_path: Path, library: str
) -> None:
    """Each recording holds whole spans, and the program runs on without a crash."""
    code = (
        "import lapwing, time\n"
        "count = library.hurry_begin(3)\n"
        "for i in range(6):\n"
        "    with lapwing.record('r', output=f'{i}.lap'):\n"
        "        end = library.hurry_rounds(count) + 1000\n"
        "        while library.hurry_rounds(count) < end: time.sleep(0.001)\n"
        "library.hurry_end(count)\n"
        "print(count)"
    )
    done = subprocess.run(
        [python, "-c", FROM_C.format(code=code), library],
        cwd=tmp_path,
        env=environment(PATH=f"{Path(lapwing).parent}:/usr/bin:/bin"),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "3\n", "")
    for i in range(6):
        found = read(lapwing, tmp_path / f"{i}.lap", None)
        names = {(span.kind, span.name) for span in found.spans}
        assert {("phase", "hurry"), ("mark", "hurry")} <= names
        assert names <= {("phase", "hurry"), ("mark", "hurry"), ("function", 0)}


# ---- what the documentation shows ----------------------------------------------------


def examples(language: str) -> list[str]:
    text = (PROGRAMS.parents[1] / "docs" / "api.md").read_text()
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.S | re.M)


def test_the_examples_in_python_do_what_is_said(
    lapwing: str, python: str, tmp_path: Path
) -> None:
    program = tmp_path / "examples.py"
    program.write_text("\n".join(examples("python")))
    found = record(lapwing, tmp_path, python, str(program), says="None\n")
    names = Counter(span.name for span in found.spans)
    assert names == {
        "step": 3,
        "augment": 1,
        "tokenize": 1,
        "validation": 1,
        "epoch 0": 1,
        "epoch 1": 1,
        "epoch 2": 1,
        "warm-up": 1,
    }
    assert found.counters["loss"] == [1, 1 / 2, 1 / 3, 1 / 4]


def test_the_example_in_c_does_what_is_said(
    lapwing: str, python: str, tmp_path: Path
) -> None:
    (source,) = examples("c")
    (tmp_path / "decoder.c").write_text(source)
    flags = ["-shared", "-fPIC", *INCLUDE]
    library = tmp_path / "decoder.so"
    subprocess.run(
        ["cc", *flags, "-o", library, tmp_path / "decoder.c", "-ldl"], check=True
    )
    words = ["-c", FROM_C.format(code="print(library.decode(3))"), str(library)]
    found = record(lapwing, tmp_path, python, *words)
    assert found.said == 300
    assert len(found.named("decode")) == 3 and len(found.named("decoded", "mark")) == 1
    assert found.counters == {"decoded [bytes]": [0, 100, 300]}


# ---- torch.compile -------------------------------------------------------------------

COMPILED = """
import sys
import lapwing
assert "torch" not in sys.modules
import torch

@lapwing.phase("function")
def double(x):
    return x * 2

class Net(torch.nn.Module):
    @lapwing.phase("forward of mine")
    def forward(self, x):
        lapwing.step()
        with lapwing.phase("inside"):
            y = double(x)
        lapwing.mark("done")
        lapwing.counter("loss", 0.5)
        return y + 1 if lapwing.is_recording() else y - 1

net = torch.compile(Net(), backend="eager", fullgraph=True)
with lapwing.phase("around"):
    print([float(net(torch.ones(())))])
"""


def test_compiled_functions_have_one_graph_whatever_they_announce(
    lapwing: str, torch_python: str, tmp_path: Path
) -> None:
    found = record(lapwing, tmp_path, torch_python, "-c", COMPILED)
    assert found.said == [1.0]  # and in the graph nobody is recording
    names = {span.name for span in found.spans}
    assert "around" in names and "inside" not in names
