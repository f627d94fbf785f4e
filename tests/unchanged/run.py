#!/usr/bin/env python3
"""CPython's own regression tests, bare and under Lapwing: every test case must end
as it does without us.

    tests/unchanged/run.py [--python X.Y]... [--mode run|calls]... [MODULE...]

What a profiler must not change is what CPython's tests check: threads, signals, forks,
exit codes, messages on standard error, what a frame or a module looks like. Each
module runs by `python -m test` in a process of its own: bare, under `lapwing run` and
under `lapwing run --calls`. A case's outcome is taken from the JUnit file that it
writes.

Where outcomes differ, the module is run again both ways, so that a case that simply is
flaky (or suffers from a busy machine) is told from one that Lapwing breaks: only what
differs from every bare run in every run of ours counts. A case in which the
process dies or hangs is noted, and the module is run again without it.

accepted.txt names the differences that are as they should be, each with its reason. One
that did not occur although its module ran is reported, so that the list does not rot.

Results are kept in build/unchanged/ and used again: bare ones as long as the Python is
the same, ours as long as the installed Lapwing is. --again runs all of them anew.
"""

from __future__ import annotations

import argparse
import fnmatch
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
RESULTS = ROOT / "build" / "unchanged"
ACCEPTED = Path(__file__).with_name("accepted.txt")
LAPWING = Path(sys.executable).parent / "lapwing"

PYTHONS = ("3.11", "3.12", "3.13")
MODES = {"run": [], "calls": ["--calls"]}

# Not test_ctypes: as root it puts a file in the place of the null device.
# The long ones first, so that the last worker does not wait for one of them. A package
# stands for every module in it.
MODULES = """
    test_multiprocessing_spawn test_multiprocessing_fork
    test_multiprocessing_main_handling
    test_subprocess test_asyncio test_concurrent_futures test_signal test_threading
    test_faulthandler test_gc test_pdb
    test_cmd_line test_cmd_line_script test_runpy test_site test_repl test_embed
    test_sys test_sys_setprofile test_sys_settrace test_monitoring test_bdb test_trace
    test_cprofile test_profile
    test_os test_posix test_fork1 test_wait3 test_wait4 test_popen test_pty
    test_atexit test_thread test_threadsignals test_threading_local
    test_interpreters test__xxsubinterpreters
    test_coroutines test_generators test_asyncgen test_yield_from
    test_exceptions test_except_star test_exception_hierarchy test_traceback
    test_raise test_with test_contextlib test_contextlib_async
    test_frame test_inspect test_dis test_code test_compile test_code_module
    test_pickle test_copy test_copyreg test_descr test_functools test_weakref
    test_weakset test_finalization test_dataclasses test_enum test_typing test_dict
    test_set test_class test_types test_builtin test_call test_extcall
    test_import test_importlib.test_api test_importlib.test_util
    test_importlib.test_abc test_importlib.test_threaded_import
    test_importlib.import_ test_pkgutil test_modulefinder test_zipimport test_venv
    test_io test_socket test_socketserver test_selectors test_poll test_select
    test_sched test_queue test_time test_warnings test_logging test_unittest
    test_tracemalloc test_resource test_locale
""".split()


@dataclass
class Ran:
    """One run of a module: the outcome of each case, and why it is not "passed"."""

    made_by: str
    outcomes: dict[str, str] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    code: int | None = 0  # it ended with


@dataclass
class Difference:
    python: str
    mode: str
    case: str
    bare: str
    ours: str
    reason: str


@dataclass
class Accepted:
    python: str
    mode: str
    case: str
    reason: str
    is_seen: bool = False

    def matches(self, python: str, mode: str, case: str) -> bool:
        return (
            fnmatch.fnmatchcase(python, self.python)
            and fnmatch.fnmatchcase(mode, self.mode)
            and fnmatch.fnmatchcase(case, self.case)
        )


def read_accepted() -> list[Accepted]:
    """Each line: version, mode, case and reason; the first three may hold * and ?."""
    lines = ACCEPTED.read_text().splitlines()
    rows = [line for line in lines if line.strip() and not line.startswith("#")]
    return [Accepted(*row.split(None, 3)) for row in rows]


