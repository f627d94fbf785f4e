"""What a browser opens: speedscope's importer finds in each thread the self and total
weight of every function that the file holds, and the flame graph obeys.

speedscope's npm package is the web page; its importer's own objects are asked there.
"""

from __future__ import annotations

import collections
import json
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from exports import SPEEDSCOPE, by_name, export, functions, span_name, whole
from playwright.sync_api import Page

# Preact keeps what it draws on the elements; somewhere below is the group of profiles.
IMPORTED = """() => {
    const seen = new Set(), queue = [];
    for (const element of document.querySelectorAll("*"))
        for (const key of Object.keys(element)) queue.push(element[key]);
    while (queue.length) {
        const it = queue.shift();
        if (!it || typeof it !== "object" || it instanceof Node || seen.has(it))
            continue;
        seen.add(it);
        if (it.profileGroup && it.profileGroup.profiles)
            return it.profileGroup.profiles.map(({profile}) => {
                const frames = [];
                profile.forEachFrame(frame => frames.push([
                    frame.name, frame.getSelfWeight(), frame.getTotalWeight()]));
                return {name: profile.getName(), frames};
            });
        for (const key of Object.keys(it)) queue.push(it[key]);
    }
    return null;
}"""


@dataclass
class Weights:
    """Of a profile, by the names of functions: their own, and with what they called."""

    own: Counter[str] = field(default_factory=Counter)
    total: Counter[str] = field(default_factory=Counter)

    def add(self, stack: list[str], weight: float) -> None:
        """WEIGHT with STACK on. A function counts once, however often it is on it."""
        if stack:
            self.own[stack[-1]] += weight  # type: ignore[assignment]
        for name in set(stack):
            self.total[name] += weight  # type: ignore[assignment]


def imported(page: Page, path: Path) -> list[tuple[str, Weights]]:
    """Each profile of a file, as speedscope has it."""
    page.goto(f"file://{SPEEDSCOPE}/index.html")
    with page.expect_console_message(lambda said: said.text.startswith("import: ")):
        page.locator("input[type=file]").set_input_files(path)
    page.wait_for_selector("canvas")
    profiles = page.evaluate(IMPORTED)
    assert profiles
    found = []
    for profile in profiles:
        weights = Weights()
        for name, own, total in profile["frames"]:
            weights.own[name] += own
            weights.total[name] += total
        found.append((profile["name"], weights))
    return found


def assert_equal(found: Weights, wanted: Weights) -> None:
    """Alike to the rounding of doubles."""
    for theirs, ours in ((found.own, wanted.own), (found.total, wanted.total)):
        names = {name for name, weight in ours.items() if weight}
        assert {name for name, weight in theirs.items() if weight > 1e-9} == names
        for name in names:
            assert theirs[name] == pytest.approx(ours[name], rel=1e-9), name


# speedscope's own files


def replay(profile: dict[str, Any], frames: list[str]) -> Weights:
    """The weights of a profile as its format says. Functions of one name are told apart
    by a number behind it, until they are added up."""
    weights = Weights()
    if profile["type"] == "sampled":
        pairs = zip(profile["samples"], profile["weights"], strict=True)
        for stack, weight in pairs:
            weights.add([frames[number] for number in stack], weight)
        return weights
    open_: list[int] = []
    last = profile["startValue"]
    for event in profile["events"]:
        assert event["at"] >= last
        weights.add([frames[number] for number in open_], event["at"] - last)
        last = event["at"]
        if event["type"] == "O":
            open_.append(event["frame"])
        else:
            assert open_.pop() == event["frame"]
    assert not open_
    return weights


def without_numbers(weights: Weights) -> Weights:
    """Functions of one name added up."""
    plain = Weights()
    for name, weight in weights.own.items():
        plain.own[name.rpartition("#")[0]] += weight
    for name, weight in weights.total.items():
        plain.total[name.rpartition("#")[0]] += weight
    return plain


def profiles_of(document: dict[str, Any]) -> list[tuple[str, Weights]]:
    frames = [
        f"{frame['name']}#{number}"
        for number, frame in enumerate(document["shared"]["frames"])
    ]
    return [
        (profile["name"], without_numbers(replay(profile, frames)))
        for profile in document["profiles"]
    ]


def test_speedscope_finds_the_weights_of_every_function(
    lapwing: str, story: Path, page: Page
) -> None:
    path = export(lapwing, story, "speedscope", "x.speedscope.json")
    wanted = profiles_of(json.loads(path.read_text()))
    found = imported(page, path)
    assert [name for name, _ in found] == [name for name, _ in wanted]
    for (_, theirs), (_, ours) in zip(found, wanted, strict=True):
        assert_equal(theirs, ours)


def test_a_speedscope_file_follows_its_schema(lapwing: str, story: Path) -> None:
    document = json.loads(export(lapwing, story, "speedscope").read_text())
    (schema,) = SPEEDSCOPE.glob("file-format-schema*.json")
    jsonschema.validate(document, json.loads(schema.read_text()))


