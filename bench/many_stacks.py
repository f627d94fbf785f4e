"""Write a large profile of a made program: many_stacks.py KIND FILE MEGABYTES.

    folded    collapsed stacks as py-spy's raw format has them: each stack once, sorted
    austin    collapsed stacks as austin streams them: a line for each sample
    sampled   speedscope's samples, as py-spy writes them
    evented   speedscope's events, as a tracer writes them

The program is a call graph of 4,000 functions in 300 files, each with up to four
callees, of which it mostly calls the first. A sample is the one before with the last
few frames left and others entered, 20 to 60 deep; so stacks share their beginnings
and come again, as in a real program. The same words always give the same file.
"""

from __future__ import annotations

import json
import random
import sys
from itertools import accumulate
from pathlib import Path
from typing import TextIO

FUNCTIONS = 4_000
FILES = 300
SHARES = (0.9, 0.06, 0.03, 0.01)  # of the first, second ... callee
SHALLOW, DEEP = 20, 60
LEAVE = 0.65  # the chance that one more frame ended since the last sample
STOP = 0.35  # the chance that a deep enough stack ends here
PARTS = (
    "load batch decode read write parse encode apply update forward backward step loss "
    "reduce gather index select merge split copy build check find collate sample"
).split()


class Program:
    """The call graph, and where in it the program is."""

    def __init__(self, seed: int = 0) -> None:
        self.chance = random.Random(seed)
        files = [f"project/{self.word()}/{self.word()}_{i}.py" for i in range(FILES)]
        self.names = [f"{self.word()}_{self.word()}" for _ in range(FUNCTIONS)]
        self.files = [self.chance.choice(files) for _ in range(FUNCTIONS)]
        self.lines = [self.chance.randrange(1, 900) for _ in range(FUNCTIONS)]
        self.callees = [
            [
                self.chance.randrange(FUNCTIONS)
                for _ in range(self.chance.randint(1, len(SHARES)))
            ]
            for _ in range(FUNCTIONS)
        ]
        self.stack = [0]

    def word(self) -> str:
        return self.chance.choice(PARTS)

    def move(self) -> int:
        """Go on to the next sample; how many frames stayed."""
        chance = self.chance
        stack = self.stack
        while len(stack) > 1 and chance.random() < LEAVE:
            stack.pop()
        stayed = len(stack)
        while len(stack) < SHALLOW or (len(stack) < DEEP and chance.random() >= STOP):
            callees = self.callees[stack[-1]]
            shares = list(accumulate(SHARES[: len(callees)]))
            stack.extend(chance.choices(callees, cum_weights=shares))
        return stayed

    def texts(self, form: str) -> list[str]:
        """What each function is called: by its name, file and line."""
        return [
            form.format(name=name, file=file, line=line)
            for name, file, line in zip(self.names, self.files, self.lines, strict=True)
        ]


def write_folded(program: Program, out: TextIO, size: int) -> str:
    texts = program.texts("{name} ({file}:{line})")
    counts: dict[str, int] = {}
    written = samples = 0
    while written < size:
        program.move()
        samples += 1
        stack = ";".join([texts[number] for number in program.stack])
        if stack not in counts:
            written += len(stack) + 3
        counts[stack] = counts.get(stack, 0) + 1
    out.writelines(f"{stack} {counts[stack]}\n" for stack in sorted(counts))
    return f"{len(counts)} stacks of {samples} samples"


def write_austin(program: Program, out: TextIO, size: int) -> str:
    texts = program.texts("/home/me/{file}:{name}:{line}")
    written = samples = 0
    met = set()
    out.write("# austin: 3.7.0\n# interval: 100\n# mode: wall\n")
    while written < size:
        program.move()
        stack = ";".join([texts[number] for number in program.stack])
        weight = program.chance.randrange(90, 250)
        written += out.write(f"P1234;T0:1234;{stack} {weight}\n")
        samples += 1
        met.add(hash(stack))
    return f"{samples} samples of {len(met)} stacks"


def write_head(program: Program, out: TextIO) -> None:
    frames = [
        {"name": name, "file": file, "line": line, "col": None}
        for name, file, line in zip(
            program.names, program.files, program.lines, strict=True
        )
    ]
    out.write('{"$schema":"https://www.speedscope.app/file-format-schema.json",')
    out.write('"shared":{"frames":')
    out.write(json.dumps(frames, separators=(",", ":")) + "},")


def write_sampled(program: Program, out: TextIO, size: int) -> str:
    written = samples = 0
    weights = []
    met = set()
    write_head(program, out)
    out.write('"profiles":[{"type":"sampled","name":"main","unit":"seconds",')
    out.write('"startValue":0.0,"endValue":1.0,"samples":[')
    while written < size:
        program.move()
        text = ",".join(map(str, program.stack))
        written += out.write(f"{',' if samples else ''}[{text}]") + 5
        weights.append(f"{program.chance.randrange(1, 3) / 100}")
        samples += 1
        met.add(hash(text))
    out.write('],"weights":[' + ",".join(weights) + "]}]}\n")
    return f"{samples} samples of {len(met)} stacks"


def write_evented(program: Program, out: TextIO, size: int) -> str:
    written = events = at = 0
    before: list[int] = []

    def write(kind: str, number: int) -> None:
        nonlocal written, events, at
        at += program.chance.randrange(1, 2000)
        comma = "," if events else ""
        written += out.write(
            f'{comma}{{"type":"{kind}","frame":{number},"at":{at / 1000}}}'
        )
        events += 1

    write_head(program, out)
    out.write('"profiles":[{"type":"evented","name":"main","unit":"microseconds",')
    out.write('"startValue":0,"endValue":1,"events":[')
    while written < size:
        stayed = program.move()
        for number in reversed(before[stayed:]):
            write("C", number)
        for number in program.stack[len(before[:stayed]) :]:
            write("O", number)
        before = program.stack.copy()
    for number in reversed(before):
        write("C", number)
    out.write("]}]}\n")
    return f"{events} events"


KINDS = {
    "folded": write_folded,
    "austin": write_austin,
    "sampled": write_sampled,
    "evented": write_evented,
}


def main() -> None:
    """Write the file and print what it holds."""
    kind, path, megabytes = sys.argv[1], Path(sys.argv[2]), float(sys.argv[3])
    with path.open("w", encoding="utf-8") as out:
        print(KINDS[kind](Program(), out, int(megabytes * 1e6)))


if __name__ == "__main__":
    main()
