"""Greenlets: each keeps its own place in the tree, however they hand over."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from packages import environment
from pythons import ROOT
from recording import counts_in, run, view

PINNED = (ROOT / "tools" / "requirements-test.txt").read_text().split()


@cache
def installed_for(python: str) -> str:
    """A folder with greenlet and gevent for PYTHON, made once."""
    show = "import sysconfig; print(sysconfig.get_config_var('SOABI'))"
    tag = subprocess.check_output([python, "-c", show], text=True).strip()
    words = [word for word in PINNED if word.split("==")[0] in ("greenlet", "gevent")]
    folder = Path(sys.prefix) / "greenlets" / "-".join([tag, *words])
    if not (folder / "gevent").exists():
        version = subprocess.check_output(
            [python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
            text=True,
        ).strip()
        pip = [sys.executable, "-m", "pip", "install", "-qq", "--target", str(folder)]
        only = ["--only-binary", ":all:", "--python-version", version]
        subprocess.run([*pip, *only, *words], check=True)
    return str(folder)


def run_code(python: str, code: str, folder: Path) -> str:
    (folder / "prog.py").write_text(code)
    paths = environment()["PYTHONPATH"] + ":" + installed_for(python)
    done = subprocess.run(
        [python, "prog.py"],
        cwd=folder,
        env=environment(PYTHONPATH=paths),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# Two greenlets that begin and hand over to each other in the midst of calls.
ALTERNATE = """
def leaf_a(): pass
def leaf_b(): pass
def leaf_main(): pass
def swap(other):
    other.switch()
def deep_a(n):
    leaf_a()
    swap(b)
    if n: deep_a(n - 1)
    leaf_a()
def deep_b(n=9):
    leaf_b()
    swap(a)
    if n: deep_b(n - 1)
    leaf_b()
def start():
    global a, b
    from greenlet import greenlet
    a, b = greenlet(deep_a), greenlet(deep_b)
    a.switch(9)
    leaf_main()
"""
SHOW = """
import lapwing, sys
p = lapwing.Profile(builtins={builtins})
def program():
    {work}
    leaf_main()
p.runcall(program)
p.create_stats()
for (file, line, name), (cc, nc, _, _, callers) in sorted(p.stats.items()):
    if "prog.py" in file:
        print(name, nc, cc, sorted((k[2], v[0]) for k, v in callers.items()))
"""


@pytest.mark.parametrize("builtins", [True, False])
@pytest.mark.parametrize("imported", ["before", "meanwhile"])
def test_each_greenlet_has_a_tree_of_its_own(
    python: str, builtins: bool, imported: str, tmp_path: Path
) -> None:
    before = "import greenlet\n" if imported == "before" else ""
    code = before + ALTERNATE + SHOW.format(work="start()", builtins=builtins)
    assert sorted(run_code(python, code, tmp_path).splitlines()) == [
        "deep_a 10 1 [('deep_a', 9)]",
        "deep_b 10 1 [('deep_b', 9)]",
        "leaf_a 20 20 [('deep_a', 20)]",
        "leaf_b 10 10 [('deep_b', 10)]",  # the other ends first, and this one waits
        "leaf_main 2 2 [('program', 1), ('start', 1)]",
        "program 1 1 []",
        "start 1 1 [('program', 1)]",
        "swap 20 20 [('deep_a', 10), ('deep_b', 10)]",
    ]


KILL = """
import greenlet, gc
def leaf(): pass
def wait():
    try: greenlet.getcurrent().parent.switch()
    finally: leaf()
def start():
    greenlet.greenlet(wait).switch()
    leaf()
    gc.collect()
def throw():
    g = greenlet.greenlet(wait)
    g.switch()
    try: g.throw(ValueError)
    except ValueError: leaf()
"""


def test_a_greenlet_that_is_dropped_or_thrown_at_unwinds_in_its_own_place(
    python: str, tmp_path: Path
) -> None:
    work = "start(); throw()\n    def leaf_main(): pass"
    code = KILL + SHOW.format(work=work, builtins=False)
    assert sorted(run_code(python, code, tmp_path).splitlines()) == [
        "leaf 4 4 [('start', 1), ('throw', 1), ('wait', 2)]",
        "leaf_main 1 1 [('program', 1)]",
        "program 1 1 []",
        "start 1 1 [('program', 1)]",
        "throw 1 1 [('program', 1)]",
        "wait 2 2 []",
    ]


GEVENT = """
import gevent, gevent.pool, gevent.queue
def leaf(): pass
def produce(queue, n):
    for i in range(n):
        leaf(); queue.put(i); gevent.sleep(0)
def consume(queue, n):
    for i in range(n):
        queue.get(); other()
def other(): pass
def main():
    q = gevent.queue.Queue(3)
    jobs = [gevent.spawn(f, q, 50) for _ in range(4) for f in (produce, consume)]
    gevent.joinall(jobs)
main()
"""


@pytest.mark.parametrize("calls", ["--calls", "--c-calls", "--calls=timeline"])
def test_gevent_is_recorded_with_nothing_out_of_place(
    lapwing: str, python: str, calls: str, tmp_path: Path
) -> None:
    (tmp_path / "prog.py").write_text(GEVENT)
    found = environment(PYTHONPATH=installed_for(python))
    done = run(lapwing, [calls, "--", python, "prog.py"], tmp_path, env=found)
    assert done.returncode == 0, done.stderr
    counts = counts_in(lapwing, tmp_path, "prog.py")
    assert counts["leaf"] == counts["other"] == (200, 200)
    assert counts["produce"] == counts["consume"] == (4, 4)
    callers = view(lapwing, tmp_path, "callers")["rows"]
    leaf = [row for row in callers if "leaf" in str(row.values())]
    assert leaf and all("consume" not in str(row.values()) for row in leaf)
    assert "returns without a call" not in str(view(lapwing, tmp_path, "functions"))


def test_greenlets_functions_look_as_they_did_and_are_put_back(
    python: str, tmp_path: Path
) -> None:
    code = (
        "import greenlet, lapwing, pickle, ctypes\n"
        "g = greenlet.greenlet\n"
        "def meth(n):\n"
        "    at = ctypes.c_void_p.from_address(id(g.__dict__[n]) + 40).value\n"
        "    return ctypes.c_void_p.from_address(at + 8).value\n"
        "def look():\n"
        "    return [(type(f), repr(f), f.__doc__, f.__qualname__, f.__objclass__)\n"
        "            for f in (g.switch, g.throw)]\n"
        "was, where = look(), [meth('switch'), meth('throw')]\n"
        "with lapwing.Profile():\n"
        "    assert look() == was\n"
        "    assert [meth('switch'), meth('throw')] != where\n"
        "assert [meth('switch'), meth('throw')] == where\n"
    )
    run_code(python, code, tmp_path)
