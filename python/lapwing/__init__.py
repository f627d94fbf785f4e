"""Lapwing: where every step of a training run spends its time and memory.

In a program::

    import lapwing

    with lapwing.Profile() as profile:   # as cProfile.Profile
        train()
    profile.print_stats("cumulative")

    with lapwing.record("warm-up"):      # a run of its own, or a range in one
        train()

From a shell: ``lapwing run train.py``, ``python -m lapwing train.py``.
"""

from lapwing._profile import Profile, run, runctx
from lapwing._record import is_recording, record

__all__ = ["Profile", "is_recording", "record", "run", "runctx"]
__version__ = "0.1.0"
