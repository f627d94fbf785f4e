"""Says in JSON how the world looks to it, so that two runs can be compared.

    mirror.py [WORDS...]

With WORD "stdin" it also reads its standard input; with "exit N" it ends with code N.
"""

from __future__ import annotations

import json
import os
import signal
import sys


def world() -> dict[str, object]:
    main = sys.modules["__main__"]
    keep = {"_", "SHLVL", "PWD", "OLDPWD", "COLUMNS", "LINES"}
    return {
        "argv": sys.argv,
        "orig_argv": sys.orig_argv,
        "path": sys.path,
        "flags": str(sys.flags),
        "executable": sys.executable,
        "main": sorted(vars(main)),
        "main_file": main.__file__,
        "main_name": main.__name__,
        "environ": {k: v for k, v in os.environ.items() if k not in keep},
        "cwd": os.getcwd(),
        "fds": sorted(int(fd) for fd in os.listdir("/proc/self/fd"))[:-1],
        "group_is_parents": os.getpgrp() == os.getpgid(os.getppid()),
        "signals": {
            s.name: str(signal.getsignal(s))
            for s in sorted(signal.valid_signals())
            if isinstance(s, signal.Signals)
        },
        "mask": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
        "is_tty": [os.isatty(fd) for fd in (0, 1, 2)],
        "modules": sorted(m for m in sys.modules if "lapwing" in m.lower()),
        "has_sitecustomize": "sitecustomize" in sys.modules,
    }


def main() -> None:
    words = sys.argv[1:]
    print(json.dumps(world()))
    if "stdin" in words:
        print("read", sys.stdin.read())
    print("to stderr", file=sys.stderr)
    if "exit" in words:
        sys.exit(int(words[words.index("exit") + 1]))


if __name__ == "__main__":
    main()
