"""lapwing.Profile among threads, other profilers and many of its own kind."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_api import WORK, run_code

COUNT = """
def count(p, name="leaf"):
    p.create_stats()
    return [v[1] for k, v in p.stats.items() if k[2] == name]
"""


def test_a_profile_stopped_by_another_thread_counts_when_started_again(
    python: str, tmp_path: Path
) -> None:
    code = (
        WORK
        + COUNT
        + """
import threading
for builtins in True, False:
    p = lapwing.Profile(builtins=builtins)
    def use(n):
        p.enable(); work(n)
    use(3)
    t = threading.Thread(target=p.disable); t.start(); t.join()
    work(1000)
    use(4); p.disable()
    print(count(p))
"""
    )
    assert run_code(python, code, tmp_path) == "[7]\n[7]\n"


@pytest.mark.parametrize("other", ["sys.setprofile(lambda *_: None)", "c.enable()"])
def test_calls_are_counted_where_another_profile_function_is_set(
    python: str, other: str, tmp_path: Path
) -> None:
    code = (
        WORK
        + COUNT
        + f"""
import cProfile, sys, warnings
warnings.simplefilter("always")
c = cProfile.Profile()
{other}
p = lapwing.Profile()
p.enable(); work(5); p.disable()
sys.setprofile(None); c.disable()
with warnings.catch_warnings(record=True) as said:
    print(count(p))
hook = not hasattr(sys, "monitoring")
assert [str(w.message) for w in said] == hook * [
    "the program had a profile function of its own: "
    "builtins were not counted meanwhile"
], said
"""
    )
    assert run_code(python, code, tmp_path) == "[5]\n"


@pytest.mark.parametrize("builtins", [True, False])
def test_a_thread_that_ran_before_is_counted(
    python: str, builtins: bool, tmp_path: Path
) -> None:
    code = (
        WORK
        + COUNT
        + f"""
import queue, threading
orders, answers = queue.SimpleQueue(), queue.SimpleQueue()
def wait():
    while (n := orders.get()) is not None:
        work(n); answers.put(n)
t = threading.Thread(target=wait); t.start()
orders.put(100); answers.get()
p = lapwing.Profile(builtins={builtins})
p.enable()
orders.put(7); answers.get()
p.disable()
orders.put(None); t.join()
print(count(p))
if {builtins}:
    p.snapshot_stats()
    print([v[1] for k, v in p.stats.items() if "'put' of '_queue" in k[2]])
"""
    )
    # One call of put here, and one there.
    expected = "[7]\n[2]\n" if builtins else "[7]\n"
    assert run_code(python, code, tmp_path) == expected


def test_a_profiled_function_may_recurse_as_deep_as_it_likes(
    python: str, tmp_path: Path
) -> None:
    code = (
        WORK
        + COUNT
        + """
made = []
def profiled(function):
    def wrapper(*args):
        made.append(p := lapwing.Profile(builtins=False))
        return p.runcall(function, *args)
    return wrapper
@profiled
def down(n):
    leaf()
    return down(n - 1) if n > 1 else 0
down(100)
print([count(p)[0] for p in made] == list(range(100, 0, -1)))
"""
    )
    assert run_code(python, code, tmp_path) == "True\n"


REQUESTS = """
from concurrent.futures import ThreadPoolExecutor
import threading
together = threading.Barrier(20)
def request(n):
    p = lapwing.Profile({threads}, builtins={builtins})
    together.wait()
    with p:
        together.wait(); work(n); together.wait()
    together.wait()
    return count(p)[0]
with ThreadPoolExecutor(20) as pool:
    print(sorted(pool.map(request, range(1, 21))))
"""


@pytest.mark.parametrize("builtins", [True, False])
def test_each_of_many_concurrent_requests_sees_its_own_thread(
    python: str, builtins: bool, tmp_path: Path
) -> None:
    code = WORK + COUNT + REQUESTS
    own = code.format(threads='threads="this"', builtins=builtins)
    assert run_code(python, own, tmp_path) == f"{list(range(1, 21))}\n"
    every = code.format(threads='threads="all"', builtins=builtins)
    assert run_code(python, every, tmp_path) == f"{[210] * 20}\n"


SERVER = """
import socketserver, threading, urllib.request, wsgiref.simple_server as simple
from concurrent.futures import ThreadPoolExecutor
def app(environ, start_response):
    p = lapwing.Profile(threads="this")
    with p:
        work(int(environ["PATH_INFO"][1:]))
    start_response("200 OK", [])
    return [repr(count(p)).encode()]
class Server(socketserver.ThreadingMixIn, simple.WSGIServer): pass
class Quiet(simple.WSGIRequestHandler):
    def log_message(self, *_): pass
server = simple.make_server("127.0.0.1", 0, app, Server, Quiet)
threading.Thread(target=server.serve_forever).start()
def ask(n):
    url = f"http://127.0.0.1:{server.server_port}/{n}"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    return opener.open(url, timeout=60).read().decode()
with ThreadPoolExecutor(8) as pool:
    print(list(pool.map(ask, range(1, 41))) == [f"[{n}]" for n in range(1, 41)])
server.shutdown()
"""


def test_requests_of_a_web_server_do_not_mix(python: str, tmp_path: Path) -> None:
    assert run_code(python, WORK + COUNT + SERVER, tmp_path) == "True\n"


def test_only_all_and_this_are_known_threads(python: str, tmp_path: Path) -> None:
    code = (
        "import lapwing\n"
        "try: lapwing.Profile(threads='some')\n"
        "except ValueError as error: print(error)\n"
    )
    assert run_code(python, code, tmp_path) == "threads must be 'all' or 'this'\n"


def test_a_clock_that_lets_other_threads_run_hides_none_of_their_calls(
    python: str, tmp_path: Path
) -> None:
    code = (
        WORK
        + COUNT
        + """
import threading, time
def clock():
    time.sleep(0)
    return time.perf_counter()
p = lapwing.Profile(clock, builtins=False)
with p:
    ts = [threading.Thread(target=work, args=(300,)) for _ in range(4)]
    [t.start() for t in ts]; [t.join() for t in ts]
print(count(p), count(p, "clock"))
"""
    )
    assert run_code(python, code, tmp_path) == "[1200] []\n"


def test_a_profile_may_go_while_its_clock_runs(python: str, tmp_path: Path) -> None:
    code = (
        WORK
        + """
import threading, time
def clock():
    time.sleep(0)
    return time.perf_counter()
stop = False
def keep_calling():
    while not stop: leaf()
ts = [threading.Thread(target=keep_calling) for _ in range(3)]
[t.start() for t in ts]
for _ in range(200):
    p = lapwing.Profile(clock, builtins=False)
    p.enable(); time.sleep(0); p.disable()
    del p
stop = True
[t.join() for t in ts]
"""
    )
    assert run_code(python, code, tmp_path) == ""
