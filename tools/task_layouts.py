#!/usr/bin/env python3
"""Make src/sampler/tasks.def: where the fields of an asyncio task lie.

    task_layouts.py [--check]

No header says it, so every Python that tools/pythons.sh finds is asked: it makes tasks
and looks for the addresses of their names, coroutines and so on in the memory of the
tasks themselves. Rows of Pythons that are not here stay as they are.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "src/sampler/tasks.def"
FIRST_MINOR = 9

HEAD = """\
/* Where the fields of an asyncio task (`_asyncio.Task`) lie, by minor version; asked of
 * the Pythons themselves by tools/task_layouts.py, not to be edited.
 *
 * LW_TASKS(name, ...): a row holds from its micro version up to that of the next row of
 * its minor version, the first one also below. LW_NO_FIELD: it has none. */
"""

# Runs in the Python that is asked. A field is the one place in the task where the
# address of what it holds is found; `node` is the link to the task made after it.
PROBE = """\
import asyncio, ctypes, sys

def words(task):
    size = type(task).__basicsize__
    return list((ctypes.c_uint64 * (size // 8)).from_address(id(task)))

def place(task, address):
    found = [i * 8 for i, word in enumerate(words(task)) if word == address]
    assert len(found) == 1, (hex(address), found)
    return found[0]

async def sleep():
    await asyncio.sleep(1000)

async def await_(other):
    await other

async def main():
    first = asyncio.create_task(sleep(), name="the name of a task")
    second = asyncio.create_task(sleep())
    waiting = asyncio.create_task(await_(first))
    await asyncio.sleep(0.01)
    fields = {
        "name": place(first, id(first.get_name())),
        "coro": place(first, id(first.get_coro())),
        "waiter": place(waiting, id(first)),
    }
    if sys.version_info >= (3, 14):
        fields["awaited_by"] = place(first, id(waiting))
        places = enumerate(words(first))
        (fields["node"],) = (i * 8 for i, word in places if word == id(second) + i * 8)
    print(*sys.version_info[1:3])
    for name, offset in fields.items():
        print(name, offset)
    for task in (waiting, first, second):
        task.cancel()

asyncio.run(main())
"""

Row = tuple[int, int, str]  # minor, micro, the fields as text


def ask(program: str) -> Row:
    """The row of one Python."""
    printed = subprocess.run(
        [program, "-c", PROBE], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    minor, micro = map(int, printed[0].split())
    found = dict(line.split() for line in printed[1:])
    fields = ", ".join(
        f".{name} = {found.get(name, 'LW_NO_FIELD')}"
        for name in ("name", "coro", "waiter", "awaited_by", "node")
    )
    return minor, micro, fields


def read_table() -> list[Row]:
    if not TABLE.exists():
        return []
    rows = re.findall(
        r"LW_TASKS\(cp3(\d+)_(\d+), (.*)\n\s+(.*)\)", TABLE.read_text("utf-8")
    )
    return [(int(minor), int(micro), fields) for minor, micro, _, fields in rows]


def main() -> int:
    """Survey, then write or compare."""
    rows = read_table()
    listed = subprocess.run(
        [ROOT / "tools/pythons.sh", "--all", "--local"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    for line in listed.splitlines():
        version, program = line.split(" ", 1)
        if version.startswith("2.") or int(version.split(".")[1]) < FIRST_MINOR:
            continue
        row = ask(program)
        below = [old for old in sorted(rows) if old[0] == row[0] and old[1] <= row[1]]
        if not below or below[-1][2] != row[2]:
            rows = [old for old in rows if old[:2] != row[:2]]
            rows.append(row)
    text = HEAD + "".join(
        f"\nLW_TASKS(cp3{minor:02}_{micro:02}, .minor = {minor}, .micro = {micro},\n"
        f"         {fields})\n"
        for minor, micro, fields in sorted(rows)
    )
    if text == (TABLE.read_text("utf-8") if TABLE.exists() else ""):
        return 0
    if "--check" in sys.argv[1:]:
        print(
            f"{TABLE.relative_to(ROOT)} is not what the Pythons here say; "
            "run python3 tools/task_layouts.py and read the difference",
            file=sys.stderr,
        )
        return 1
    TABLE.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
