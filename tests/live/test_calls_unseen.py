"""What a program can see of `--calls`: nothing, in what it does and what it prints."""

from __future__ import annotations

import subprocess
from pathlib import Path

from recording import counts_in, run


def bare_and_recorded(lapwing: str, python: str, code: str, folder: Path) -> list[str]:
    """What CODE prints without us and with us; both must end well."""
    script = folder / "prog.py"
    script.write_text(code)
    bare = subprocess.run([python, script], capture_output=True, text=True, timeout=60)
    assert bare.returncode == 0, bare.stderr
    done = run(lapwing, ["--", python, str(script)], folder)
    assert done.returncode == 0, done.stderr
    return [bare.stdout, done.stdout]


CODE_EXTRA = """
import ctypes, sys
free_type = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
freed = []
free = free_type(freed.append)
new = sys.version_info >= (3, 12)
name = "PyUnstable_Eval_RequestCodeExtraIndex" if new else "_PyEval_RequestCodeExtraIndex"
request = getattr(ctypes.pythonapi, name)
request.argtypes, request.restype = (free_type,), ctypes.c_ssize_t
request(free)
for i in range(300):
    exec("def leaf(): pass\\nleaf()", {})
print(freed)
"""


def test_the_programs_own_code_extras_are_freed_and_no_others(
    lapwing: str, python: str, tmp_path: Path
) -> None:
    bare, ours = bare_and_recorded(lapwing, python, CODE_EXTRA, tmp_path)
    assert bare == ours == "[]\n"
    view_of_leaf = counts_in(lapwing, tmp_path, "<string>")["leaf"]
    assert view_of_leaf == (300, 300)
