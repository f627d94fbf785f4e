#!/usr/bin/env python3
"""Golden cases: a folder tests/golden/AREA/CASE with a `cmd` and what it must print.

  cmd     lines for sh; the word lapwing is the program under test
  out     what stdout must be           (absent: nothing)
  err     what stderr must be           (absent: nothing)
  code    what it must exit with        (absent: 0)
  setup   a script (by its #! line) run before, to make inputs
  *       anything else is input

The command runs in a copy of the folder, in the UTC time zone, as if in a pipe 80
columns wide; $GOLDEN is tests/golden, for inputs several cases share.

--torture fails the first allocation of the program, then the second, and so on
until the case passes. Each time the program must end with a sentence, a code the
case allows, no leak and no broken access (ASan), and no file that differs from
what an undisturbed run leaves. A file `no-torture` in a case says why not for it.
"""

from __future__ import annotations

import argparse
import difflib
import errno
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import results

GOLDEN = results.ROOT / "tests" / "golden"
OWN_FILES = {"cmd", "out", "err", "code", "setup", "no-torture"}
SANITIZER_CODE = 86  # no command of ours exits so
TIMEOUT = 60  # seconds; a case takes a fraction of one
GROWTH = 6  # from one allocation that fails to the next, to find the last
PASSES_TO_END = 3  # allocations in a row whose failure nobody notices


@dataclass
class Outcome:
    out: bytes
    err: bytes
    code: int
    files: dict[str, bytes]  # what the folder holds afterwards, but for inputs


class Case:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = str(folder.relative_to(GOLDEN))

    def expected(self, part: str) -> bytes:
        path = self.folder / part
        return path.read_bytes() if path.exists() else b""

    @property
    def code(self) -> int:
        return int(self.expected("code") or b"0")

    def update(self, outcome: Outcome) -> None:
        code = b"%d\n" % outcome.code if outcome.code else b""
        for part, text in (("out", outcome.out), ("err", outcome.err), ("code", code)):
            path = self.folder / part
            if text:
                path.write_bytes(text)
            else:
                path.unlink(missing_ok=True)

    def difference(self, outcome: Outcome) -> str:
        """Empty when the outcome is the expected one."""
        text = ""
        for part, got in (("out", outcome.out), ("err", outcome.err)):
            text += diff(part, self.expected(part), got)
        if outcome.code != self.code:
            text += f"exit code {outcome.code}, not {self.code}\n"
        return text


def diff(part: str, want: bytes, got: bytes) -> str:
    lines = [b.decode(errors="backslashreplace").splitlines() for b in (want, got)]
    marked = difflib.unified_diff(*lines, f"{part} (wanted)", f"{part} (got)", n=2)
    text = "".join(line.rstrip("\n") + "\n" for line in marked)
    return text or ("" if want == got else f"{part}: differs in its last newline\n")


def find_cases(filters: list[str]) -> list[Case]:
    cases = [Case(path.parent) for path in sorted(GOLDEN.rglob("cmd"))]
    return [c for c in cases if not filters or any(f in c.name for f in filters)]


class Runner:
    def __init__(self, program: Path) -> None:
        self.program = program.resolve()

    def environment(self, folder: Path, fail_alloc: int) -> dict[str, str]:
        exitcode = f"exitcode={SANITIZER_CODE}"
        env = {
            "PATH": f"{folder}/bin:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(folder / "home"),
            "TMPDIR": str(folder / "tmp"),
            "GOLDEN": str(GOLDEN),
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
            "PYTHONDONTWRITEBYTECODE": "1",
            "ASAN_OPTIONS": f"{exitcode}:detect_leaks=1",
            "UBSAN_OPTIONS": f"{exitcode}:halt_on_error=1:print_stacktrace=1",
        }
        if fail_alloc:
            env["LAPWING_TEST_FAIL_ALLOC"] = str(fail_alloc)
        return env

    def run(self, case: Case, fail_alloc: int = 0) -> Outcome:
        with tempfile.TemporaryDirectory(prefix="golden-") as temporary:
            folder = Path(temporary)
            for name in ("bin", "home", "tmp"):
                (folder / name).mkdir()
            (folder / "bin" / "lapwing").symlink_to(self.program)
            work = folder / "work"
            shutil.copytree(case.folder, work, symlinks=True)
            if (work / "setup").exists():
                self.set_up(work, self.environment(folder, 0))
            for name in OWN_FILES - {"cmd"}:
                (work / name).unlink(missing_ok=True)
            inputs = snapshot(work)
            env = self.environment(folder, fail_alloc)
            out, err, code = execute(["sh", "cmd"], work, env)
            left = snapshot(work) | snapshot(folder / "tmp", "tmp/")
            files = {k: v for k, v in left.items() if inputs.get(k) != v}
            files |= dict.fromkeys(inputs.keys() - left.keys(), b"(removed)")
            return Outcome(out, err, code, files)

    def set_up(self, work: Path, env: dict[str, str]) -> None:
        (work / "setup").chmod(0o755)
        out, err, code = execute_fresh(["./setup"], work, env)
        if code:
            text = (out + err).decode(errors="backslashreplace")
            raise RuntimeError(f"setup exits with {code}:\n{text}")