def test_a_speedscope_file_holds_what_the_report_says(
    lapwing: str, story: Path
) -> None:
    document = json.loads(export(lapwing, story, "speedscope").read_text())
    ours = whole(lapwing, story)
    frames = [frame["name"] for frame in document["shared"]["frames"]]
    spans = []
    sums = Weights()
    for profile in document["profiles"]:
        if profile["type"] == "sampled":
            sums.own.update(replay(profile, frames).own)
            continue
        open_ = []
        for event in profile["events"]:
            if event["type"] == "O":
                open_.append(event["at"])
            else:
                start = open_.pop()
                spans.append((start, event["at"] - start, frames[event["frame"]]))
    origin = min((span["start_ns"] for span in ours["spans"]), default=0)
    first = min((start for start, _, _ in spans), default=0)
    assert sorted((start - first, ns, name) for start, ns, name in spans) == sorted(
        (span["start_ns"] - origin, span["duration_ns"], span_name(ours, span))
        for span in ours["spans"]
    )
    called = {span["thread"] for span in ours["spans"] if "function" in span}
    drawn: Counter[str] = Counter()
    for row in ours["tree"]:
        if row["thread"] not in called:
            drawn[ours["functions"][row["function"]]["name"]] += row["self_ns"]
    assert +sums.own == +drawn
    if not called:
        assert +sums.own == by_name(functions(lapwing, story), "self_ns")


# Other formats, in speedscope


def test_speedscope_finds_the_weights_of_collapsed_stacks(
    lapwing: str, story: Path, page: Page
) -> None:
    path = export(lapwing, story, "collapsed", "x.txt")
    wanted = Weights()
    for line in path.read_text().splitlines():
        stack, _, weight = line.rpartition(" ")
        wanted.add(stack.split(";"), int(weight))
    ((_, found),) = imported(page, path)
    assert_equal(found, wanted)


def test_speedscope_finds_the_weights_of_trace_events(
    lapwing: str, story: Path, page: Page
) -> None:
    path = export(lapwing, story, "chrome", "x.json")
    tracks = collections.defaultdict(list)
    for event in json.loads(path.read_text())["traceEvents"]:
        if event["ph"] == "X":
            tracks[event["pid"], event["tid"]].append(event)
    wanted = {tid: events for (_, tid), events in tracks.items()}
    found = imported(page, path)
    assert len(found) == len(wanted)
    compared = 0
    for name, theirs in found:
        match = re.search(r"\(tid (\d+)\)", name)
        events = wanted[int(match[1])] if match else next(iter(wanted.values()))
        if touches_beyond_doubles(events) or has_equal_ends(events):
            continue
        plain: Counter[str] = Counter()
        for text, weight in theirs.own.items():
            plain[re.sub(r" \{.*$", "", text)] += ns(weight)
        assert is_near(plain, own_times(events)), name
        compared += 1
    # Of short calls in many threads, it is chance whether any track is left.
    assert compared or story.name.startswith("threads")


def touches_beyond_doubles(events: list[dict[str, Any]]) -> bool:
    """Does a span begin where another ends, but ts + dur is not that in doubles?

    speedscope 1.25 adds in doubles, takes the two for overlapping, and gets lost. What
    is drawn from sums always touches; trace_processor and catapult have no trouble.
    """
    instants = collections.defaultdict(set)
    for event in events:
        instants[ns(event["ts"])].add(event["ts"])
        instants[ns(event["ts"]) + ns(event["dur"])].add(event["ts"] + event["dur"])
    return any(len(doubles) > 1 for doubles in instants.values())


def has_equal_ends(events: list[dict[str, Any]]) -> bool:
    """Does a span end at the very instant its parent does?

    Where the processor's counter moves in steps of 10 ns, a call and its caller may
    return in one. speedscope 1.25 may then end the caller first, and gets lost.
    """
    ends = [ns(event["ts"]) + ns(event["dur"]) for event in events]
    return len(set(ends)) < len(ends)


def own_times(events: list[dict[str, Any]]) -> Counter[str]:
    """Of a track on which spans nest, in nanoseconds."""
    sums: Counter[str] = Counter()
    open_: list[tuple[int, str]] = []
    spans = [(ns(e["ts"]), ns(e["dur"]), e["name"]) for e in events]
    for start, length, name in sorted(spans, key=lambda span: (span[0], -span[1])):
        while open_ and open_[-1][0] <= start:
            open_.pop()
        sums[name] += length
        if open_:
            sums[open_[-1][1]] -= length
        open_.append((start + length, name))
    return sums


def ns(microseconds: float) -> int:
    return round(microseconds * 1000)


def is_near(a: Counter[str], b: Counter[str]) -> bool:
    """To a nanosecond or two: speedscope adds up microseconds in doubles."""
    return all(abs(a[name] - b[name]) <= 2 for name in a.keys() | b.keys())


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
    drawn = boxes(page)
    document = json.loads(export(lapwing, story, "json", "out.json").read_text())
    total_ns = sum(row["self_ns"] for row in document["tree"])
    for row in document["tree"]:
        if row["parent"] is None and row["total_ns"] > total_ns / 100:
            name = document["functions"][row["function"]]["name"]
            assert any(box.startswith(name) for box in drawn), name

    inner = page.locator("#boxes .box").nth(2)
    number = inner.get_attribute("data-node")
    inner.locator("rect").click()
    zoomed = page.locator(f'[data-node="{number}"] rect')
    assert float(zoomed.get_attribute("width") or 0) == pytest.approx(drawn["all"])
    assert "total" in (status.text_content() or "")
    page.keyboard.press("Escape")
    assert boxes(page) == drawn

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
    assert float(first.get_attribute("width") or 0) == pytest.approx(drawn["all"])
    page.keyboard.press("Backspace")
    assert boxes(page) == drawn
