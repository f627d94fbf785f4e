#!/usr/bin/env python3
"""Unpack one CPython from a newer Debian suite, beside the system, for tests.

    debian_python.py 3.14 FOLDER

fills FOLDER with the interpreter, its standard library and every shared library
it needs, down to libc and the loader, and puts FOLDER/usr/bin/python3.14 there: a
script that runs the interpreter through its own loader. Nothing is installed and
no package script is run.

Why not a container, a build from source or apt: the machine's libc is older than
what these packages want, a build takes minutes, and apt would replace libc.

The mirror, its proxy and its keys are those of the machine's own apt: the index is
checked against the signed release file, each package against the index.

The launcher's name is given to the interpreter as argv[0], so that sys.executable
is the launcher, the standard library is found next to it without PYTHONHOME, and
children (multiprocessing, subprocess) come back through the launcher. Only the
command line carries the library path; a child of another Python sees none of it.
"""

from __future__ import annotations

import argparse
import hashlib
import lzma
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

# Oldest first: the stable suite and testing change least from day to day. Experimental
# holds only what differs from sid, so its libraries come from there.
SUITES: tuple[tuple[str, ...], ...] = (
    ("trixie",),
    ("forky",),
    ("sid",),
    ("experimental", "sid"),
)
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
APT_HELPER = Path("/usr/lib/apt/apt-helper")
LAUNCHER = """\
#!/bin/sh
# Made by tools/debian_python.py: this Python, run through its own loader.
exec '{loader}' --library-path '{libraries}' --argv0 "$0" '{program}' "$@"
"""


class UnavailableError(Exception):
    """The version cannot be had here; the text is the sentence that says why."""


class Package(NamedTuple):
    """What the index says of one package."""

    name: str
    architecture: str
    depends: list[list[str]]  # each entry: the alternatives, best first
    filename: str
    sha256: str


Index = dict[str, Package]


class Mirror(NamedTuple):
    """Where the machine's own apt gets Debian from."""

    uri: str
    architecture: str


def output_of(*command: str) -> str:
    """Standard output of COMMAND, or the sentence that it failed."""
    try:
        done = subprocess.run(
            command,
            check=True,
            capture_output=True,
            text=True,
        )
    except FileNotFoundError as error:
        raise UnavailableError(f"{command[0]} is not on this machine") from error
    except subprocess.CalledProcessError as error:
        said = (error.stderr or "").strip().splitlines()
        reason = said[-1] if said else f"exit code {error.returncode}"
        raise UnavailableError(f"{Path(command[0]).name} failed: {reason}") from error
    return done.stdout


def find_mirror() -> Mirror:
    """The archive that the machine's own release comes from, as apt has it."""
    if not APT_HELPER.exists():
        raise UnavailableError("this is not a Debian machine: it has no apt")
    codename = ""
    for line in Path("/etc/os-release").read_text(encoding="utf-8").splitlines():
        if line.startswith("VERSION_CODENAME="):
            codename = line.split("=", 1)[1].strip('"')
    architecture = output_of("dpkg", "--print-architecture").strip()
    targets = output_of(
        "apt-get",
        "indextargets",
        "--format",
        "$(RELEASE) $(COMPONENT) $(REPO_URI)",
        "Created-By: Packages",
    )
    for line in targets.splitlines():
        release, component, uri = line.split(" ", 2)
        if (release, component) == (codename, "main"):
            return Mirror(uri.rstrip("/"), architecture)
    raise UnavailableError(
        f"apt has no source for Debian {codename or '(unnamed)'} main"
    )


