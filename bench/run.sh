#!/bin/sh
# Measure Lapwing beside its peers (make bench: all of it). A part by itself:
# bench/run.sh --help, for what samples bench/run.sh sampling --help, and for trainings
# bench/run.sh torch --help.
#
# Tables go to standard output in Markdown, progress to standard error, all numbers to
# bench/results/.
set -eu
cd "$(dirname "$0")/.."

python=$PWD/.venv/bin/python
[ -x "$python" ] || {
    echo "bench: there is no .venv yet; run: make bench" >&2
    exit 1
}
programs=tests/programs/requirements.txt
if ! cmp -s "$programs" .venv/programs.txt; then
    "$python" -m pip install -q --no-deps --disable-pip-version-check -r "$programs"
    cp "$programs" .venv/programs.txt
fi
if [ "${1:-}" = sampling ]; then
    shift
    exec "$python" bench/sampling.py "$@"
fi
if [ "${1:-}" = torch ]; then
    shift
    exec "$python" bench/torch_live.py "$@"
fi
"$python" bench/run.py "$@"
if [ $# -eq 0 ]; then
    "$python" bench/sampling.py
    exec "$python" bench/torch_live.py
fi
