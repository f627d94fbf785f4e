"""layouts.def says where each Python here really has its fields."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from pythons import ROOT, SAMPLED, interpreter

sys.path.insert(0, str(ROOT / "tools"))
import layouts  # noqa: E402

ASK = """
import sys, sysconfig
print(sys.version_info[1], sys.version_info[2],
      int(bool(sysconfig.get_config_var("Py_GIL_DISABLED"))))
"""


@pytest.mark.parametrize("version", SAMPLED)
def test_the_fields_are_where_the_table_has_them(version: str) -> None:
    python = interpreter(version)
    asked = subprocess.check_output([python, "-c", ASK], text=True).split()
    names = ("minor", "micro", "is_free_threaded")
    like = dict(zip(names, map(int, asked), strict=True))
    rows = layouts.read_table()
    row = layouts.find_row(rows, "LW_LAYOUT", like)
    told = layouts.find_row(rows, "LW_OFFSETS", {**like, "is_free_threaded": 0})
    assert row is not None, f"layouts.def has no row for {version}"
    given = {"layout": row.numbers, "told": told.numbers if told else {}}
    program = Path(__file__).parents[1] / "programs" / "layout_truth.py"
    printed = subprocess.check_output(
        [python, program, json.dumps(given)], text=True, timeout=60
    )
    wrong = printed.splitlines()
    counted = wrong.pop().split()
    assert wrong == []
    assert counted[1] == "compared" and int(counted[0]) > 50
