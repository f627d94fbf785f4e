"""The line table of every code object in some source files, and what this Python makes
of it: one JSON object a line.

    python line_tables.py FILE...

`format` is enum lw_line_format; `positions` has a row [offset, line, end line, column,
end column] wherever an instruction's position differs from the one before it, -1 for
what is not known. Runs on 3.9 and later.
"""

from __future__ import annotations

import bisect
import dis
import json
import sys
import tokenize
import types
import warnings
from collections.abc import Iterator


def code_objects(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from code_objects(constant)


def positions(code: types.CodeType) -> Iterator[tuple[int | None, ...]]:
    """For each code unit: line, end line, column, end column."""
    units = range(0, len(code.co_code), 2)
    if sys.version_info >= (3, 11):
        yield from code.co_positions()
    elif sys.version_info >= (3, 10):
        lines: dict[int, int | None] = {}
        for start, end, line in code.co_lines():
            lines.update(dict.fromkeys(range(start, end, 2), line))
        yield from ((lines[at], lines[at], None, None) for at in units)
    else:
        starts = list(dis.findlinestarts(code))
        offsets = [start for start, _ in starts]
        for at in units:
            line = starts[bisect.bisect_right(offsets, at) - 1][1]
            yield line, line, None, None


def table_format() -> int:
    return min(sys.version_info[1] - 9, 2)


def rows(code: types.CodeType) -> Iterator[list[int]]:
    last: list[int] = []
    for unit, position in enumerate(positions(code)):
        row = [-1 if part is None else part for part in position]
        if row[0] < 0:
            row = [-1] * 4
        if row != last:
            yield [2 * unit, *row]
        last = row


def main() -> None:
    warnings.simplefilter("ignore")  # SyntaxWarning, of what is compiled
    for path in sys.argv[1:]:
        with tokenize.open(path) as file:
            source = file.read()
        for code in code_objects(compile(source, path, "exec", dont_inherit=True)):
            modern = sys.version_info >= (3, 10)
            table = code.co_linetable if modern else code.co_lnotab
            shown = {
                "name": code.co_name,
                "format": table_format(),
                "first_line": code.co_firstlineno,
                "code_bytes": len(code.co_code),
                "table": table.hex(),
                "positions": list(rows(code)),
            }
            print(json.dumps(shown))


if __name__ == "__main__":
    main()