def execute_fresh(
    words: list[str], folder: Path, env: dict[str, str]
) -> tuple[bytes, bytes, int]:
    """Execute a file that was written a moment ago. Another thread's child may hold it
    open for writing until it has become its own program: "text file busy"."""
    for _ in range(100):
        try:
            return execute(words, folder, env)
        except OSError as error:
            if error.errno != errno.ETXTBSY:
                raise
            time.sleep(0.02)
    return execute(words, folder, env)


def execute(
    words: list[str], folder: Path, env: dict[str, str]
) -> tuple[bytes, bytes, int]:
    process = subprocess.Popen(
        words,
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise RuntimeError(f"still running after {TIMEOUT} s") from None
    return out, err, process.returncode


def snapshot(folder: Path, prefix: str = "") -> dict[str, bytes]:
    paths = (p for p in folder.rglob("*") if p.is_symlink() or not p.is_dir())
    return {
        prefix + str(path.relative_to(folder)): path.read_bytes()
        if path.is_file()
        else b"(special)"
        for path in paths
    }


def check(runner: Runner, case: Case, update: bool) -> str:
    outcome = runner.run(case)
    if update and outcome.code != SANITIZER_CODE:
        case.update(outcome)
    return case.difference(outcome)


def torture_once(runner: Runner, case: Case, n: int, calm: Outcome) -> tuple[bool, str]:
    """(did the case pass, what is wrong) with allocation N failing."""
    outcome = runner.run(case, fail_alloc=n)
    err = outcome.err.decode(errors="backslashreplace")
    problems = []
    if not case.difference(outcome):
        passed = True
    else:
        passed = False
        lines = [line for line in err.splitlines() if not line.startswith("lapwing: ")]
        if lines or not err:
            problems.append("no sentence on stderr")
        if outcome.code not in (1, case.code, 125):
            problems.append(f"exit code {outcome.code}")
    if "Sanitizer" in err or "runtime error:" in err:
        problems.append("a sanitizer report")
    broken = [k for k, v in outcome.files.items() if calm.files.get(k) != v]
    if broken:
        problems.append(f"left {', '.join(sorted(broken))}")
    if not problems:
        return passed, ""
    return passed, f"allocation {n} fails: {'; '.join(problems)}\n{err}"


def allocations(
    sample: int, first: int, passes: Callable[[int], bool]
) -> Iterator[int]:
    """Which allocations to fail: all; or, until one passes, FIRST and each GROWTH times
    as late as the one before, then about SAMPLE spread over the whole run.
    """
    if not sample:
        n = row = 0
        while row < PASSES_TO_END:
            n += 1
            row = row + 1 if passes(n) else 0
            yield n
        return
    top = first
    while not passes(top):
        yield top
        top *= GROWTH
    step = max(1, top // (sample + 1))
    yield from range(step, top, step)


def torture(runner: Runner, case: Case, sample: int) -> str:
    calm = runner.run(case)
    seen: dict[int, tuple[bool, str]] = {}

    def attempt(n: int) -> bool:
        if n not in seen:
            seen[n] = torture_once(runner, case, n, calm)
        return seen[n][0]

    first = 1 + zlib.crc32(case.name.encode()) % (GROWTH - 1)  # cases alike differ here
    for n in allocations(sample, first, attempt):
        attempt(n)
        if seen[n][1]:
            return seen[n][1]
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the golden cases.")
    parser.add_argument("filters", nargs="*", help="only cases whose name holds one")
    parser.add_argument("--program", type=Path, help="instead of the ASan build's")
    parser.add_argument("--update", action="store_true", help="take what it prints")
    parser.add_argument("--torture", action="store_true", help="fail allocations")
    parser.add_argument("--sample", type=int, default=0, help="torture about N a case")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--suite", help="write build/results/SUITE.json")
    args = parser.parse_args()

    program = args.program or results.ROOT / "build" / "asan" / "lapwing"
    if not program.exists():
        sys.exit(f"run.py: {program} is not there; run make asan")
    runner = Runner(program)
    cases = find_cases(args.filters)
    if args.torture:
        cases = [c for c in cases if not (c.folder / "no-torture").exists()]

    def judge(case: Case) -> results.Result:
        start = time.monotonic()
        try:
            if args.torture:
                problem = torture(runner, case, args.sample)
            else:
                problem = check(runner, case, args.update)
        except (OSError, RuntimeError) as error:
            problem = f"{error}\n"
        outcome = "failed" if problem and not args.update else "passed"
        if problem:
            verb = "updated" if args.update else "FAILED"
            print(f"{verb} {case.name}\n{re.sub('^', '    ', problem, flags=re.M)}")
        prefix = "torture/" if args.torture else "golden/"
        seconds = time.monotonic() - start
        return results.Result(prefix + case.name, outcome, problem, seconds)

    with ThreadPoolExecutor(args.jobs) as pool:
        found = list(pool.map(judge, cases))
    if args.suite:
        results.write(args.suite, found)
    failed = sum(r.outcome == "failed" for r in found)
    what = "tortured cases" if args.torture else "golden cases"
    print(f"{len(found)} {what}, {failed} failed")
    return 1 if failed or not found else 0


if __name__ == "__main__":
    sys.exit(main())
