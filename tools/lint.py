#!/usr/bin/env python3
"""What a compiler does not check: layers, banned calls, formats, types, warnings.

Each check yields problems as "path:line: sentence". The rules are those of STYLE,
"Tooling and habits"; the layers those of DESIGN, section 1.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import results  # noqa: E402

MAX_LINES = 900

# What a folder under src/ may include besides itself.
BELOW_MODEL = {"base", "model", "lap"}
COLLECT = BELOW_MODEL | {"readers", "writers", "analyses", "ledger", "sampler"}
LAYERS: dict[str, set[str]] = {
    "base": set(),
    "model": {"base"},
    "lap": {"base", "model"},
    "readers": BELOW_MODEL,
    "writers": BELOW_MODEL,
    "analyses": BELOW_MODEL,
    "ledger": BELOW_MODEL,
    "sampler": BELOW_MODEL,
    "recorder": BELOW_MODEL | {"sampler"},
    "agent": set(),
    "tui": COLLECT | {"recorder"},
    "http": COLLECT | {"recorder"},
    "cmd": COLLECT | {"recorder", "tui", "http"},
}
# The one header that both sides of the rings know.
SHARED_HEADERS = {"agent/layout.h": {"recorder", "cmd"}}

# Headers that are not libc's, and the only places they may be included.
LIBRARY_HEADERS = {
    "Python.h": ("python/",),
    "isa-l/igzip_lib.h": ("src/base/",),
    "histedit.h": ("src/cmd/",),
    "zlib.h": ("src/base/",),
    "zstd.h": ("src/lap/", "src/base/", "src/readers/", "src/writers/"),
}

# (calls, where they are allowed, what to do instead)
BANNED: list[tuple[str, tuple[str, ...], str]] = [
    (
        "strcpy strcat sprintf vsprintf gets atoi atol strtok system popen",
        (),
        "see STYLE: it cannot be used safely",
    ),
    (
        "malloc calloc realloc free strdup strndup asprintf",
        ("src/base/", "src/agent/", "python/_lapwing/"),
        "memory comes from base/alloc.h",
    ),
    (
        "printf vprintf puts putchar perror exit",
        ("src/cmd/",),
        "only src/cmd prints and exits",
    ),
]


def files(*folders: str, suffixes: tuple[str, ...]) -> list[Path]:
    paths = (p for folder in folders for p in (ROOT / folder).rglob("*"))
    return sorted(p for p in paths if p.suffix in suffixes and p.is_file())


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def c_files() -> list[Path]:
    return files("src", "python", "tests", "fuzz", suffixes=(".c", ".h"))


def without_comments(text: str, keep_strings: bool = False) -> str:
    """The same lines with comments, and unless kept text in quotes, blanked."""

    def blank(match: re.Match[str]) -> str:
        if keep_strings and match[0][0] in "\"'":
            return match[0]
        return "\n" * match[0].count("\n")

    token = r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
    return re.sub(token, blank, text, flags=re.DOTALL)


def code_lines(path: Path, keep_strings: bool = False) -> Iterator[tuple[int, str]]:
    text = without_comments(path.read_text(), keep_strings)
    return enumerate(text.splitlines(), 1)


def layers() -> Iterator[str]:
    for path in c_files():
        where = name(path)
        for n, line in code_lines(path, keep_strings=True):
            match = re.match(r'\s*#\s*include\s*(["<])([^">]+)[">]', line)
            if match and (problem := bad_include(where, match[1], match[2])):
                yield f"{where}:{n}: {problem}"


def bad_include(where: str, quote: str, header: str) -> str:
    folder, _, rest = where.partition("/")
    if quote == "<":
        allowed = LIBRARY_HEADERS.get(header)
        if allowed and not where.startswith((*allowed, "tests/", "fuzz/")):
            return f"<{header}> may only be included under {', '.join(allowed)}"
        return ""
    if folder == "python":
        ours = header.startswith("agent/") or "/" not in header
        return "" if ours else f'python may include the agent only, not "{header}"'
    if folder != "src":
        return ""
    layer, target = rest.split("/")[0], header.split("/")[0]
    if layer not in LAYERS:
        return f"src/{layer} is not in the table of layers of tools/lint.py"
    if "/" not in header or not (ROOT / "src" / header).exists():
        return f'write the path from src/: "{layer}/{header}"'
    if target == layer or target in LAYERS[layer]:
        return ""
    if layer in SHARED_HEADERS.get(header, ()):
        return ""
    return f'{layer} may not include "{header}" (DESIGN, section 1)'


def banned_calls() -> Iterator[str]:
    for path in files("src", "python", suffixes=(".c", ".h")):
        where = name(path)
        rules = [r for r in BANNED if not where.startswith(r[1] or ("-",))]
        for n, line in code_lines(path):
            for calls, _, instead in rules:
                pattern = rf"(?<![\w.>])({calls.replace(' ', '|')})\s*\("
                if match := re.search(pattern, line):
                    yield f"{where}:{n}: {match[1]}(): {instead}"


def version_tests() -> Iterator[str]:
    for path in files("src", "python", suffixes=(".c", ".h")):
        where = name(path)
        if where == "python/_lapwing/compat.h":
            continue
        for n, line in code_lines(path):
            if "PY_VERSION_HEX" in line:
                yield f"{where}:{n}: only python/_lapwing/compat.h tests the version"


def file_length() -> Iterator[str]:
    folders = ("src", "python", "tests", "fuzz", "tools", "bench", "examples")
    for path in files(*folders, suffixes=(".c", ".h", ".py", ".sh", ".def")):
        lines = path.read_text().count("\n")
        if lines > MAX_LINES:
            yield f"{name(path)}:{lines}: longer than {MAX_LINES} lines; split it"


def def_rows_sorted() -> Iterator[str]:
    for path in files("src", "python", suffixes=(".def",)):
        previous: tuple[str, str] = ("", "")
        for n, line in code_lines(path, keep_strings=True):
            if match := re.match(r"(\w+)\(([^,)]+)", line):
                row = (match[1], match[2])
                if row[0] == previous[0] and row[1] <= previous[1]:
                    yield f"{name(path)}:{n}: {row[1]} must not follow {previous[1]}"
                previous = row


def todos() -> Iterator[str]:
    """A thing to do later is an issue; the comment names it."""
    folders = ("src", "python", "tests", "fuzz", "tools", "bench", "examples")
    for path in files(*folders, suffixes=(".c", ".h", ".py", ".sh")):
        for n, line in enumerate(path.read_text().splitlines(), 1):
            if re.search(r"\b(TODO|FIXME)\b(?!.*#\d)", line) and path != Path(__file__):
                yield f"{name(path)}:{n}: a thing to do without an issue number"


def output_of(words: list[str | Path]) -> Iterator[str]:
    process = subprocess.run(words, cwd=ROOT, text=True, capture_output=True)
    if process.returncode:
        output = (process.stdout + process.stderr).strip()
        yield output or f"{words[0]} ended with {process.returncode}"


def tool(program: str) -> Path:
    """A program of the virtualenv that runs us."""
    return Path(sys.executable).parent / program


def clang_format() -> Iterator[str]:
    yield from output_of(["clang-format", "--dry-run", "-Werror", *c_files()])


def python_folders() -> list[str | Path]:
    folders = ("python", "tests", "tools", "bench", "examples")
    return [folder for folder in folders if (ROOT / folder).exists()]


def ruff() -> Iterator[str]:
    yield from output_of([tool("ruff"), "check", "-q", *python_folders()])
    yield from output_of([tool("ruff"), "format", "-q", "--diff", *python_folders()])


def mypy() -> Iterator[str]:
    cache = f"--cache-dir={ROOT / 'build' / 'mypy'}"
    yield from output_of([tool("mypy"), "--strict", cache, "python/lapwing"])


def shell_scripts() -> list[str | Path]:
    listed = subprocess.check_output(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        text=True,
    )
    scripts: list[str | Path] = []
    for path in filter(None, listed.split("\0")):
        if (ROOT / path).is_file():
            with open(ROOT / path, "rb") as file:
                if re.match(rb"#!\s*\S*[/ ](ba)?sh\b", file.readline(100)):
                    scripts.append(path)
    return scripts


def shellcheck() -> Iterator[str]:
    yield from output_of(["shellcheck", *shell_scripts()])


def warnings() -> Iterator[str]:
    """Everything compiles with warnings as errors; `make lint` configures this."""
    yield from output_of([tool("ninja"), "-C", "build/werror", "--quiet"])


CHECKS: list[Callable[[], Iterator[str]]] = [
    layers,
    banned_calls,
    version_tests,
    file_length,
    def_rows_sorted,
    todos,
    clang_format,
    ruff,
    mypy,
    shellcheck,
    warnings,
]


def main() -> int:
    parser = argparse.ArgumentParser(description="Check the rules of STYLE and DESIGN.")
    names = [check.__name__ for check in CHECKS]
    parser.add_argument("checks", nargs="*", metavar="CHECK", help=", ".join(names))
    parser.add_argument("--suite", help="write build/results/SUITE.json")
    args = parser.parse_args()
    if unknown := set(args.checks) - set(names):
        parser.error(f"no check called {unknown.pop()}")

    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    found = []
    for check in CHECKS:
        if args.checks and check.__name__ not in args.checks:
            continue
        start = time.monotonic()
        text = "\n".join(check())
        if text:
            print(f"-- {check.__name__}\n{text}")
        outcome = "failed" if text else "passed"
        seconds = time.monotonic() - start
        found.append(results.Result(f"lint/{check.__name__}", outcome, text, seconds))
    if args.suite:
        results.write(args.suite, found)
    failed = sum(r.outcome == "failed" for r in found)
    print(f"{len(found)} checks, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
