"""Several threads that call functions a known number of times, all at once.

    threads.py [THREADS] [CALLS]

Besides plain workers: threads started by threads, a thread pool, a timer, and a daemon
that is still waiting when the program ends. Each worker checks its own arithmetic, so
a profiler that disturbs the program is seen.
"""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

from known import say


def leaf(x: int) -> int:
    return x + 1


def branch(x: int, depth: int) -> int:
    """Recursion in every thread: primitive calls are counted for each of them."""
    return leaf(x) if depth == 0 else branch(x, depth - 1)


def worker(calls: int, barrier: threading.Barrier, results: list[int]) -> None:
    barrier.wait()
    total = 0
    for i in range(calls):
        total += leaf(i)
    total += branch(0, 9)
    results.append(total)


def nested_worker(calls: int, barrier: threading.Barrier, results: list[int]) -> None:
    child = threading.Thread(target=worker, args=(calls, barrier, results))
    child.start()
    worker(calls, barrier, results)
    child.join()


def pool_task(calls: int) -> int:
    return sum(leaf(i) for i in range(calls))


def tick(done: threading.Event) -> None:
    done.set()


def wait_for_ever() -> None:
    threading.Event().wait()


def main() -> None:
    threads = int(sys.argv[1]) if len(sys.argv) > 1 else 4
    calls = int(sys.argv[2]) if len(sys.argv) > 2 else 20_000
    tasks = 10

    barrier = threading.Barrier(2 * threads)
    results: list[int] = []
    nested = [
        threading.Thread(target=nested_worker, args=(calls, barrier, results))
        for _ in range(threads)
    ]
    for thread in nested:
        thread.start()
    for thread in nested:
        thread.join()
    assert results == [calls * (calls + 1) // 2 + 1] * 2 * threads

    with ThreadPoolExecutor(max_workers=2) as pool:
        sums = list(pool.map(pool_task, [calls] * tasks))
        pool_threads = len(pool._threads)
    assert sums == [calls * (calls + 1) // 2] * tasks

    done = threading.Event()
    threading.Timer(0.01, tick, args=(done,)).start()
    assert done.wait(60)
    threading.Thread(target=wait_for_ever, daemon=True).start()

    workers = 2 * threads
    say(
        {
            "leaf": workers * (calls + 1) + tasks * calls,
            "branch": (workers * 10, workers),
            "worker": workers,
            "nested_worker": threads,
            "pool_task": tasks,
            "<genexpr>": tasks * (calls + 1),
            "tick": 1,
            "wait_for_ever": 1,
            "main": 1,
        },
        threads=1 + workers + pool_threads + 2,
    )


if __name__ == "__main__":
    main()
