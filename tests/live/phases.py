"""The phases of a training in a recording, read without Lapwing (lap_reader)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import lap_reader

FRAME_PHASE = 6


@dataclass(frozen=True)
class Phase:
    pid: int
    thread: int
    name: str
    of: str  # class of what was called
    start_ns: int
    end_ns: int

    @property
    def seconds(self) -> float:
        return (self.end_ns - self.start_ns) / 1e9


def read_phases(run: Path) -> list[Phase]:
    """All phases of all processes, in order of their starts."""
    phases = []
    for process in lap_reader.read_run(run)[1].values():
        for start, duration, thread, stack in process.spans:
            frame = process.frames[process.stacks[stack][1]]
            if frame[5] == FRAME_PHASE:
                name, of = process.strings[frame[0]], process.strings[frame[1]]
                pid = int(process.meta["pid"])
                phases.append(Phase(pid, thread, name, of, start, start + duration))
    return sorted(phases, key=lambda phase: (phase.start_ns, -phase.end_ns))
