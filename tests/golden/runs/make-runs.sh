#!/bin/sh
# Makes three runs to list: one that ended well, one that failed in a tree with changes,
# and one whose recorder was killed.

run() {
    mkdir -p ".lapwing/runs/$1.lap"
    cat >".lapwing/runs/$1.lap/run.json"
}

run 20261115-200731-train <<'END'
{"format": "lapwing run", "major": 1, "minor": 0, "state": "finished",
 "command": "python train.py --epochs 3",
 "arguments": ["python", "train.py", "--epochs", "3"],
 "facts": {"commit": "1cc6fe5a9b829f57bd9f7006a9df6433bf07c0ae", "dirty": "no"},
 "clock": {"start_ns": 1000000000, "end_ns": 94500000000,
           "wall_start_ns": 1794773251000000000, "wall_end_ns": 1794773344500000000},
 "exit_code": 0}
END
run 20261115-210000-eval <<'END'
{"format": "lapwing run", "major": 1, "minor": 0, "state": "finished",
 "command": "python eval.py",
 "facts": {"commit": "fee1dac9ccdd44eacae4ca9b829f57bd9f7006a9", "dirty": "yes"},
 "clock": {"start_ns": 1000000000, "end_ns": 1250000000,
           "wall_start_ns": 1794776400000000000, "wall_end_ns": 1794776400250000000},
 "exit_code": 1}
END
run 20261115-220000-sweep <<'END'
{"format": "lapwing run", "major": 1, "minor": 0, "state": "running",
 "command": "python sweep.py",
 "clock": {"start_ns": 1000000000, "wall_start_ns": 1794780000000000000}}
END
