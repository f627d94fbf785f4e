"""Markdown for people."""

from __future__ import annotations

from collections.abc import Sequence

from figures import Figures
from goals import Goal, format_ratio, share_target
from modes import MODES

TITLES = {
    "measured": "measured part",
    "whole": "whole command",
    "cpu": "measured part, processor time of the program alone",
}


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table, the first column to the left and the rest to the right."""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        padded = [
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        return "| " + " | ".join(padded) + " |"

    rule = "|" + "|".join(
        "-" * (width + 2) if i == 0 else "-" * (width + 1) + ":"
        for i, width in enumerate(widths)
    )
    return "\n".join([line(head), rule + "|", *[line(row) for row in rows]])


def measured_modes(figures: Figures) -> list[str]:
    """Modes with any result, in the order they are listed."""
    return [mode.name for mode in MODES if figures.programs(mode.name, "bare")]


def slowdowns(figures: Figures) -> str:
    """How many times as long as bare: a row a mode, a column a program."""
    programs = figures.programs("bare")
    rows = []
    for mode in measured_modes(figures):
        if mode == "bare":
            cells = [f"{figures.bare[name]:.3f} s" for name in programs]
            rows.append([mode, *cells, ""])
            continue
        ran = set(figures.programs(mode, "bare"))
        cells = [
            f"{figures.slowdown(name, mode):.2f}" if name in ran else "-"
            for name in programs
        ]
        mean = figures.mean_slowdown(mode)
        rows.append([mode, *cells, f"{mean:.2f}" if mean else "-"])
    title = f"### Python {figures.minor}, {TITLES[figures.part]}: slowdown\n\n"
    return title + table(["", *programs, "geometric mean"], rows)


def shares(figures: Figures) -> str:
    """Each mode's overhead over cProfile's, with its interval and its target."""
    rows = []
    for mode in measured_modes(figures):
        if mode in ("bare", "cProfile"):
            continue
        ratio = figures.ratio(mode, "cProfile")
        if ratio is None:
            continue
        python_only = figures.ratio(mode, "cProfile builtins=False")
        target = None  # none was set for processor time
        if figures.part != "cpu":
            target = share_target(mode, figures.minor)
        word = ""
        if target is not None:
            word = "PASS" if ratio.value <= target else "FAIL"
        rows.append(
            [
                mode,
                format_ratio(ratio),
                f"{target:.2f}" if target is not None else "",
                word,
                format_ratio(python_only)
                if python_only and mode != "cProfile builtins=False"
                else "",
            ]
        )
    if not rows:
        return ""
    head = ["", "of cProfile's (95 %)", "target", "", "of cProfile's, builtins=False"]
    title = f"### Python {figures.minor}, {TITLES[figures.part]}: share of overhead\n\n"
    return title + table(head, rows)


def goals_table(goals: Sequence[Goal]) -> str:
    """Every target, and whether it was reached."""
    rows = [[goal.what, goal.value, goal.target, goal.word] for goal in goals]
    return "### Targets\n\n" + table(["", "is", "wanted", ""], rows)
