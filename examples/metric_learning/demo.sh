#!/bin/sh
# Profile the training beside this file and show what a user sees (make demo).
#
#   demo.sh [ARG...]     the arguments go to train.py, as: demo.sh --epochs 2
#
# Every command is shown as it would be typed from the project's folder.
set -eu
cd "$(dirname "$0")/../.."

if [ -x .venv/bin/lapwing ]; then
    PATH=$PWD/.venv/bin:$PATH
    export PATH
fi
command -v lapwing >/dev/null || {
    echo "demo: there is no lapwing yet; run: make demo" >&2
    exit 1
}

# Show a command, then run it.
show() {
    printf '\n$ %s\n' "$*"
    "$@"
}

echo "A student's training: images in P-K batches, a triplet loss, and a logger that"
echo "measures how far apart the classes are after each epoch. Why is it slow?"

# It ends with a summary, the same that `lapwing report` gives later.
show lapwing run examples/metric_learning/train.py "$@"

# What a step takes, and what runs between them.
show lapwing report steps

# What to change, and what that would gain.
show lapwing report advice

# Which of the program's own functions take the time, with all they call.
show lapwing report functions --mine --sort cumulative --limit 12

# And which lines.
show lapwing report lines --mine --limit 6

# One helper stands out; the time depends on who asks for it.
show lapwing report callers --match pairwise_distances

# How often is it asked for? Samples do not know; exact calls do.
show lapwing run --calls --no-summary examples/metric_learning/train.py --epochs 1
show lapwing report callers --match pairwise_distances

# The way down to it.
show lapwing report tree --mine --limit 15

cat <<'END'

The logger computes the same distances again for every metric and every pair of
classes. To go on:

  lapwing report callees --match inter_cluster       what the logger calls
  lapwing report functions --json | head             the same numbers for a script
  lapwing report functions --style pstats            in cProfile's columns
  lapwing report system                              CPU, memory, disks while it ran
  lapwing export -o train.svg                        a flame graph for the browser
  lapwing runs                                       all recordings, with their commits
  lapwing run examples/metric_learning/train.py --augmentation eager
                                                     another run to look at
  lapwing top PID, lapwing dump PID                  one that runs already
  lapwing report --help                              everything else
END