def interpreters() -> dict[str, tuple[str, str]]:
    """The path and full version of one CPython of each minor version."""
    listed = subprocess.check_output(
        [ROOT / "tools" / "pythons.sh", "--first", "--local", *PYTHONS],
        text=True,
        stderr=subprocess.DEVNULL,
    )
    rows = [line.split() for line in listed.splitlines()]
    return {version.rsplit(".", 1)[0]: (path, version) for version, path in rows}


def test_folder(python: str) -> Path | None:
    """Where that Python keeps its `test` package; Debian's leave it out."""
    show = "import test.support, test; print(list(test.__path__)[0])"
    done = subprocess.run([python, "-c", show], capture_output=True, text=True)
    return None if done.returncode else Path(done.stdout.strip())


def modules(folder: Path, wanted: list[str]) -> list[str]:
    """Those of WANTED that this Python has; a package is all of its modules."""
    found = []
    for name in wanted:
        path = folder / name.removeprefix("test.").replace(".", "/")
        if path.is_dir():
            inner = sorted(path.glob("test_*.py"))
            found += [f"test.{name.removeprefix('test.')}.{p.stem}" for p in inner]
        elif path.with_suffix(".py").exists():
            found.append(name)
    return found


def lapwing_is() -> str:
    """Changes whenever another build of Lapwing is installed."""
    show = "import lapwing, os; print(os.path.dirname(lapwing.__file__))"
    package = subprocess.check_output([sys.executable, "-c", show], text=True).strip()
    digest = hashlib.sha256(LAPWING.read_bytes())
    for path in sorted(Path(package).rglob("*")):
        if path.suffix in (".py", ".so"):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def clean_environment(folder: str) -> dict[str, str]:
    ours = ("PYTHON", "LAPWING", "VIRTUAL_ENV", "PYTEST")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
    return kept | {"TMPDIR": folder}


