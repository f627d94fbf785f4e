"""patched.py: prints, as JSON, all by which a program could see that somebody has
changed its interpreter. With and without a profiler it must print the same.
"""

from __future__ import annotations

import _imp
import _posixsubprocess
import atexit
import copy
import gc
import hashlib
import importlib.util
import inspect
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
from multiprocessing.pool import ThreadPool
from typing import Any

STARTERS: dict[str, Any] = {
    "system": os.system,
    "execv": os.execv,
    "execve": os.execve,
    "posix_spawn": os.posix_spawn,
    "posix_spawnp": os.posix_spawnp,
    "fork_exec": _posixsubprocess.fork_exec,
    "release_lock": _imp.release_lock,
    "acquire_lock": _imp.acquire_lock,
}


def outcome(function: Any, *words: Any) -> str:
    """What it returns or raises, without addresses."""
    try:
        return repr(function(*words))
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def looks(thing: Any) -> dict[str, Any]:
    return {
        "type": repr(type(thing)),
        "repr": repr(thing),
        "name": (thing.__name__, thing.__qualname__, thing.__module__),
        "self": repr(thing.__self__).split(" from ")[0],
        "doc": hashlib.sha256((thing.__doc__ or "").encode()).hexdigest(),
        "signature": outcome(inspect.signature, thing),
        "pickle": outcome(pickle.dumps, thing),
        "same after pickle": outcome(
            lambda: pickle.loads(pickle.dumps(thing)) is thing
        ),
        "deepcopy": copy.deepcopy(thing) is thing,
        "attributes": [n for n in dir(thing)],
        "hashable": thing in {thing},
    }


def failures() -> list[str]:
    """What they say of wrong arguments."""
    words: list[tuple[Any, ...]] = [
        (),
        (1,),
        ("/nowhere", [], 5),
        ("/nowhere", ["x"], {1: 2}),
    ]
    said = [outcome(f, *w) for f in (os.execve, os.posix_spawn) for w in words]
    said += [outcome(os.execv, *w) for w in words]
    said += [outcome(lambda: os.execve("/nowhere", ["x"], env={"A": "b"}))]
    said += [outcome(lambda: os.system())]  # type: ignore[call-arg]
    return said


def environments() -> dict[str, Any]:
    env = "/usr/bin/env"
    show = "import os; print(sorted(os.environ))"
    python = [sys.executable, "-c", show]

    def ask(command: list[str], **more: Any) -> str:
        done = subprocess.run(command, capture_output=True, text=True, **more)
        return done.stdout + done.stderr

    return {
        "none": ask([env], env={}),
        "some": ask([env], env={"A": "b"}),
        "python, none": ask(python, env={}),
        "python, ours": ask(python, env=dict(os.environ)),
        "python": ask(python),
    }


def world() -> dict[str, Any]:
    return {
        "starters": {name: looks(thing) for name, thing in STARTERS.items()},
        "same": [
            os.system is sys.modules["posix"].system,
            getattr(subprocess, "_fork_exec", None)
            in (None, _posixsubprocess.fork_exec),
        ],
        "pool": ThreadPool(1).map(os.system, ["exit 3", "true"]),
        "failures": failures(),
        "environments": environments(),
        "meta_path": [repr(f).split(" at 0x")[0] for f in sys.meta_path],
        "path_hooks": len(sys.path_hooks),
        "importer_cache": [p for p in sys.path_importer_cache if "_inject" in p],
        "modules": sorted(sys.modules),
        "spec": repr(importlib.util.find_spec("_lapwing")),
        "path": sys.path,
        "environ": sorted(os.environ.items()),
        "fds": sorted(os.listdir("/proc/self/fd"))[:-1],
        "threads": [len(threading.enumerate()), len(os.listdir("/proc/self/task"))],
        "handlers": [
            repr(signal.getsignal(n)) for n in range(1, 65) if n not in (32, 33)
        ],
        "atexit": atexit._ncallbacks(),
        "hooks": [repr(sys.gettrace()), repr(sys.getprofile())],
        "gc": [gc.get_threshold(), gc.isenabled(), repr(gc.callbacks)],
        "import hooks": [repr(__import__), repr(sys.excepthook), repr(sys.displayhook)],
    }


if __name__ == "__main__":
    shown = world()
    shown["environ"] = [pair for pair in shown["environ"] if pair[0] != "_"]
    print(json.dumps(shown, indent=1, default=repr))
