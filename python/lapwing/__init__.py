"""Lapwing: where every step of a training run spends its time and memory.

In a program::

    import lapwing

    with lapwing.Profile() as profile:   # as cProfile.Profile
        train()
    profile.print_stats("cumulative")

    with lapwing.record("warm-up"):      # a run of its own, or a range in one
        train()

    for batch in loader:
        with lapwing.phase("augment"):   # a part of a step
            batch = augment(batch)
        lapwing.counter("loss", train_step(batch))
        lapwing.step()                   # one step ends, the next begins

From a shell: ``lapwing run train.py``, ``python -m lapwing train.py``.
"""

from lapwing._main import main
from lapwing._marks import counter, get_include, mark, phase, step
from lapwing._profile import Profile, label, run, runctx
from lapwing._record import is_recording, record

__all__ = [
    "Profile",
    "counter",
    "get_include",
    "is_recording",
    "label",
    "main",
    "mark",
    "phase",
    "record",
    "run",
    "runctx",
    "step",
]
__version__ = "0.1.0"
