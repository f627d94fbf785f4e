"""examples/metric_learning as it is, with its steps timed from outside.

    python demo.py [OPTION...]

The options are those of its train.py.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from step_times import StepTimes

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "metric_learning"


def main() -> None:
    sys.path.insert(0, str(EXAMPLE))
    import train
    from config import parse_args

    times = StepTimes("demo")
    train_step, embed_all = train.train_step, train.embed_all
    is_open = False

    # A step is from the end of one to the end of the next, so that it has its data; the
    # first of an epoch would have the logger's time, so it only opens the series.
    def timed_step(*args: Any) -> tuple[float, float]:
        nonlocal is_open
        result: tuple[float, float] = train_step(*args)
        if is_open:
            times.end()
        else:
            times.begin()
            is_open = True
        return result

    def closing_embed_all(*args: Any) -> Any:
        nonlocal is_open
        times.close()
        is_open = False
        return embed_all(*args)

    train.train_step, train.embed_all = timed_step, closing_embed_all
    train.train(parse_args())
    times.tell()


if __name__ == "__main__":
    main()
