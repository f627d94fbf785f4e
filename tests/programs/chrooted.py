"""A child changes its root and forks; its parent forks after that."""

import os
import sys


def child(work):
    pid = os.fork()
    if pid == 0:
        work()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0


def elsewhere():
    os.chroot(sys.argv[1])
    os.chdir("/")
    child(lambda: None)


child(elsewhere)
for _ in range(3):
    child(lambda: None)
