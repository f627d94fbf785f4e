"""What lapwing.Profile gives of its counts: what cProfile gives, at its price."""

from __future__ import annotations

from pathlib import Path

from test_api import run_code

GETSTATS = """
import cProfile, lapwing, types
def leaf(): pass
def work(n):
    leaf()
    len("")
    if n: work(n - 1)
def look(kind):
    p = kind()
    p.enable(); work(3); p.disable()
    found = {}
    for e in p.getstats():
        if e.code in (work.__code__, leaf.__code__) or "builtins.len" in str(e.code):
            found[e.code] = e.callcount, e.reccallcount, sorted(
                (str(c.code), c.callcount, c.reccallcount) for c in e.calls or ())
            assert e.totaltime >= e.inlinetime >= 0
    return found
ours, theirs = look(lapwing.Profile), look(cProfile.Profile)
assert ours == theirs and len(ours) == 3, (ours, theirs)

p = lapwing.Profile()
with p:
    exec("def gone(): pass\\ngone()", {})
codes = [e.code for e in p.getstats() if getattr(e.code, "co_name", "") == "gone"]
print([(type(c) is types.CodeType, c.co_filename, c.co_firstlineno) for c in codes])
"""


def test_getstats_has_the_code_objects_that_cprofile_has(
    python: str, tmp_path: Path
) -> None:
    assert run_code(python, GETSTATS, tmp_path) == "[(True, '<string>', 1)]\n"


LARGE = """
import lapwing, resource
def make(i):
    exec(f"def f{i}(n):\\n  if n: a(n - 1); b(n - 1)\\n", globals())
make(0); make(1)
a, b = f0, f1
p = lapwing.Profile(builtins=False)
with p: a(17)
def most(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
before = most()
p.create_stats()
print(p.stats["<string>", 1, "f0"][1] + p.stats["<string>", 1, "f1"][1])
assert most() - before < 40, most() - before
"""


def test_stats_of_many_paths_take_little_memory(python: str, tmp_path: Path) -> None:
    """262,143 calls, each on a path of its own, took 88 MB."""
    assert run_code(python, LARGE, tmp_path) == "262143\n"
