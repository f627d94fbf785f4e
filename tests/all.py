#!/usr/bin/env python3
"""Runs the suites of `make test`, whatever each finds, and ends with the line
`N passed, N failed, N skipped`.

The live tests mostly wait, for processes, clocks and browsers, so most others run
beside them, one after the other; what those print comes at the end.

A suite that finds no test at all has failed: it means something was not built.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import results

ROOT = results.ROOT
# cmocka marks a skipped test "not ok ... # SKIP name".
said_beside: list[str] = []
TAP = re.compile(r"(?P<ok>ok|not ok) \d+ (?P<skip># SKIP )?(?:- )?(?P<name>.*)")


def run(words: list[str], **env: str) -> int:
    is_beside = threading.current_thread() is not threading.main_thread()
    pipe = subprocess.PIPE if is_beside else None
    done = subprocess.run(
        words,
        cwd=ROOT,
        env=os.environ | env,
        stdout=pipe,
        stderr=subprocess.STDOUT if is_beside else None,
        text=True,
    )
    if is_beside:
        said_beside.append(done.stdout)
    return done.returncode


def unit_results(row: dict[str, str]) -> list[results.Result]:
    """The tests of one program of cmocka tests; one more if it ended badly."""
    name = row["name"].removeprefix("lapwing:")
    found: list[results.Result] = []
    for line in row.get("stdout", "").splitlines():
        if match := TAP.match(line):
            outcome = "passed" if match["ok"] == "ok" else "failed"
            outcome = "skipped" if match["skip"] else outcome
            found.append(results.Result(f"{name}/{match['name']}", outcome))
        elif line.startswith("# ") and found and found[-1].outcome == "failed":
            found[-1].message += line.removeprefix("# ") + "\n"
    bad = row["result"] not in ("OK", "SKIP")
    if bad and all(r.outcome != "failed" for r in found):
        message = row.get("stderr") or f"ended with {row['result']}"
        found.append(results.Result(f"{name}/ends well", "failed", message))
    return [results.judge(r) for r in found]


def unit() -> int:
    code = run(
        ["meson", "test", "-C", "build/asan", "--no-rebuild", "--print-errorlogs"]
    )
    log = ROOT / "build" / "asan" / "meson-logs" / "testlog.json"
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    results.write("unit", [r for row in rows for r in unit_results(row)])
    return code


def tsan() -> int:
    """The one test in which agent and recorder are threads of a process."""
    program = ROOT / "build" / "tsan" / "tests" / "unit" / "shared_memory"
    done = subprocess.run(
        [program],
        env=os.environ
        | {"CMOCKA_MESSAGE_OUTPUT": "TAP", "TSAN_OPTIONS": "exitcode=66"},
        capture_output=True,
        text=True,
    )
    row = {
        "name": "tsan/shared_memory",
        "result": "OK" if done.returncode == 0 else f"code {done.returncode}",
        "stdout": done.stdout,
        "stderr": done.stderr,
    }
    print(done.stderr, end="", flush=True)
    results.write("tsan", unit_results(row))
    return done.returncode


def golden() -> int:
    return run([sys.executable, "tests/run.py", "--suite", "golden"])


def torture() -> int:
    """A sample; `make torture` fails more of them."""
    words = ["--torture", "--sample", "2", "--suite", "torture"]
    return run([sys.executable, "tests/run.py", *words])


def pytest(suite: str, *words: str, **env: str) -> int:
    common = ["-m", "pytest", "-q", "--continue-on-collection-errors"]
    return run([sys.executable, *common, *words], LAPWING_SUITE=suite, **env)


def live() -> int:
    words = ["-m", "not torch", "--ignore-glob=*/test_kineto_*"]
    return pytest("live", "tests/live", *words)


def traces() -> int:
    """Views of torch's traces beside what the peers say of them."""
    return pytest("traces", *map(str, sorted(ROOT.glob("tests/live/test_kineto_*.py"))))


def torches() -> int:
    """What needs torch; `make torch-matrix` runs it on several."""
    return pytest("torches", "tests/live", "-m", "torch")


def find(*words: str) -> str:
    """What a tool of ours that prints "VERSION PATH" found: the paths, with colons."""
    found = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, text=True).stdout
    return ":".join(line.split()[-1] for line in found.splitlines())


# What goes by the interpreter's insides: below 3.12 calls are seen by a profile
# function, above by sys.monitoring.
AGENT_TESTS = (
    *("api", "calls_exact", "calls_known", "coexist", "drop_in", "kill", "marks"),
    *("run", "run_api", "run_children", "run_signals", "steps_live"),
)


