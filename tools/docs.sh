#!/bin/sh
# Write what is made from the program itself: the manual page, the completions and
# docs/formats.md.
#
#   tools/docs.sh [--check] PROGRAM
#
# --check writes nothing and names the documents that are out of date.
set -eu

check=
if [ "${1-}" = --check ]; then
    check=yes
    shift
fi
[ $# = 1 ] || {
    echo "usage: tools/docs.sh [--check] PROGRAM" >&2
    exit 2
}
docs=$(dirname "$0")/../docs
code=0

# document KIND FILE
document() {
    if [ -z "$check" ]; then
        mkdir -p "$(dirname "$docs/$2")"
        "$program" docs "$1" >"$docs/$2"
    elif ! "$program" docs "$1" | cmp -s - "$docs/$2"; then
        echo "docs/$2 is out of date: tools/docs.sh PROGRAM writes it"
        code=1
    fi
}

program=$1
document man lapwing.1
document formats formats.md
document bash completions/lapwing.bash
document fish completions/lapwing.fish
document zsh completions/_lapwing
exit $code
