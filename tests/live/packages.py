"""The installed package, for Pythons that are not the one it is installed in; with the
extension of LAPWING_BUILD in it, if that is set."""

from __future__ import annotations

import os
import shutil
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import lapwing as installed

PROGRAMS = Path(__file__).resolve().parents[1] / "programs"


@cache
def package_folder() -> str:
    """A folder with lapwing in it and nothing else, to put on PYTHONPATH."""
    folder = mkdtemp(prefix="lapwing-package-")
    source = Path(installed.__file__).parent
    ignore = shutil.ignore_patterns("__pycache__")
    package = Path(folder) / "lapwing"
    shutil.copytree(source, package, ignore=ignore)
    if build := os.environ.get("LAPWING_BUILD"):
        extension = Path(build, "python", "_lapwing.abi3.so")
        shutil.copy(extension, package / "_inject")
    return folder


def environment(**more: str) -> dict[str, str]:
    """Ours, with the package in reach and the same hashes each time."""
    return {
        **os.environ,
        "PYTHONPATH": package_folder(),
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        **more,
    }