def newer() -> int:
    """The tests of calls, agent and steps on the newer of the two ways to see calls;
    `make matrix` runs all on all versions. Its torch is Debian's, made for 3.13."""
    return pytest(
        "newer",
        *(f"tests/live/test_{name}.py" for name in AGENT_TESTS),
        *("-m", "python or torch"),
        LAPWING_VERSIONS="3.13",
        LAPWING_PYTHONS=find("tools/pythons.sh", "--first", "3.13"),
        LAPWING_TORCH_VERSIONS="2.6",
        LAPWING_TORCH_PYTHONS=find("tools/debian_torch.py", "2.6"),
    )


# What cannot be the same with ASan inside: it keeps freed memory for a while, it must
# be in the environment of every child, and a fork server that it slows down ends after
# the recording. The last four are left out because they take long.
NOT_SANITIZED = (
    *("compiles_in_a_loop", "recorded_child_process", "forkserver"),
    *("children_are_seen", "torch_is_as_it_was", "compiled", "replaced_in_the_middle"),
)


def sanitized() -> int:
    """The tests of calls, agent and steps with ASan and UBSan in the extension and the
    recorder. Leaks are not looked for: Python itself keeps much until its end. Signals
    are left to the programs, which may want to die of one."""
    reports = ROOT / "build" / "asan" / "reports"
    shutil.rmtree(reports, ignore_errors=True)
    reports.mkdir()
    libraries = (
        subprocess.check_output(["gcc", f"-print-file-name={name}"], text=True).strip()
        for name in ("libasan.so", "libubsan.so")
    )
    # A program that imports lapwing has the extension twice: the agent's and its own.
    asan = "detect_leaks=0:detect_odr_violation=0:handle_segv=0:handle_abort=0"
    names = (n for n in AGENT_TESTS if n not in ("calls_exact", "drop_in", "kill"))
    code = pytest(
        "sanitized",
        *(f"tests/live/test_{name}.py" for name in names),
        *("-m", "python or torch"),
        *("-k", " and ".join(f"not {name}" for name in NOT_SANITIZED)),
        LAPWING_BUILD=str(ROOT / "build" / "asan"),
        LAPWING_PRELOAD=":".join(libraries),
        PYTHONMALLOC="malloc",
        ASAN_OPTIONS=f"{asan}:log_path={reports}/asan",
        UBSAN_OPTIONS=f"halt_on_error=1:print_stacktrace=1:log_path={reports}/ubsan",
    )
    # Where a test does not look at standard error.
    found = [
        results.Result(f"sanitized/{path.name}", "failed", path.read_text())
        for path in sorted(reports.iterdir())
    ]
    results.write("sanitized", [*results.read("sanitized"), *found])
    return code


def lint() -> int:
    return run([sys.executable, "tools/lint.py", "--suite", "lint"])


SUITES: list[Callable[[], int]] = [
    *(unit, tsan, golden, torture, traces, torches, newer, sanitized, live, lint)
]


def run_suite(suite: Callable[[], int]) -> list[results.Result]:
    name = suite.__name__
    if threading.current_thread() is threading.main_thread():
        print(f"== {name}", flush=True)
    else:
        said_beside.append(f"== {name}\n")
    results.forget(name)
    code = suite()
    found = results.read(name)
    if not found:
        found = [results.Result(name, "failed", "no tests were run")]
    elif code and all(r.outcome != "failed" for r in found):
        found.append(results.Result(name, "failed", f"ended with code {code}"))
    return found


def run_suites(suites: list[Callable[[], int]]) -> dict[str, list[results.Result]]:
    return {suite.__name__: run_suite(suite) for suite in suites}


def main() -> int:
    wanted = sys.argv[1:] or [suite.__name__ for suite in SUITES]
    suites = [s for s in SUITES if s.__name__ in wanted]
    if live in suites and len(suites) > 1:
        # About half of the time.
        here = [s for s in suites if s in (unit, tsan, golden, live, lint)]
        with ThreadPoolExecutor(1) as pool:
            beside = pool.submit(run_suites, [s for s in suites if s not in here])
            parts = run_suites(here) | beside.result()
        print("".join(["\n", *said_beside]), flush=True)
    else:
        parts = run_suites(suites)
    found = [result for part in parts.values() for result in part]
    counts = {name: len(part) for name, part in parts.items()}

    by = {
        outcome: [r for r in found if r.outcome == outcome]
        for outcome in ("passed", "failed", "skipped")
    }
    print()
    for result in by["skipped"]:
        print(f"skipped {result.name}: {result.message}")
    for result in by["failed"]:
        print(f"failed {result.name}: {first_line(result.message)}")
    by_suite = ", ".join(f"{n} {name}" for name, n in counts.items())
    print(f"{len(found)} tests ({by_suite})")
    print(", ".join(f"{len(rows)} {outcome}" for outcome, rows in by.items()))
    return 1 if by["failed"] else 0


def first_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[0] if lines else ""


if __name__ == "__main__":
    sys.exit(main())
