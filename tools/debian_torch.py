#!/usr/bin/env python3
"""Unpack torch builds of other Debian suites, each with its Python, for tests.

    debian_torch.py 2.6 2.14

prints "VERSION PATH" for each torch that is to be had, PATH being the Python that
imports it. What is not there yet is unpacked first, into the cache ($LAPWING_CACHE,
else ~/.cache/lapwing); that takes a minute or two and 200 MB of packages each. A torch
that cannot be had is a sentence on standard error, and the exit code stays 0: which
ones a test needs is the test's business.

Torch hangs together with its Python and with libraries down to libc, none of which are
the machine's; so all of it comes from the suite that has this torch, and is run through
its own loader, as tools/debian_python.py does it and says why.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import re
import sys
import tempfile
from pathlib import Path

import debian_python as debian

# Oldest first. Each torch is in one of them, under a library's name that says which.
SUITES = (("bookworm",), *debian.SUITES)
SHOW_VERSION = "import importlib.metadata as m; print(m.version('torch'))"


def cache() -> Path:
    """Where the torches are kept."""
    given = os.environ.get("LAPWING_CACHE")
    return (Path(given) if given else Path.home() / ".cache" / "lapwing") / "torches"


def repair_links(root: Path) -> None:
    """Links to absolute paths point below ROOT, where their packages now are."""
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            link = Path(folder, name)
            if not link.is_symlink():
                continue
            target = os.readlink(link)
            if target.startswith("/"):
                link.unlink()
                link.symlink_to(os.path.relpath(root / target[1:], folder))


def choose_alternatives(root: Path) -> None:
    """Link BLAS and LAPACK, which have folders of their own, into the library path."""
    for folder in debian.library_folders(root):
        for name in ("blas", "lapack"):
            for library in sorted(folder.glob(f"{name}/lib{name}.so.*")):
                link = folder / library.name
                if not link.exists():
                    link.symlink_to(library.relative_to(folder))


def unpack(version: str, folder: Path) -> None:
    """Fill FOLDER with torch VERSION and its Python, whole or not at all."""
    mirror = debian.find_mirror()
    with tempfile.TemporaryDirectory(dir=str(folder.parent), prefix=".new-") as name:
        work = Path(name)
        index = debian.find_suite(mirror, f"libtorch{version}", work, SUITES)
        packages = debian.closure(index, "python3-torch")
        minors = [
            match.group(1)
            for package in packages
            if (match := re.fullmatch(r"python(3\.\d+)", package.name))
        ]
        if len(minors) != 1:
            raise debian.UnavailableError(
                f"it is built for {len(minors)} Pythons, and one was expected"
            )
        root = work / "root"
        debian.unpack_packages(mirror, packages, work, root)
        repair_links(root)
        choose_alternatives(root)
        debian.write_launcher(root, folder, minors[0], mirror.architecture)
        debian.put_in_place(root, folder)


def find(version: str) -> Path:
    """The Python of torch VERSION, unpacked first if it has to be."""
    folder = cache() / version
    python = folder / "usr/bin/python3"
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Two at once would do the work twice; the second finds it done.
    with open(folder.parent / ".lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not python.exists():
            print(f"debian_torch.py: unpacking torch {version}", file=sys.stderr)
            unpack(version, folder)
    return python.resolve()


def main() -> int:
    """Say where each torch that was asked for is."""
    parser = argparse.ArgumentParser(description="unpack torch builds from Debian")
    parser.add_argument("versions", nargs="+", metavar="X.Y", help="as 2.6")
    for version in parser.parse_args().versions:
        try:
            if not re.fullmatch(r"\d+\.\d+", version):
                raise debian.UnavailableError("a version is two numbers, as 2.6")
            python = find(version)
            shown = debian.output_of(str(python), "-c", SHOW_VERSION).strip()
        except (debian.UnavailableError, OSError) as error:
            print(f"debian_torch.py: no torch {version}: {error}", file=sys.stderr)
        else:
            print(shown, python, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
