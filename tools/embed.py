#!/usr/bin/env python3
"""A text file as a constant of C: embed.py FILE HEADER NAME >OUT.c

The build uses it, so that what is a file of another language can be read, checked and
changed as one, and the program still carries it.
"""

import json
import sys
from pathlib import Path


def main() -> None:
    file, header, name = sys.argv[1:]
    print(f'#include "{header}"\n\nconst char {name}[] =')
    for line in Path(file).read_text(encoding="utf-8").splitlines(keepends=True):
        quoted = "".join(
            f"\\{byte:03o}" if byte > 126 else chr(byte)
            for byte in json.dumps(line, ensure_ascii=False).encode()
        )
        print(f"    {quoted}")
    print("    ;")


if __name__ == "__main__":
    main()
