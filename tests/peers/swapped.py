"""Run one of CPython's own test modules with lapwing where cProfile and profile were.

    python swapped.py bare|lapwing test.test_cprofile

Prints what became of each test as JSON: {"CProfileTest.test_run": "ok", ...}; of one
that failed, the last line of what it says. Runs on any Python, with lapwing in reach.
"""

import json
import os
import sys
import types
import unittest

NAMES = ("cProfile", "profile")


def swap():
    import lapwing

    for name in NAMES:
        sys.modules[name] = lapwing
    core = types.ModuleType("_lsprof")
    core.Profiler = lapwing.Profile
    sys.modules["_lsprof"] = core

    # What the tests start: the same, and with lapwing in reach (no -I, no -E).
    from test.support import script_helper

    start = script_helper.run_python_until_end

    def start_swapped(*words, **variables):
        words = ["lapwing" if word in NAMES else word for word in words]
        return start(*words, **variables)

    script_helper.run_python_until_end = start_swapped
    script_helper.interpreter_requires_environment = lambda: True


class Outcomes(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.outcomes = {}

    def note(self, test, outcome):
        name = ".".join(test.id().split(".")[-2:])
        if self.outcomes.get(name, "ok") == "ok":  # a failed subtest stays
            self.outcomes[name] = outcome

    def note_failure(self, test, error):
        last = self._exc_info_to_string(error, test).strip().splitlines()[-1]
        self.note(test, "failed: " + last)

    def addSuccess(self, test):
        self.note(test, "ok")

    def addSkip(self, test, reason):
        self.note(test, "ok")

    def addFailure(self, test, error):
        self.note_failure(test, error)

    addError = addFailure

    def addSubTest(self, test, subtest, error):
        if error:
            self.note_failure(test, error)


def main():
    how, module = sys.argv[1:]
    sys.argv[1:] = []
    if how == "lapwing":
        swap()
    result = Outcomes()
    saved = os.dup(1)
    os.dup2(2, 1)  # what the tests print
    unittest.defaultTestLoader.loadTestsFromName(module).run(result)
    sys.stdout.flush()
    os.dup2(saved, 1)
    print(json.dumps(result.outcomes))


main()
