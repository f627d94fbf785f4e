"""`lapwing run x.py` uses the Python that the person means, and says which it was."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

SHOW = "import sys; print(sys.prefix)\n"


@pytest.fixture(scope="module")
def environments(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("environments")
    for name in ("active", "own"):
        venv.create(folder / name)
    return folder


def run(
    lapwing: Path | str, script: Path, active: Path | None = None
) -> subprocess.CompletedProcess[str]:
    environ = {k: v for k, v in os.environ.items() if k != "VIRTUAL_ENV"}
    environ["PATH"] = f"{Path(sys.base_prefix) / 'bin'}:/usr/bin:/bin"
    if active:
        environ["VIRTUAL_ENV"] = str(active)
    return subprocess.run(
        [lapwing, "run", "--no-summary", "--no-sample", script],
        cwd=script.parent,
        env=environ,
        capture_output=True,
        text=True,
    )


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "x.py"
    path.write_text(SHOW)
    return path


def test_the_active_virtualenv_goes_first(
    lapwing: str, environments: Path, script: Path
) -> None:
    done = run(lapwing, script, environments / "active")
    assert done.stdout == f"{environments / 'active'}\n"


def test_else_the_virtualenv_in_which_lapwing_lies(lapwing: str, script: Path) -> None:
    """As it does in these tests: its folder is not on PATH."""
    done = run(lapwing, script)
    assert done.stdout == f"{Path(lapwing).parent.parent}\n"


def test_a_link_from_elsewhere_does_not_lie_in_it(
    lapwing: str, tmp_path: Path, script: Path
) -> None:
    """As of a tool that was installed into a virtualenv of its own."""
    (tmp_path / "bin").mkdir()
    link = tmp_path / "bin" / "lapwing"
    link.symlink_to(lapwing)
    done = run(link, script)
    assert done.stdout == f"{sys.base_prefix}\n"


def test_a_virtualenv_that_is_gone_is_none(lapwing: str, script: Path) -> None:
    done = run(lapwing, script, script.parent / "nowhere")
    assert done.stdout == f"{Path(lapwing).parent.parent}\n"


def test_which_it_was_is_said_when_an_import_fails(
    lapwing: str, environments: Path, script: Path
) -> None:
    script.write_text("import no_such_package\n")
    done = run(lapwing, script, environments / "active")
    assert done.returncode == 1
    assert "ModuleNotFoundError" in done.stderr
    python = environments / "active" / "bin" / "python3"
    assert f"x.py ran with {python} (the active virtualenv)" in done.stderr


def test_nothing_is_said_of_it_when_the_script_is_fine(lapwing: str, script: Path) -> None:
    assert " ran with " not in run(lapwing, script).stderr
