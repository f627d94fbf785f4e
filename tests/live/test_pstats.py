"""What we print and write equals what Python's own pstats does, on files that cProfile
and profile saved with every Python at hand.

The judge is the pstats of the Python that runs the tests (3.11).
"""

from __future__ import annotations

import csv
import io
import itertools
import json
import marshal
import pstats
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pythons import interpreter, interpreters

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAM = ROOT / "tests" / "programs" / "busy.py"
VERSIONS = "3.8 3.9 3.10 3.11 3.12 3.13 3.14 3.15".split()

KEYS = [*pstats.Stats.sort_arg_dict_default, "file", "cu", "s", "-1", "0", "1", "2"]
SEVERAL_KEYS = [("calls", "name"), ("pcalls", "stdname"), ("file", "line", "time")]
RESTRICTIONS: list[tuple[int | float | str, ...]] = [
    (),
    (5,),
    (0,),
    (100000,),
    (0.1,),
    (0.25, 3),
    (1.0,),
    (0.0,),
    ("json",),
    (r"\(fib\)$", 1),
    ("{built-in", 0.5),
    (r"\d+\((?:fib|step|<lambda>)\)",),
    ("größe",),
    (r"[^\w]<.*>",),
    (20, "re", 3),
    ("no function is called so",),
]
PARTS = {
    "functions": "print_stats",
    "callers": "print_callers",
    "callees": "print_callees",
}


