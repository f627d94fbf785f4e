"""several.py LOOP...: these loops one after the other, in one process."""

from __future__ import annotations

import importlib
import json
import sys

from stopwatch import measure

if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(json.dumps(measure(name, importlib.import_module(name).run)), flush=True)
