#!/bin/sh
# The CPythons of this machine that Lapwing is tried on, one a line: VERSION PATH.
#
#   tools/pythons.sh [--all] [--first] [--local] [X.Y ...]
#
#   X.Y      only these minor versions
#   --all    also 2.7, 3.8 and 3.9, which Lapwing must refuse (or only sample) politely
#   --first  one Python a minor version: pyenv's before those on PATH before Debian's
#   --local  only what is here already; nothing is downloaded
#
# VERSION is the full one (3.11.7), oldest first. PATH is the interpreter itself: no
# shim, no virtualenv. 3.13 and later are unpacked from newer Debian suites into the
# cache ($LAPWING_CACHE, else ~/.cache/lapwing) where the machine has none; that takes
# some seconds once. A version that cannot be had is a sentence on standard error, and
# the exit code stays 0: which Pythons a test needs is the test's business.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
pythons=${LAPWING_CACHE:-$HOME/.cache/lapwing}/pythons
wanted='3.10 3.11 3.12 3.13 3.14 3.15'
from_debian='3.13 3.14 3.15'
first=no
offline=no
chosen=

for arg in "$@"; do
    case $arg in
    --all) wanted="2.7 3.8 3.9 $wanted" ;;
    --first) first=yes ;;
    --local) offline=yes ;;
    [23].*) chosen="$chosen $arg" ;;
    *)
        echo "usage: tools/pythons.sh [--all] [--first] [--local] [X.Y ...]" >&2
        exit 2
        ;;
    esac
done
wanted=${chosen:-$wanted}

# has WORD LIST: whether the words of LIST hold WORD.
has() {
    case " $2 " in *" $1 "*) return 0 ;; *) return 1 ;; esac
}

# Print "RANK VERSION PATH" of the interpreter $2 if it is a CPython that is wanted.
# It is asked itself, without the environment's say: a shim or a virtualenv names the
# interpreter behind it. RANK keeps the order in which they were looked for.
probe() {
    [ -x "$2" ] || return 0
    answer=$("$2" -E -s -c '
import platform, sys
path = getattr(sys, "_base_executable", None) or sys.executable
if platform.python_implementation() == "CPython" and path:
    print("%s %s" % (platform.python_version(), path))
' 2>/dev/null </dev/null) || return 0
    [ -n "$answer" ] || return 0
    minor=$(echo "${answer%% *}" | cut -d. -f1-2)
    if has "$minor" "$wanted"; then
        echo "$1 $answer"
    fi
}

installed() {
    for program in "${PYENV_ROOT:-$HOME/.pyenv}"/versions/*/bin/python; do
        probe 1 "$program"
    done
    for minor in $wanted; do
        program=$(command -v "python$minor") && probe 2 "$program"
        probe 3 "/usr/bin/python$minor"
    done
    return 0
}

# The unpacked Python of minor version $1, made first if it has to be.
unpacked() {
    program=$pythons/$1/usr/bin/python$1
    if [ ! -x "$program" ] && [ "$offline" = no ]; then
        mkdir -p "$pythons"
        # Two at once would do the work twice; the second finds it done.
        (
            flock 9
            [ -x "$program" ] || python3 "$here/debian_python.py" "$1" "$pythons/$1"
        ) 9>"$pythons/.lock" || return 0
    fi
    probe 4 "$program"
}

found=$(installed)
for minor in $wanted; do
    if has "$minor" "$from_debian" && ! echo "$found" | grep -q "^[0-9] $minor\."; then
        found=$found'
'$(unpacked "$minor")
    fi
done

# One line a real file, the best rank first, then by version.
listed=$(echo "$found" | while read -r rank version path; do
    [ -n "$path" ] && echo "$rank $version $path $(readlink -f "$path")"
done | sort -s -k1,1n | awk '!seen[$4]++ { print $1, $2, $3 }' | sort -s -k2,2V)

for minor in $wanted; do
    if ! echo "$listed" | grep -q "^[0-9] $minor\."; then
        echo "pythons.sh: no CPython $minor on this machine" >&2
    fi
done

echo "$listed" | awk -v first="$first" '
    NF == 3 {
        split($2, part, ".")
        minor = part[1] "." part[2]
        if (first == "no") print $2, $3
        else if (!(minor in best) || $1 < best[minor]) {
            if (!(minor in best)) order[++count] = minor
            best[minor] = $1
            line[minor] = $2 " " $3
        }
    }
    END { for (i = 1; i <= count; i++) print line[order[i]] }'