class Runner:
    """Runs modules, and keeps what came of it."""

    def __init__(self, timeout: int, made_by: str) -> None:
        self.timeout = timeout
        self.made_by = made_by

    def once(
        self, python: str, mode: str, module: str, left_out: list[str], log: Path
    ) -> tuple[Ran, str | None]:
        """Run MODULE; also the case that ended the process, if one did."""
        # Short, since tests put sockets there.
        with tempfile.TemporaryDirectory(prefix="lwu") as folder:
            xml = Path(folder, "junit.xml")
            words = [python, "-m", "test", "-v", "--junit-xml", str(xml)]
            words += ["--tempdir", folder]
            for case in left_out:
                words += ["--ignore", case]
            if mode != "bare":
                run = [str(LAPWING), "run", "--no-summary", *MODES[mode]]
                words = [*run, "-o", str(Path(folder, "x.lap")), "--", *words]
            start = time.monotonic()
            with log.open("wb") as output:
                child = subprocess.Popen(
                    [*words, module],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    cwd=folder,
                    env=clean_environment(folder),
                    start_new_session=True,
                )
                try:
                    code: int | None = child.wait(self.timeout)
                except subprocess.TimeoutExpired:
                    code = None
                try:
                    os.killpg(child.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                child.wait()
            ran = Ran("", seconds=time.monotonic() - start, code=code)
            text = log.read_text(errors="replace")
            for what in re.findall(r"Warning -- (\S+) was modified by", text):
                ran.outcomes[f"{module} leaves {what} as it was"] = "failed"
            if mode != "bare" and not any(Path(folder, "x.lap").glob("*.seg")):
                ran.outcomes[f"{module} is recorded"] = "failed"
            if xml.exists():
                read_junit(xml, ran)
                note_subtests(text, ran)
                return ran, None
            ended = "hung" if code is None else f"died ({code})"
            begun = re.findall(r"^\w+ \((test\.[\w.]+)\)[^\n]*? \.\.\. ", text, re.M)
            # A module that cannot be had is skipped without a file.
            if not begun and code in (0, 4, 77):
                return ran, None
            case = begun[-1] if begun else module
            ran.outcomes[case] = ended
            ran.reasons[case] = " | ".join(text.strip().splitlines()[-3:])
            return ran, case

    def whole(self, python: str, mode: str, module: str, log: Path) -> Ran:
        """Run MODULE, again without each case that ends the process."""
        left_out: list[str] = []
        fatal: dict[str, tuple[str, str]] = {}
        seconds = 0.0
        while True:
            ran, case = self.once(python, mode, module, left_out, log)
            seconds += ran.seconds
            if case is None or case in left_out or len(left_out) == 5:
                break
            fatal[case] = ran.outcomes[case], ran.reasons[case]
            hangs = sum(outcome == "hung" for outcome, _ in fatal.values())
            if case == module or hangs == 2:
                break
            left_out.append(case)
        for case, (outcome, reason) in fatal.items():
            ran.outcomes[case], ran.reasons[case] = outcome, reason
        ran.seconds = seconds
        return ran

    def result(
        self, version: str, full: str, python: str, mode: str, module: str, turn: int
    ) -> Ran:
        """The TURN-th run of MODULE, from build/unchanged if it is there."""
        made_by = full if mode == "bare" else f"{full} {self.made_by}"
        folder = RESULTS / version / mode
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{module.removeprefix('test.')}.{turn}"
        kept = folder / f"{name}.json"
        if kept.exists():
            ran = Ran(**json.loads(kept.read_text()))
            if ran.made_by == made_by:
                return ran
        ran = self.whole(python, mode, module, folder / f"{name}.log")
        ran.made_by = made_by
        kept.write_text(json.dumps(asdict(ran), indent=1) + "\n")
        return ran


def note_subtests(text: str, ran: Ran) -> None:
    """A case of which a subtest failed has no name in the JUnit file."""
    blocks = re.findall(
        r"^(?:FAIL|ERROR): \w+ \((test\.[\w.]+)\).*\n-+\n((?:.+\n)*)", text, re.M
    )
    for name, block in blocks:
        if name not in ran.outcomes:
            ran.outcomes[name] = "failed"
            ran.reasons[name] = block.strip().rpartition("\n")[2][:300]


def read_junit(xml: Path, ran: Ran) -> None:
    worse = ["absent", "passed", "skipped", "failed"]
    for case in ET.parse(xml).iter("testcase"):
        if not case.get("name"):
            continue
        # Addresses differ from run to run.
        name = re.sub(r"0x[0-9a-f]+", "0x", case.get("name") or "")
        outcome, reason = "passed", ""
        for kind in ("skipped", "failure", "error"):
            part = case.find(kind)
            if part is not None:
                outcome = "skipped" if kind == "skipped" else "failed"
                lines = "".join(part.itertext()).strip().splitlines()
                reason = lines[-1][:300] if lines else ""
        if case.get("result") == "skipped":
            outcome = "skipped"
        if worse.index(outcome) >= worse.index(ran.outcomes.get(name, "absent")):
            ran.outcomes[name] = outcome
            if reason:
                ran.reasons[name] = reason


def differing(module: str, bare: list[Ran], ours: list[Ran]) -> set[str]:
    """The cases in which none of OURS ends as any of BARE does. Where a process died,
    the cases after it are absent; that is the fault of the one that is named."""

    def outcomes(runs: list[Ran], case: str) -> set[str]:
        return {ran.outcomes.get(case, "absent") for ran in runs}

    cases = {case for ran in (*bare, *ours) for case in ran.outcomes}
    found = {case for case in cases if not outcomes(bare, case) & outcomes(ours, case)}
    is_dead = any(
        outcome.startswith(("died", "hung"))
        for case in found
        for outcome in outcomes(ours, case)
    )
    if is_dead:
        found = {case for case in found if outcomes(ours, case) != {"absent"}}
    if not found and not {ran.code for ran in bare} & {ran.code for ran in ours}:
        found = {f"{module} ends with the same code"}
    return found


@dataclass
class Compared:
    python: str
    mode: str
    module: str
    same: int = 0
    accepted: int = 0
    flaky: int = 0
    differences: list[Difference] = field(default_factory=list)
    seconds: float = 0.0


def compare(
    runner: Runner,
    accepted: list[Accepted],
    version: str,
    path: str,
    full: str,
    module: str,
    modes: list[str],
) -> list[Compared]:
    rows = []

    def result(mode: str, turn: int) -> Ran:
        return runner.result(version, full, path, mode, module, turn)

    def open_cases(mode: str, cases: set[str]) -> set[str]:
        return {
            case
            for case in cases
            if not any(row.matches(version, mode, case) for row in accepted)
        }

    bare = [result("bare", 1)]
    for mode in modes:
        ours = [result(mode, 1)]
        first = differing(module, bare, ours)
        if open_cases(mode, first):
            bare = [bare[0], result("bare", 2)]
            ours.append(result(mode, 2))
        found = differing(module, bare, ours)
        row = Compared(version, mode, module, flaky=len(first - found))
        row.seconds = sum(ran.seconds for ran in ours)
        for entry in accepted:
            if any(entry.matches(version, mode, case) for case in found):
                entry.is_seen = True
        for case in sorted(open_cases(mode, found)):
            was, now = bare[0], ours[0]
            reason = now.reasons.get(case) or was.reasons.get(case, "")
            row.differences.append(
                Difference(
                    version,
                    mode,
                    case,
                    was.outcomes.get(case, "absent"),
                    now.outcomes.get(case, "absent"),
                    reason,
                )
            )
        row.accepted = len(found) - len(row.differences)
        row.same = len(bare[0].outcomes.keys() - found)
        rows.append(row)
        note = f", {len(row.differences)} differ" if row.differences else ""
        print(
            f"{version} {mode:5} {module}: {row.same} same{note} ({row.seconds:.0f} s)",
            flush=True,
        )
        for d in row.differences:
            print(f"    {d.case}: {d.bare} -> {d.ours}: {d.reason}", flush=True)
    return rows


def stale(accepted: list[Accepted], rows: list[Compared]) -> list[Accepted]:
    """Entries that no case matched although their module ran."""
    ran = [(row.python, row.mode, row.module.removeprefix("test.")) for row in rows]
    return [
        entry
        for entry in accepted
        if not entry.is_seen
        and any(
            fnmatch.fnmatchcase(python, entry.python)
            and fnmatch.fnmatchcase(mode, entry.mode)
            and entry.case.removeprefix("test.").startswith(module)
            for python, mode, module in ran
        )
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("modules", nargs="*", metavar="MODULE")
    parser.add_argument("--python", action="append", choices=PYTHONS)
    parser.add_argument("--mode", action="append", choices=list(MODES))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--timeout", type=int, default=300, help="seconds a module")
    parser.add_argument("--again", action="store_true", help="use no kept results")
    args = parser.parse_args()
    if args.again:
        shutil.rmtree(RESULTS, ignore_errors=True)

    # What whoever started us ignores (a job in the background of a script) would be
    # ignored by every test too.
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_IGN:
            is_ctrl_c = number == signal.SIGINT
            handler = signal.default_int_handler if is_ctrl_c else signal.SIG_DFL
            signal.signal(number, handler)

    accepted = read_accepted()
    runner = Runner(args.timeout, lapwing_is())
    modes = args.mode or list(MODES)
    here = interpreters()
    work = []
    missing = 0
    for version in args.python or PYTHONS:
        path, full = here.get(version, ("", ""))
        folder = test_folder(path) if path else None
        if not folder:
            print(f"no CPython {version} with its tests on this machine")
            missing += 1
            continue
        for module in modules(folder, args.modules or MODULES):
            work.append((version, path, full, module, modes))
    with ThreadPoolExecutor(args.jobs) as pool:
        found = pool.map(lambda task: compare(runner, accepted, *task), work)
        rows = [row for part in found for row in part]

    print(f"\n{'Python':8}{'mode':7}{'modules':>8}{'same':>8}{'accepted':>10}"
          f"{'flaky':>7}{'differ':>8}")  # fmt: skip
    for version in args.python or PYTHONS:
        for mode in modes:
            part = [r for r in rows if (r.python, r.mode) == (version, mode)]
            counts = [
                sum(r.same for r in part),
                sum(r.accepted for r in part),
                sum(r.flaky for r in part),
                sum(len(r.differences) for r in part),
            ]
            print(f"{version:8}{mode:7}{len(part):8}{counts[0]:8}{counts[1]:10}"
                  f"{counts[2]:7}{counts[3]:8}")  # fmt: skip
    for entry in stale(accepted, rows):
        print(f"accepted, but did not occur: {entry.python} {entry.mode} {entry.case}")
    differ = [d for row in rows for d in row.differences]
    for d in differ:
        print(
            f"differs: {d.python} {d.mode} {d.case}: {d.bare} -> {d.ours}: {d.reason}"
        )
    if not rows or missing == len(args.python or PYTHONS):
        print("nothing was compared: no CPython here has its tests")
        return 1
    passed = sum(row.same + row.accepted for row in rows)
    print(f"{passed} passed, {len(differ)} failed")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