def download(uri: str, target: Path, sha256: str | None) -> None:
    """Fetch URI as apt would and keep it only if its SHA-256 is the expected one."""
    output_of(str(APT_HELPER), "-q", "download-file", uri, str(target))
    if sha256 is None:
        return
    digest = hashlib.sha256()
    with target.open("rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    if digest.hexdigest() != sha256:
        target.unlink()
        raise UnavailableError(
            f"{target.name} does not have the checksum its index gives"
        )


def check_signature(release_file: Path) -> None:
    """A release file counts when one of Debian's keys on this machine signed it.

    Several keys sign it and an older machine does not know the newest, so gpgv's
    exit code, which wants all of them, is not the question.
    """
    try:
        done = subprocess.run(
            ["gpgv", "--status-fd", "1", "--keyring", str(KEYRING), str(release_file)],
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
    except FileNotFoundError:
        raise UnavailableError(
            "gpgv is missing, so the index cannot be checked"
        ) from None
    if "[GNUPG:] VALIDSIG " not in done.stdout:
        raise UnavailableError(f"no key in {KEYRING} signed {release_file.name}")


def listed_sha256(release_text: str, path: str) -> str:
    """The SHA-256 that a release file gives for PATH."""
    match = re.search(
        rf"^ ([0-9a-f]{{64}}) +\d+ {re.escape(path)}$", release_text, re.MULTILINE
    )
    if match is None:
        raise UnavailableError(f"the suite has no {path}")
    return match.group(1)


def parse_depends(text: str) -> list[list[str]]:
    """'a (>= 1), b:any | c' as [['a'], ['b', 'c']]: versions are the suite's own."""
    return [
        [
            re.split(r"[ (:\[]", option.strip(), maxsplit=1)[0]
            for option in group.split("|")
        ]
        for group in text.split(",")
        if group.strip()
    ]


def paragraphs(text: str) -> Iterator[dict[str, str]]:
    """The paragraphs of a Packages file; lines that continue a field are left out."""
    for paragraph in text.split("\n\n"):
        fields: dict[str, str] = {}
        for line in paragraph.splitlines():
            name, colon, value = line.partition(": ")
            if colon and not line.startswith(" "):
                fields[name] = value
        if "Package" in fields:
            yield fields


def read_index(mirror: Mirror, suite: str, work: Path) -> Index:
    """The packages of a suite's main component, each checked up to Debian's key."""
    release_file = work / f"{suite}-InRelease"
    index_file = work / f"{suite}-Packages.xz"
    path = f"main/binary-{mirror.architecture}/Packages.xz"
    download(f"{mirror.uri}/dists/{suite}/InRelease", release_file, None)
    check_signature(release_file)
    sha256 = listed_sha256(release_file.read_text(encoding="utf-8"), path)
    download(f"{mirror.uri}/dists/{suite}/{path}", index_file, sha256)
    index: Index = {}
    for fields in paragraphs(lzma.decompress(index_file.read_bytes()).decode("utf-8")):
        depends = ", ".join(
            fields[field] for field in ("Pre-Depends", "Depends") if field in fields
        )
        index[fields["Package"]] = Package(
            fields["Package"],
            fields["Architecture"],
            parse_depends(depends),
            fields["Filename"],
            fields["SHA256"],
        )
    return index


def find_suite(
    mirror: Mirror,
    wanted: str,
    work: Path,
    among: tuple[tuple[str, ...], ...] = SUITES,
) -> Index:
    """The index of the first suite that carries package WANTED."""
    loaded: dict[str, Index] = {}
    for suites in among:
        for suite in suites:
            if suite not in loaded:
                loaded[suite] = read_index(mirror, suite, work)
        if wanted in loaded[suites[0]]:
            index: Index = {}
            for suite in reversed(suites):
                index.update(loaded[suite])
            return index
    named = ", ".join(suites[0] for suites in among)
    raise UnavailableError(f"none of the suites {named} has {wanted}")


def holds_code(package: Package) -> bool:
    """Whether it is of use here: machine code, or modules of Python.

    Other packages for all architectures (time zones, MIME types, debconf) hold no
    library; the machine's own serve.
    """
    return package.architecture != "all" or package.name.startswith("python3-")


def closure(index: Index, wanted: str) -> list[Package]:
    """WANTED and all it needs that holds code."""
    chosen: dict[str, Package] = {}
    todo = [wanted]
    while todo:
        package = index[todo.pop()]
        if package.name in chosen or not holds_code(package):
            continue
        chosen[package.name] = package
        for options in package.depends:
            known = [option for option in options if option in index]
            if known:
                todo.append(known[0])
    return sorted(chosen.values())


def find_loader(root: Path, architecture: str) -> Path:
    """The dynamic loader that libc6 brought for ARCHITECTURE."""
    names = {"amd64": "ld-linux-x86-64.so.2", "arm64": "ld-linux-aarch64.so.1"}
    if architecture not in names:
        raise UnavailableError(f"the loader's name on {architecture} is not known here")
    for found in sorted(root.rglob(names[architecture])):
        if found.is_file() and not found.is_symlink():
            return found
    raise UnavailableError(f"the packages hold no {names[architecture]}")


def write_launcher(root: Path, final: Path, version: str, architecture: str) -> Path:
    """Put the launcher where the interpreter was, so that its prefix is right.

    ROOT is where the files are now, FINAL where they will be when it is run.
    """
    launcher = root / "usr/bin" / f"python{version}"
    program = launcher.with_name(f"python{version}.real")
    launcher.rename(program)
    loader = find_loader(root, architecture)
    libraries = [final / folder.relative_to(root) for folder in library_folders(root)]
    launcher.write_text(
        LAUNCHER.format(
            loader=final / loader.relative_to(root),
            libraries=":".join(str(folder) for folder in libraries),
            program=final / program.relative_to(root),
        ),
        encoding="utf-8",
    )
    launcher.chmod(launcher.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    return launcher


def library_folders(root: Path) -> list[Path]:
    """Where the loader would look for shared libraries, merged /usr or not."""
    folders = []
    for base in (root / "usr/lib", root / "lib"):
        folders += sorted(base.glob("*-linux-gnu"))
        if base.is_dir():
            folders.append(base)
    return folders


def unpack_packages(
    mirror: Mirror, packages: list[Package], work: Path, root: Path
) -> None:
    """The files of PACKAGES below ROOT; what is downloaded passes through WORK."""
    root.mkdir()
    for package in packages:
        deb = work / Path(package.filename).name
        download(f"{mirror.uri}/{package.filename}", deb, package.sha256)
        output_of("dpkg-deb", "-x", str(deb), str(root))
        deb.unlink()


def put_in_place(root: Path, folder: Path) -> None:
    """ROOT becomes FOLDER, in the place of what was there."""
    if folder.exists():
        shutil.rmtree(folder)
    root.rename(folder)
    folder.chmod(0o755)


def unpack(version: str, folder: Path) -> None:
    """Fill FOLDER with Python VERSION, whole or not at all."""
    mirror = find_mirror()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=str(folder.parent), prefix=".new-") as name:
        work = Path(name)
        index = find_suite(mirror, f"python{version}", work)
        root = work / "root"
        unpack_packages(mirror, closure(index, f"python{version}"), work, root)
        write_launcher(root, folder, version, mirror.architecture)
        put_in_place(root, folder)


def unpack_headers(version: str, folder: Path) -> None:
    """Put the C headers of Python VERSION into FOLDER, where unpack() left it."""
    mirror = find_mirror()
    wanted = f"libpython{version}-dev"
    with tempfile.TemporaryDirectory(dir=str(folder.parent), prefix=".new-") as name:
        work = Path(name)
        package = find_suite(mirror, wanted, work)[wanted]
        unpack_packages(mirror, [package], work, work / "root")
        shutil.copytree(
            work / "root/usr/include", folder / "usr/include", dirs_exist_ok=True
        )


def main() -> int:
    """Unpack the version asked for; on failure say why in one sentence."""
    parser = argparse.ArgumentParser(description="unpack a CPython from Debian")
    parser.add_argument("version", help="minor version, as 3.14")
    parser.add_argument("folder", type=Path, help="where its files will be")
    args = parser.parse_args()
    try:
        unpack(args.version, args.folder.resolve())
    except (UnavailableError, OSError) as error:
        print(f"debian_python.py: no Python {args.version}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