@pytest.fixture(scope="session", params=VERSIONS)
def profile(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """What cProfile saves with each Python, under a name that says nothing."""
    folder = tmp_path_factory.mktemp("pstats")
    path = folder / f"saved by {request.param}"
    python = interpreter(request.param)
    subprocess.run(
        [python, "-m", "cProfile", "-o", path, PROGRAM], check=True, cwd=folder
    )
    return path


def printed(
    path: Path, part: str, keys: tuple[str, ...], words: tuple, **how: bool
) -> str:
    """What pstats prints."""
    out = io.StringIO()
    stats = pstats.Stats(str(path), stream=out)
    if how.get("strip"):
        stats.strip_dirs()
    if keys:
        numbers = [int(k) for k in keys if re.fullmatch(r"-?\d", k)]
        stats.sort_stats(*(numbers or keys))
    if how.get("reverse"):
        stats.reverse_order()
    getattr(stats, PARTS[part])(*words)
    return out.getvalue()


def reported(
    lapwing: str,
    path: Path,
    part: str,
    keys: tuple[str, ...],
    words: tuple,
    **how: bool,
) -> str:
    """What we print for the same."""
    options = [f"--{name}" for name, on in how.items() if on]
    options += [f"--sort={key}" for key in keys]
    done = subprocess.run(
        [
            lapwing,
            "report",
            "--style=pstats",
            *options,
            path,
            part,
            "--",
            *map(str, words),
        ],
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


@pytest.mark.parametrize("part", PARTS)
def test_every_sort_key_and_restriction_prints_as_pstats_does(
    lapwing: str, profile: Path, part: str
) -> None:
    orders = [(), *((key,) for key in KEYS), *SEVERAL_KEYS]
    cases = itertools.chain(
        ((keys, (12,)) for keys in orders),
        ((("cumulative",), words) for words in RESTRICTIONS),
        (((), words) for words in RESTRICTIONS[:4]),
    )
    for keys, words in cases:
        ours = reported(lapwing, profile, part, keys, words)
        assert ours == printed(profile, part, keys, words), (keys, words)


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("strip", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_stripped_and_reversed_prints_as_pstats_does(
    lapwing: str, profile: Path, part: str, strip: bool, reverse: bool
) -> None:
    for keys in [(), ("time", "name"), ("stdname",)]:
        how = {"strip": strip, "reverse": reverse}
        ours = reported(lapwing, profile, part, keys, (), **how)
        assert ours == printed(profile, part, keys, (), **how), keys


def test_what_is_exported_is_equal_and_in_the_same_order(
    lapwing: str, profile: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy.prof"
    subprocess.run([lapwing, "export", profile, "-o", copy], check=True)
    theirs, ours = pstats.Stats(str(profile)).stats, pstats.Stats(str(copy)).stats
    assert ours == theirs
    assert list(ours) == list(theirs)
    assert [list(v[4]) for v in ours.values()] == [list(v[4]) for v in theirs.values()]


def test_every_python_reads_what_is_exported(
    lapwing: str, profile: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy.prof"
    subprocess.run([lapwing, "export", profile, "-o", copy], check=True)
    show = "import pstats, sys; print(len(pstats.Stats(sys.argv[1]).stats))"
    for version in VERSIONS:
        if version in interpreters():
            words = [interpreters()[version], "-c", show, copy]
            count = int(subprocess.check_output(words, text=True))
            assert count == len(pstats.Stats(str(copy)).stats)


def test_the_browser_of_pstats_opens_it(
    lapwing: str, profile: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy.prof"
    subprocess.run(
        [lapwing, "export", profile, "--to", "pstats", "-o", copy], check=True
    )
    done = subprocess.run(
        [sys.executable, "-m", "pstats", copy],
        input="sort time\nstats 3\n",
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "Ordered by: internal time" in done.stdout
    assert "Error" not in done.stdout


def test_snakeviz_opens_it(lapwing: str, profile: Path, tmp_path: Path) -> None:
    from snakeviz.stats import json_stats, table_rows

    copy = tmp_path / "copy.prof"
    subprocess.run([lapwing, "export", profile, "-o", copy], check=True)
    ours, theirs = pstats.Stats(str(copy)), pstats.Stats(str(profile))
    assert table_rows(ours) == table_rows(theirs)
    assert json_stats(ours) == json_stats(theirs)


# Code objects can only be loaded by the Python that saved them, so it is the judge.
JUDGE = """
import pstats, re, sys
saved, copy = sys.argv[1:3]
def name(key):
    return key[:2] + (re.sub(" at 0x[0-9a-f]+", "", str(key[2])),)
def named(path):
    return {name(key): row[:4] + ({name(k): v for k, v in row[4].items()},)
            for key, row in pstats.Stats(path).stats.items()}
assert named(saved) == named(copy)
for part, key, word in [line.split() for line in sys.stdin]:
    getattr(pstats.Stats(saved).sort_stats(key), part)(word)
"""


@pytest.mark.parametrize("version", VERSIONS)
def test_what_profile_saves_is_read_too(
    lapwing: str, version: str, tmp_path: Path
) -> None:
    """Its callers are plain counts, and it names the program by its code object."""
    python = interpreter(version)
    path, copy = tmp_path / "saved", tmp_path / "copy.prof"
    subprocess.run([python, "-m", "profile", "-o", path, PROGRAM], check=True)
    subprocess.run([lapwing, "export", path, "-o", copy], check=True)

    words = [("calls", r"busy\.py.*(fib|even|odd|step)"), ("line", "json/")]
    cases = [(part, *rest) for part in PARTS for rest in words]
    done = subprocess.run(
        [python, "-c", JUDGE, path, copy],
        input="".join(f"{PARTS[part]} {key} {word}\n" for part, key, word in cases),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    ours = [reported(lapwing, path, part, (key,), (word,)) for part, key, word in cases]
    assert "".join(ours) == done.stdout


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_every_version_of_marshal_is_read(
    lapwing: str, version: int, tmp_path: Path
) -> None:
    """Floats as text, long ints, no references, references to everything."""
    rng = random.Random(version)
    keys = [
        ("", 0, "profile.py's builtin"),
        ("~", 0, "<built-in method builtins.len>"),
        ("~", 0, "<"),
        ("~", 0, "plain"),
        ("~", 7, "a file called tilde"),
        ("a.py", 2**31, "far down"),
        ("größe/\u4e2d.py", 3, "größe"),
        ("x" * 300 + ".py", 4, "y" * 300),
    ]
    stats = {
        key: (
            rng.choice([0, 1, 2**31, 2**40]),
            rng.choice([0, 3, 2**59]),
            rng.choice([0, 0.1, 1e-300, -0.0, -1e-6, 12345.678]),
            rng.random(),
            {
                caller: (rng.randrange(9), rng.randrange(9), rng.random(), 7)
                for caller in rng.sample([*keys, ("only", 1, "a caller")], 3)
            },
        )
        for key in keys
    }
    path, copy = tmp_path / "made", tmp_path / "copy"
    path.write_bytes(marshal.dumps(stats, version))
    subprocess.run([lapwing, "export", path, "--to", "pstats", "-o", copy], check=True)
    assert pstats.Stats(str(copy)).stats == stats
    for part in PARTS:
        for keys_of, words in itertools.product([(), ("nfl",)], [(), ("built-in",)]):
            ours = reported(lapwing, path, part, keys_of, words)
            assert ours == printed(path, part, keys_of, words)


def test_python_2_is_read(lapwing: str, tmp_path: Path) -> None:
    if "2.7" not in interpreters():
        pytest.skip("no CPython 2.7 on this machine")
    script = tmp_path / "old.py"
    script.write_text("def f(n):\n    return n and f(n - 1)\nf(5)\nlen('x')\n")
    path = tmp_path / "old"
    words = [interpreters()["2.7"], "-m", "cProfile", "-o", path, script]
    subprocess.run(words, check=True)
    text = reported(lapwing, path, "functions", ("calls",), ("old.py",))
    assert re.search(r"^ +6/1 .*old\.py:1\(f\)$", text, re.M)


def test_standard_input_and_a_pipe_are_read(lapwing: str, profile: Path) -> None:
    words = [lapwing, "report", "-", "functions", "--csv"]
    named = subprocess.check_output([lapwing, "report", profile, "functions", "--csv"])
    with open(profile, "rb") as file:
        assert subprocess.check_output(words, stdin=file) == named
    assert subprocess.check_output(words, input=profile.read_bytes()) == named


def test_cut_at_any_byte_it_says_so_in_one_sentence(
    lapwing: str, profile: Path, tmp_path: Path
) -> None:
    whole = profile.read_bytes()
    cut = tmp_path / "cut.prof"
    for size in [1, 2, 3, 50, len(whole) // 2, len(whole) - 1]:
        cut.write_bytes(whole[:size])
        done = subprocess.run([lapwing, "report", cut], capture_output=True, text=True)
        assert done.returncode == 1
        assert done.stdout == ""
        sentence = rf"lapwing: {cut}: at byte \d+: .* cut short\n"
        assert re.fullmatch(sentence, done.stderr)


def test_a_run_exports_what_cprofile_counts(
    lapwing: str, python: str, tmp_path: Path
) -> None:
    """Calls, primitive calls and callers of the program's own functions.

    cProfile keeps one of two lambdas that print alike; they are left out.
    """
    saved, copy = tmp_path / "saved.prof", tmp_path / "copy.prof"
    recorded = tmp_path / "run.lap"
    record = [lapwing, "run", "--calls", "--c-calls", "-q", "-o", recorded]
    subprocess.run([python, "-m", "cProfile", "-o", saved, PROGRAM], check=True)
    subprocess.run([*record, "--", python, PROGRAM], check=True)
    subprocess.run([lapwing, "export", recorded, "-o", copy], check=True)

    def counts(path: Path) -> dict[str, object]:
        stats = pstats.Stats(str(path)).stats  # type: ignore[attr-defined]
        return {
            name: (row[:2], {k[2]: v[:2] for k, v in row[4].items() if k[0] == file})
            for (file, _, name), row in stats.items()
            if file == str(PROGRAM) and name != "<lambda>"
        }

    assert counts(copy) == counts(saved)


STORY = ROOT / "tests" / "golden" / "report" / "make_run.py"


def test_samples_are_exported_as_counts_that_other_tools_take_for_calls(
    lapwing: str, tmp_path: Path
) -> None:
    """pyprof2calltree writes "calls=0" of a pair with none, and callgrind_annotate then
    takes the callee's time for the caller's own: more than all there is."""
    from snakeviz.stats import json_stats, table_rows

    run, saved = tmp_path / "x.lap", tmp_path / "x.prof"
    subprocess.run([sys.executable, STORY, "samples", run], check=True)
    subprocess.run([lapwing, "export", run, "-o", saved], check=True)
    stats = pstats.Stats(str(saved)).stats  # type: ignore[attr-defined]
    mark, *functions = stats
    assert mark == ("~", 0, "(ncalls are samples: anywhere/on top)")
    assert stats.pop(mark) == (0, 0, 0.0, 0.0, {})
    for on_top, anywhere, _, _, callers in stats.values():
        assert 0 <= on_top <= anywhere >= 1
        assert all(pair[0] >= 1 for pair in callers.values())
    words = ["functions", "--csv", "--limit", "0"]
    report = [lapwing, "report", *words]
    of_run = subprocess.check_output([*report[:2], run, *words], text=True)
    # What we read back are samples again, and no calls.
    assert subprocess.check_output([*report[:2], saved, *words], text=True) == of_run
    counts = {name: row[:2] for (_, _, name), row in stats.items()}
    for row in csv.DictReader(io.StringIO(of_run)):
        shown = (int(row["self_samples"]), int(row["total_samples"]))
        assert counts[row["function"]] == shown
    assert len(table_rows(pstats.Stats(str(saved)))) == len(functions) + 1
    json_stats(pstats.Stats(str(saved)))


def test_weights_without_counts_are_exported_as_such(
    lapwing: str, tmp_path: Path
) -> None:
    folded, saved = tmp_path / "x.folded", tmp_path / "x.prof"
    folded.write_text("main;train;forward 30\nmain;load 5\n")
    subprocess.run([lapwing, "export", folded, "-o", saved], check=True)
    stats = pstats.Stats(str(saved)).stats  # type: ignore[attr-defined]
    mark = ("~", 0, "(ncalls are all 1: calls were not counted)")
    assert stats.pop(mark)
    assert {row[:2] for row in stats.values()} == {(1, 1)}
    words = ["functions", "--json"]
    again = json.loads(subprocess.check_output([lapwing, "report", saved, *words]))
    assert all("calls" not in row for row in again["rows"])
    assert len(again["rows"]) == 4


def test_what_the_sampler_of_python_saves_are_samples(
    lapwing: str, tmp_path: Path
) -> None:
    key, caller = ("a.py", 1, "leaf"), ("a.py", 5, "main")
    stats = {
        ("__sampled__",): True,
        caller: (2, 9, 0.2, 0.9, {}),
        key: (7, 7, 0.7, 0.7, {caller: 7}),
    }
    saved = tmp_path / "x.prof"
    saved.write_bytes(marshal.dumps(stats))
    words = [lapwing, "report", saved, "functions", "--json"]
    rows = json.loads(subprocess.check_output(words))["rows"]
    counts = {
        row["function"]: (row["self_samples"], row["total_samples"]) for row in rows
    }
    assert counts == {"leaf": (7, 7), "main": (2, 9)}
    assert all("calls" not in row for row in rows)
