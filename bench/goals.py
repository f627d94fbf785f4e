"""What Lapwing has to reach (the targets), and whether it did."""

from __future__ import annotations

from dataclasses import dataclass

from figures import Figures, Ratio
from modes import MODES

CALLS = "lapwing --calls"
C_CALLS = "lapwing --calls --c-calls"

# At most this share of cProfile's overhead, by mode; 3.12 stands for all later ones.
OVERHEAD_SHARES = {
    CALLS: {"3.11": 0.12, "3.12": 0.28},
    C_CALLS: {"3.11": 0.75, "3.12": 0.55},
}
PROF_SPEEDUP = 5.0  # reading a .prof, against pstats.Stats
REPORT_SECONDS = 0.3  # `report functions` on a large run
READ_MB_S = 200  # a file of another tool to a table of functions, on one core
WRITE_MB_S = 100  # the other way


@dataclass(frozen=True)
class Goal:
    """One line of the last table."""

    what: str
    value: str
    target: str
    passed: bool | None  # None: there was nothing to compare

    @property
    def word(self) -> str:
        """PASS, FAIL or why neither; nothing where nothing was asked for."""
        if self.passed is None:
            return "not measured"
        if not self.target:
            return ""
        return "PASS" if self.passed else "FAIL"


def share_target(mode: str, minor: str) -> float | None:
    """The share of cProfile's overhead that MODE may have on a Python."""
    by_minor = OVERHEAD_SHARES.get(mode, {})
    if minor in by_minor:
        return by_minor[minor]
    newer = tuple(int(part) for part in minor.split(".")) > (3, 12)
    return by_minor.get("3.12") if newer else None


def format_ratio(ratio: Ratio) -> str:
    """As 0.100 (0.090 to 0.120)."""
    if ratio.interval is None:
        return f"{ratio.value:.3f}"
    low, high = ratio.interval
    return f"{ratio.value:.3f} ({low:.3f} to {high:.3f})"


def overhead_goals(figures: Figures, asked: set[str]) -> list[Goal]:
    """Lapwing's share of cProfile's overhead; cProfile as it is typed, builtins on.

    Of the modes that were ASKED for, whether they could be run or not.
    """
    goals = []
    for mode in (CALLS, C_CALLS):
        if not {mode, "cProfile"} <= asked:
            continue
        target = share_target(mode, figures.minor)
        if target is None:
            continue
        what = f"{figures.minor} {figures.part}: {mode}, share of cProfile's overhead"
        ratio = figures.ratio(mode, "cProfile")
        goals.append(
            Goal(
                what,
                format_ratio(ratio) if ratio else "-",
                f"at most {target:.2f}",
                ratio.value <= target if ratio else None,
            )
        )
    return goals


def peer_goals(figures: Figures, asked: set[str]) -> list[Goal]:
    """Lapwing under each peer, like with like: with C functions or without.

    A peer that samples has no such choice and is compared with both.
    """
    goals = []
    for ours, with_c in ((CALLS, False), (C_CALLS, True)):
        for peer in MODES:
            if peer.core or peer.with_c not in (with_c, None):
                continue
            if not {ours, peer.name} <= asked:
                continue
            programs = figures.programs(ours, peer.name, "bare")
            mine = figures.mean_slowdown(ours, programs) if programs else None
            theirs = figures.mean_slowdown(peer.name, programs or None)
            what = f"{figures.minor} {figures.part}: {ours}, slowdown under {peer.name}"
            goals.append(
                Goal(
                    what,
                    f"{mine:.2f}" if mine else "-",
                    f"under {theirs:.2f}" if theirs else "-",
                    mine < theirs if mine and theirs else None,
                )
            )
    return goals
