"""Each format that we write is opened by a real reader of that format, and that reader
finds the numbers that our own report prints.

The readers: speedscope in Chromium (its own files, collapsed stacks and trace events),
`go tool pprof`, callgrind_annotate, Perfetto's own messages, and Chromium itself
for the flame graph. What Python reads (json, csv) Python judges.
"""

from __future__ import annotations

import base64
import collections
import csv
import io
import json
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright
from recording import PROGRAMS

ROOT = Path(__file__).resolve().parents[2]
SPEEDSCOPE = (
    ROOT / ".venv" / "node" / "node_modules" / "speedscope" / "dist" / "release"
)
STORIES = ["train", "samples", "timeline", "threads", "spans"]


@pytest.fixture(scope="session", params=STORIES)
def story(
    request: pytest.FixtureRequest,
    lapwing: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """A folder with x.lap: made ones, and real ones with and without a timeline."""
    folder = tmp_path_factory.mktemp(request.param)
    options = {"threads": ["--calls"], "spans": ["--calls=timeline"]}
    if request.param in options:
        words = ["run", "--no-summary", *options[request.param], "-o", "x.lap"]
        subprocess.run(
            [lapwing, *words, PROGRAMS / "threads.py", "3", "50"],
            cwd=folder,
            check=True,
            capture_output=True,
        )
    else:
        make = ROOT / "tests" / "golden" / "report" / "make_run.py"
        subprocess.run(["python3", make, request.param, folder / "x.lap"], check=True)
    return folder


def export(lapwing: str, folder: Path, form: str, name: str = "out") -> Path:
    path = folder / name
    words = [lapwing, "export", folder / "x.lap", "--to", form, "-o", path]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return path


def functions(lapwing: str, folder: Path) -> list[dict[str, Any]]:
    words = [lapwing, "report", folder / "x.lap", "functions", "--json"]
    rows: list[dict[str, Any]] = json.loads(subprocess.check_output(words))["rows"]
    return rows


def by_name(rows: list[dict[str, Any]], column: str) -> Counter[str]:
    """Sums of a column by the bare names of functions; those of zero are left out."""
    sums: Counter[str] = Counter()
    for row in rows:
        sums[row["function"]] += row.get(column) or 0
    return +sums


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page that may not use the network, and fails the test by its own errors."""
    context = browser.new_context(viewport={"width": 1000, "height": 600})
    errors: list[str] = []
    page = context.new_page()
    page.on("pageerror", lambda error: errors.append(str(error)))
    context.route(
        re.compile("^https?:"), lambda route: errors.append(route.request.url)
    )
    yield page
    context.close()
    assert not errors


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


def opened_by_speedscope(page: Page, path: Path, folder: Path) -> dict[str, str]:
    """The functions and their own times that speedscope's table shows of a file.

    It is opened as `speedscope FILE` opens one: by a script beside it.
    """
    script = folder / f"{path.name}.js"
    content = base64.b64encode(path.read_bytes()).decode()
    script.write_text(
        f"speedscope.loadFileFromBase64({json.dumps(path.name)}, '{content}')"
    )
    page.goto(f"file://{SPEEDSCOPE}/index.html#localProfilePath={script}")
    page.wait_for_selector("canvas")
    page.keyboard.press("3")  # "Sandwich": the only view that is no canvas
    page.wait_for_selector("tr:has(td:nth-child(3))", state="attached")
    found = {}
    for row in page.locator("table tr").all():
        cells = row.locator("td").all_inner_texts()
        if len(cells) == 3:
            found[cells[2].strip()] = cells[1].split("(")[0].strip()
    return found


@pytest.mark.parametrize("form", ["speedscope", "collapsed", "chrome"])
def test_speedscope_opens_it(
    lapwing: str, story: Path, form: str, page: Page, tmp_path: Path
) -> None:
    name = {"speedscope": "x.speedscope.json", "collapsed": "x.txt", "chrome": "x.json"}
    found = opened_by_speedscope(
        page, export(lapwing, story, form, name[form]), tmp_path
    )
    assert found
    known = {row["function"].replace(";", ",") for row in functions(lapwing, story)}
    bare = (re.sub(r" \([^()]*\)$| \{.*$", "", text) for text in found)
    shown = {name.replace(";", ",") for name in bare}
    assert shown & known


def test_a_speedscope_file_follows_its_schema_and_adds_up(
    lapwing: str, story: Path
) -> None:
    import jsonschema

    document = json.loads(export(lapwing, story, "speedscope").read_text())
    (schema,) = SPEEDSCOPE.glob("file-format-schema*.json")
    jsonschema.validate(document, json.loads(schema.read_text()))
    frames = [frame["name"] for frame in document["shared"]["frames"]]
    sums: Counter[str] = Counter()
    for profile in document["profiles"]:
        if profile["type"] == "sampled":
            for stack, weight in zip(
                profile["samples"], profile["weights"], strict=True
            ):
                sums[frames[stack[-1]]] += weight
        else:
            sums.update(own_times(profile["events"], frames))
    wanted = by_name(functions(lapwing, story), "self_ns")
    if all(profile["type"] == "sampled" for profile in document["profiles"]):
        assert +sums == wanted
    else:  # calls that are open when the recording ends are no spans
        assert set(sums) & set(wanted)


def own_times(events: list[dict[str, Any]], frames: list[str]) -> Counter[str]:
    """Of an evented profile, which must open and close in order."""
    sums: Counter[str] = Counter()
    open_: list[int] = []
    last = 0
    for event in events:
        assert event["at"] >= last
        if open_:
            sums[frames[open_[-1]]] += event["at"] - last
        last = event["at"]
        if event["type"] == "O":
            open_.append(event["frame"])
        else:
            assert open_.pop() == event["frame"]
    assert not open_
    return sums


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


def pprof(path: Path, index: str) -> Counter[str]:
    """The flat column of `go tool pprof -top`."""
    words = ["go", "tool", "pprof", "-top", "-nodecount=1000000", "-nodefraction=0"]
    printed = subprocess.check_output(
        [*words, "-edgefraction=0", "-unit=ns", f"-sample_index={index}", path],
        text=True,
        stderr=subprocess.PIPE,
    )
    sums: Counter[str] = Counter()
    for flat, name in re.findall(
        r"^ *(-?\d+)(?:ns)? +\S+ +\S+ +\S+ +\S+  (.*)$", printed, re.M
    ):
        sums[name.removesuffix(" (inline)")] += int(flat)
    return +sums


def test_go_tool_pprof_prints_the_same_times_and_calls(
    lapwing: str, story: Path
) -> None:
    path = export(lapwing, story, "pprof", "out.pb.gz")
    rows = functions(lapwing, story)
    assert pprof(path, "time") == by_name(rows, "self_ns")
    if "calls" in rows[0]:
        assert pprof(path, "calls") == by_name(rows, "calls")


def test_go_tool_pprof_tells_threads_apart(lapwing: str, story: Path) -> None:
    path = export(lapwing, story, "pprof", "out.pb.gz")
    words = ["go", "tool", "pprof", "-tags", path]
    printed = subprocess.check_output(words, text=True, stderr=subprocess.PIPE)
    document = json.loads(export(lapwing, story, "json").read_text())
    used = {row["thread"] for row in document["tree"]}
    for number in used:
        assert document["threads"][number]["name"] in printed


# Timelines


def test_trace_events_keep_every_span_and_nest(lapwing: str, story: Path) -> None:
    trace = json.loads(export(lapwing, story, "chrome").read_text(), parse_float=str)
    document = json.loads(export(lapwing, story, "json", "out.json").read_text())

    def ns(text: str) -> int:
        whole, _, part = text.partition(".")
        return int(whole) * 1000 + int(part)

    tracks = collections.defaultdict(list)
    laid_out = set()
    for event in trace["traceEvents"]:
        track = (event["pid"], event.get("tid"))
        if event["ph"] == "X":
            tracks[track].append((ns(event["ts"]), ns(event["dur"])))
        elif event["ph"] == "M" and "not in order" in event["args"]["name"]:
            laid_out.add(track)
    spans = [
        s for track, list_ in tracks.items() if track not in laid_out for s in list_
    ]
    origin = int(trace["otherData"]["origin_ns"])
    assert sorted((start + origin, length) for start, length in spans) == sorted(
        (span["start_ns"], span["duration_ns"]) for span in document["spans"]
    )
    for events in tracks.values():
        assert_nested(sorted(events, key=lambda s: (s[0], -s[1])))
    counters = [e for e in trace["traceEvents"] if e["ph"] == "C"]
    assert len(counters) == len(document["counters"])


def assert_nested(spans: list[tuple[int, int]]) -> None:
    ends: list[int] = []
    for start, length in spans:
        while ends and ends[-1] <= start:
            ends.pop()
        assert not ends or start + length <= ends[-1]
        ends.append(start + length)


def test_perfettos_own_messages_hold_every_span(lapwing: str, story: Path) -> None:
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent

    trace = Trace()
    trace.ParseFromString(export(lapwing, story, "perfetto").read_bytes())
    document = json.loads(export(lapwing, story, "json", "out.json").read_text())
    names: dict[int, str] = {}
    laid_out = set()
    open_: dict[int, list[tuple[int, str]]] = collections.defaultdict(list)
    spans = []
    for packet in trace.packet:
        for row in packet.interned_data.event_names:
            names[row.iid] = row.name
        if "not in order" in packet.track_descriptor.name:
            laid_out.add(packet.track_descriptor.uuid)
        event = packet.track_event
        if event.type == TrackEvent.TYPE_SLICE_BEGIN:
            open_[event.track_uuid].append((packet.timestamp, names[event.name_iid]))
        elif event.type == TrackEvent.TYPE_SLICE_END:
            start, name = open_[event.track_uuid].pop()
            if event.track_uuid not in laid_out:
                spans.append((start, packet.timestamp - start, name))
    assert not any(open_.values())

    def name_of(span: dict[str, Any]) -> str:
        mark: str | None = span.get("mark")
        return mark or document["functions"][span["function"]]["name"]

    assert sorted(spans) == sorted(
        (span["start_ns"], span["duration_ns"], name_of(span))
        for span in document["spans"]
    )
    values = [
        p.track_event.double_counter_value
        for p in trace.packet
        if p.track_event.type == TrackEvent.TYPE_COUNTER
    ]
    assert values == [row["value"] for row in document["counters"]]


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
    assert table.count("\n") == len(rows) + 2


# The flame graph


def boxes(page: Page) -> dict[str, float]:
    """The boxes that are drawn: their names and widths, the widest of a name."""
    widths: dict[str, float] = {}
    for box in page.locator("#boxes .box").all():
        name = (box.locator("title").text_content() or "").split(" · ")[0]
        width = float(box.locator("rect").get_attribute("width") or 0)
        widths[name] = max(width, widths.get(name, 0))
    return widths


def test_the_flame_graph_zooms_searches_and_obeys_keys(
    lapwing: str, story: Path, page: Page
) -> None:
    path = export(lapwing, story, "svg", "out.svg")
    page.goto(f"file://{path}")
    status = page.locator("#status")
    whole = boxes(page)
    document = json.loads(export(lapwing, story, "json", "out.json").read_text())
    total_ns = sum(row["self_ns"] for row in document["tree"])
    for row in document["tree"]:
        if row["parent"] is None and row["total_ns"] > total_ns / 100:
            name = document["functions"][row["function"]]["name"]
            assert any(box.startswith(name) for box in whole), name

    inner = page.locator("#boxes .box").nth(2)
    number = inner.get_attribute("data-node")
    inner.locator("rect").click()
    zoomed = page.locator(f'[data-node="{number}"] rect')
    assert float(zoomed.get_attribute("width") or 0) == pytest.approx(whole["all"])
    assert "total" in (status.text_content() or "")
    page.keyboard.press("Escape")
    assert boxes(page) == whole

    page.keyboard.press("/")
    page.keyboard.type("main|run|step")
    assert page.locator(".hit").count() > 0
    assert "found" in (page.locator("#found").text_content() or "")
    page.keyboard.press("Escape")
    assert page.locator(".hit").count() == 0

    page.keyboard.press("ArrowDown")
    assert page.locator(".chosen").get_attribute("data-node") == "1"
    page.keyboard.press("Enter")
    first = page.locator('[data-node="1"] rect')
    assert float(first.get_attribute("width") or 0) == pytest.approx(whole["all"])
    page.keyboard.press("Backspace")
    assert boxes(page) == whole


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
