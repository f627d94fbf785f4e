"""Each format that we write is opened by a real reader of that format, and that reader
finds the numbers that our own report prints.

Here: flamegraph.pl (Debian has it in libdevel-nytprof-perl), `go tool pprof`,
callgrind_annotate and pstats; what Python reads (json, csv) Python judges. Those of the
browser are in test_export_browser.py, timelines in test_export_timeline.py.
"""

from __future__ import annotations

import csv
import html
import io
import json
import pstats
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from exports import by_name, export, functions
from recording import PROGRAMS

FLAMEGRAPH = Path("/usr/share/perl5/Devel/NYTProf/flamegraph.pl")


# Stacks


def test_collapsed_stacks_add_up_to_the_functions_own_times(
    lapwing: str, story: Path
) -> None:
    sums: Counter[str] = Counter()
    for line in export(lapwing, story, "collapsed").read_text().splitlines():
        stack, _, weight = line.rpartition(" ")
        leaf = stack.split(";")[-1]
        sums[re.sub(r" \([^()]*\)$", "", leaf)] += int(weight)
    wanted = by_name(functions(lapwing, story), "self_ns")
    assert sums == Counter({k.replace(";", ","): v for k, v in wanted.items()})


def test_flamegraph_pl_draws_every_stack_as_wide_as_it_is(
    lapwing: str, story: Path
) -> None:
    path = export(lapwing, story, "collapsed")
    words = ["--minwidth=0", "--countname=ns"]
    svg = subprocess.run(
        ["perl", FLAMEGRAPH, *words, path], capture_output=True, text=True, check=True
    )
    assert not svg.stderr
    found: Counter[str] = Counter()
    widths: dict[str, tuple[int, float]] = {}
    box = r"<title>(.*) \(([\d,]+) ns, [\d.]+%\)</title><rect x=.* width=\"([\d.]+)\""
    for name, number, width in re.findall(box, svg.stdout):
        name, ns = html.unescape(name), int(number.replace(",", ""))
        found[name] += ns
        widths[name] = (ns, float(width))
    wanted: Counter[str] = Counter()
    text = path.read_text().translate(str.maketrans("<>", "()"))  # as it does
    for line in text.splitlines():
        stack, _, weight = line.rpartition(" ")
        for frame in stack.split(";"):
            wanted[frame] += int(weight)
        wanted["all"] += int(weight)
    assert found == wanted
    ns_all, width_all = widths["all"]
    for ns, width in widths.values():
        assert width == pytest.approx(ns / ns_all * width_all, abs=0.11)


# Graphs


def annotated(path: Path, inclusive: str) -> Counter[str]:
    """What callgrind_annotate prints of each "file:function"."""
    words = ["--threshold=100", "--auto=no", f"--inclusive={inclusive}"]
    printed = subprocess.check_output(
        ["callgrind_annotate", *words, path], text=True, cwd=path.parent
    )
    sums: Counter[str] = Counter()
    for number, text in re.findall(r"^ *([\d,]+) \([^)]*\)  (.*)$", printed, re.M):
        text = re.sub(r":\d+$", "", text.removesuffix(" []"))
        sums[text] += int(number.replace(",", ""))
    return sums


def test_callgrind_annotate_prints_the_same_times(lapwing: str, story: Path) -> None:
    path = export(lapwing, story, "callgrind", "callgrind.out.1")
    document = json.loads(export(lapwing, story, "json", "out.json").read_text())
    own: Counter[str] = Counter()
    whole: Counter[str] = Counter()
    for row in document["functions"]:
        key = f"{row['file'] or '~'}:{row['name']}"
        own[key] += row["self_ns"]
        whole[key] += row["total_ns"]
    found = annotated(path, "no")
    del found["PROGRAM TOTALS"]
    assert +found == +own
    found = annotated(path, "yes")
    if not any(row["caller"] == row["callee"] for row in document["callers"]):
        for key, ns in whole.items():  # of recursions it adds up every turn
            assert found[key] == ns, key


def pprof(path: Path, index: str) -> tuple[Counter[str], Counter[str]]:
    """The columns flat and cum of `go tool pprof -top`."""
    words = ["go", "tool", "pprof", "-top", "-nodecount=1000000", "-nodefraction=0"]
    printed = subprocess.check_output(
        [*words, "-edgefraction=0", "-unit=ns", f"-sample_index={index}", path],
        text=True,
        stderr=subprocess.PIPE,
    )
    flat: Counter[str] = Counter()
    cum: Counter[str] = Counter()
    for own, total, name in re.findall(
        r"^ *(-?\d+)(?:ns)? +\S+ +\S+ +(-?\d+)(?:ns)? +\S+  (.*)$", printed, re.M
    ):
        flat[name.removesuffix(" (inline)")] += int(own)
        cum[name.removesuffix(" (inline)")] += int(total)
    return +flat, +cum


