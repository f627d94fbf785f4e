"""What all pytest tests share: the program, the Pythons, and no silent skips.

`python` runs a test once for each interpreter in LAPWING_PYTHONS (paths parted by
colons; if not set, only the one of .venv), so `make matrix` is the same tests. Of the
versions in LAPWING_VERSIONS, those that no interpreter has are skipped by name. Such
tests have the mark `python`.

LAPWING_BUILD is a build folder whose program and extension are tried instead of the
installed ones. With sanitizers inside they need LAPWING_PRELOAD, which is the
LD_PRELOAD of what the tests start, but not of pytest itself.

`torch_python` is the same for tests that need torch: LAPWING_TORCH_PYTHONS, if not set
the one of .venv, and LAPWING_TORCH_VERSIONS. Such tests have the mark `torch`; `make
torch-matrix` runs them on other torches.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import results

found: dict[str, results.Result] = {}


def pytest_configure(config: pytest.Config) -> None:
    """Signals that whoever started us has ignored (nohup, a job in the background of a
    script) would be ignored by every program of ours too: here they are as usual."""
    config.addinivalue_line("markers", "torch: needs a torch (torch_python)")
    config.addinivalue_line("markers", "python: runs once for each Python (python)")
    if preload := os.environ.get("LAPWING_PRELOAD"):
        os.environ["LD_PRELOAD"] = preload
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_IGN:
            is_ctrl_c = number == signal.SIGINT
            handler = signal.default_int_handler if is_ctrl_c else signal.SIG_DFL
            signal.signal(number, handler)


# The longest take half a minute alone; those of LAPWING_LONG take many.
DEADLINE_S = 7200 if os.environ.get("LAPWING_LONG") else 300


def out_of_time(number: int, frame: object) -> None:
    raise TimeoutError(f"the test took more than {DEADLINE_S} s")


@pytest.fixture(autouse=True)
def deadline() -> Iterator[None]:
    """A program that hangs costs its own test, not the whole run: subprocess.run()
    kills what it waits for when it is interrupted."""
    before = signal.signal(signal.SIGALRM, out_of_time)
    signal.alarm(DEADLINE_S)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="session")
def lapwing() -> str:
    """The installed program, or that of LAPWING_BUILD."""
    if build := os.environ.get("LAPWING_BUILD"):
        return str(Path(build, "lapwing").resolve())
    beside = Path(sys.executable).parent / "lapwing"
    program = str(beside) if beside.exists() else shutil.which("lapwing")
    assert program, "lapwing is not installed; run make"
    return program


SHOW_PYTHON = "import sys; print('%d.%d' % sys.version_info[:2])"
SHOW_TORCH = (
    "from importlib.metadata import version as v;"
    "print('torch', '.'.join(v('torch').split('.')[:2]))"
)


@cache
def interpreters(variable: str, show: str) -> tuple[tuple[str, str], ...]:
    """(version, path) of each Python that VARIABLE lists, the version being what SHOW
    prints there: ("3.11", "/usr/bin/python3")."""
    paths = os.environ.get(variable, sys.executable)
    return tuple(
        (subprocess.check_output([path, "-c", show], text=True).strip(), path)
        for path in paths.split(":")
        if path
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for name, show, kind in (
        ("python", SHOW_PYTHON, ""),
        ("torch_python", SHOW_TORCH, "torch "),
    ):
        if name not in metafunc.fixturenames:
            continue
        variable = "LAPWING_TORCH" if kind else "LAPWING"
        here = interpreters(f"{variable}_PYTHONS", show)
        params = [pytest.param(path, id=version) for version, path in here]
        for number in os.environ.get(f"{variable}_VERSIONS", "").split():
            version = kind + number
            if version not in dict(here):
                reason = f"no {kind or 'CPython '}{number} on this machine"
                skip = pytest.mark.skip(reason)
                params.append(pytest.param("", id=version, marks=skip))
        metafunc.parametrize(name, params, scope="session")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        if "torch_python" in fixtures:
            item.add_marker("torch")
        if "python" in fixtures:
            item.add_marker("python")


def _note(nodeid: str, outcome: str, message: str, seconds: float) -> results.Result:
    """Keep the worst of a test's set-up, call and clean-up."""
    old = found.get(nodeid, results.Result(nodeid, "passed"))
    worst = max(old.outcome, outcome, key=["passed", "skipped", "failed"].index)
    message = message if worst == outcome != old.outcome else old.message
    new = results.Result(nodeid, worst, message, old.seconds + seconds)
    found[nodeid] = results.judge(new)
    return found[nodeid]


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Why a report is not "passed". An expected failure counts as a skip."""
    if report.skipped and isinstance(report.longrepr, tuple):
        return report.longrepr[2].removeprefix("Skipped: ")
    if expected := getattr(report, "wasxfail", None):
        return expected
    crash = getattr(report.longrepr, "reprcrash", None)
    return crash.message if crash else report.longreprtext


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Iterator[None]:
    report: pytest.TestReport = yield
    message = "" if report.passed else _reason(report)
    judged = _note(report.nodeid, report.outcome, message, report.duration)
    if report.skipped and judged.outcome == "failed":
        report.outcome, report.longrepr = "failed", judged.message
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[None]:
    report: pytest.CollectReport = yield
    if not report.passed:
        judged = _note(report.nodeid, report.outcome, _reason(report), 0)
        if report.skipped and judged.outcome == "failed":
            report.outcome, report.longrepr = "failed", judged.message
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    if suite := os.environ.get("LAPWING_SUITE"):
        results.write(suite, list(found.values()))