def test_go_tool_pprof_prints_the_same_times_and_calls(
    lapwing: str, story: Path
) -> None:
    path = export(lapwing, story, "pprof", "out.pb.gz")
    rows = functions(lapwing, story)
    flat, cum = pprof(path, "time")
    assert flat == by_name(rows, "self_ns")
    names = Counter(row["function"] for row in rows)
    total = by_name(rows, "total_ns")
    for name, count in names.items():  # it takes functions of one name for one
        if count == 1:
            assert cum[name] == total[name], name
    if "calls" in rows[0]:
        assert pprof(path, "calls")[0] == by_name(rows, "calls")


def test_go_tool_pprof_reads_every_sample(lapwing: str, story: Path) -> None:
    path = export(lapwing, story, "pprof", "out.pb.gz")
    words = ["go", "tool", "pprof", "-raw", path]
    printed = subprocess.check_output(words, text=True, stderr=subprocess.PIPE)
    head, _, rest = printed.partition("Samples:\n")
    (columns, *lines) = rest.partition("Locations\n")[0].splitlines()
    at = [word.partition("/")[0] for word in columns.split()].index("time")
    sums = [
        int(line.partition(":")[0].split()[at])
        for line in lines
        if re.match(r" *-?\d+ +-?\d+:|^ *-?\d+:", line)
    ]
    wanted = sum(row["self_ns"] for row in functions(lapwing, story))
    assert sum(sums) == wanted


def test_go_tool_pprof_tells_threads_apart(lapwing: str, story: Path) -> None:
    path = export(lapwing, story, "pprof", "out.pb.gz")
    words = ["go", "tool", "pprof", "-tags", path]
    printed = subprocess.check_output(words, text=True, stderr=subprocess.PIPE)
    document = json.loads(export(lapwing, story, "json").read_text())
    used = {row["thread"] for row in document["tree"]}
    for number in used:
        assert document["threads"][number]["name"] in printed


def test_pstats_holds_every_function(lapwing: str, story: Path) -> None:
    rows = functions(lapwing, story)
    stats = pstats.Stats(str(export(lapwing, story, "pstats", "out.prof")))
    found = Counter(
        (name, calls, primitive, round(own * 1e9), round(total * 1e9))
        for (_, _, name), (primitive, calls, own, total, _) in stats.stats.items()  # type: ignore[attr-defined]
        if not name.startswith("(ncalls are samples")
    )
    assert found == Counter(
        (
            row["function"],
            row.get("calls") or row.get("total_samples") or 0,
            row.get("primitive_calls") or row.get("self_samples") or 0,
            row["self_ns"],
            row["total_ns"],
        )
        for row in rows
    )


# Tables


def test_json_holds_what_the_report_says(lapwing: str, story: Path) -> None:
    document = json.loads(export(lapwing, story, "json").read_text())
    rows = [row | {"function": row["name"]} for row in document["functions"]]
    wanted = functions(lapwing, story)
    for column in ("calls", "self_ns", "total_ns"):
        assert by_name(rows, column) == by_name(wanted, column)
    tree = [
        row | {"function": rows[row["function"]]["name"]} for row in document["tree"]
    ]
    assert by_name(tree, "self_ns") == by_name(wanted, "self_ns")
    children: Counter[int] = Counter()
    for row in tree:
        if row["parent"] is not None:
            assert tree[row["parent"]]["thread"] == row["thread"]
            children[row["parent"]] += row["total_ns"]
    for number, row in enumerate(tree):
        assert row["total_ns"] == row["self_ns"] + children[number]


def test_csv_and_markdown_hold_every_function(lapwing: str, story: Path) -> None:
    text = export(lapwing, story, "csv").read_text()
    rows = list(csv.DictReader(io.StringIO(text)))
    wanted = functions(lapwing, story)
    assert Counter(
        (row["function"], int(row["self_ns"]), int(row["total_ns"])) for row in rows
    ) == Counter((r["function"], r["self_ns"], r["total_ns"]) for r in wanted)
    table = export(lapwing, story, "markdown").read_text()
    assert sum(line.startswith("|") for line in table.splitlines()) == len(rows) + 2


def test_run_and_report_write_what_the_suffix_says(
    lapwing: str, tmp_path: Path
) -> None:
    words = [lapwing, "run", "--no-summary", "--calls", "-o", "x.svg"]
    subprocess.run(
        [*words, PROGRAMS / "threads.py"], cwd=tmp_path, check=True, capture_output=True
    )
    assert (tmp_path / "x.svg").read_text().startswith("<svg")
    for name, start in [("y.svg", "<svg"), ("y.pb.gz", "\x1f"), ("y.csv", "what,")]:
        subprocess.run([lapwing, "report", "-o", name], cwd=tmp_path, check=True)
        assert (tmp_path / name).read_bytes().startswith(start.encode())
