#!/bin/sh
# Fuzzing: tools/fuzz.sh run | coverage
#
#   run        each fuzz/fuzz_NAME.c for FUZZ_SECONDS (600), ASan and UBSan on
#   coverage   how many lines the corpora reach of the files that turn foreign bytes
#              into the model; fails when one is under FUZZ_COVERAGE (80) percent. Shown
#              too: those that read what another process has put in memory or said
#
# FUZZ="chrome pprof" runs only those targets.
#
# A target starts from fuzz/corpus/NAME and from every golden input. What it finds
# on the way is kept in build/fuzz-corpus/NAME; a crash is left in build/crashes and
# becomes a golden case.
set -eu
cd "$(dirname "$0")/.."

seconds=${FUZZ_SECONDS:-600}
least=${FUZZ_COVERAGE:-80}
meson=.venv/bin/meson

fail() {
    echo "fuzz: $*" >&2
    exit 1
}

# A build folder of its own for each set of flags: build FOLDER FLAG... One that was
# made with other flags, or whose making was interrupted, is made anew.
build() {
    folder=$1
    shift
    set -- -Dfuzz=true -Dextension=false -Dbuildtype=debugoptimized \
        -Db_lundef=false "$@"
    if [ "$(cat "$folder/flags" 2>/dev/null)" = "$*" ] &&
        [ "$(find "$folder/build.ninja" -newer meson_options.txt)" ]; then
        $meson setup --reconfigure "$folder" >/dev/null # targets are found, not listed
    else
        rm -rf "$folder"
        CC=clang $meson setup "$folder" "$@" >/dev/null
        echo "$*" >"$folder/flags"
    fi
    .venv/bin/ninja -C "$folder" --quiet
}

names() {
    for name in ${FUZZ:-}; do
        [ -e "fuzz/fuzz_$name.c" ] || fail "FUZZ: there is no fuzz/fuzz_$name.c"
        echo "$name"
    done
    [ -z "${FUZZ:-}" ] || return 0
    for source in fuzz/fuzz_*.c; do
        [ -e "$source" ] || fail "there is no fuzz/fuzz_NAME.c"
        source=${source#fuzz/fuzz_}
        echo "${source%.c}"
    done
}

# Golden inputs are seeds for every target: what is the wrong format for one reader
# is the bad input of another.
golden_inputs() {
    mkdir -p build/fuzz-golden
    find tests/golden -type f -size -256k ! -name cmd ! -name out ! -name err \
        ! -name code ! -name setup | while read -r path; do
        cp "$path" "build/fuzz-golden/$(echo "$path" | tr / _)"
    done
}

corpora() {
    mkdir -p "build/fuzz-corpus/$1"
    echo "build/fuzz-corpus/$1"
    [ ! -d "fuzz/corpus/$1" ] || echo "fuzz/corpus/$1"
    echo build/fuzz-golden
}

run() {
    targets=$(names) # here, where a failure ends the script
    # UBSan would print what it finds and go on, and nobody would hear of it.
    build build/fuzz -Db_sanitize=address,undefined \
        -Dc_args=-fno-sanitize-recover=all
    golden_inputs
    mkdir -p build/crashes
    for name in $targets; do
        echo "fuzz: $name for $seconds s"
        # shellcheck disable=SC2046  # a list of folders
        "build/fuzz/fuzz/fuzz_$name" -max_total_time="$seconds" -timeout=20 \
            -rss_limit_mb=2048 -print_final_stats=1 -verbosity=0 \
            -artifact_prefix="build/crashes/$name-" $(corpora "$name") ||
            fail "$name crashed; the input is in build/crashes"
    done
    echo "fuzz: no crash"
}

# llvm-cov counts regions, functions, then lines: the tenth column is the share of
# lines.
coverage() {
    targets=$(names)
    build build/fuzz-coverage \
        -Dc_args="-fprofile-instr-generate -fcoverage-mapping" \
        -Dc_link_args="-fprofile-instr-generate"
    golden_inputs
    rm -rf build/fuzz-profiles
    mkdir -p build/fuzz-profiles
    objects=
    for name in $targets; do
        program=build/fuzz-coverage/fuzz/fuzz_$name
        objects="${objects:+$objects -object }$program"
        # shellcheck disable=SC2046
        LLVM_PROFILE_FILE="build/fuzz-profiles/$name.profraw" \
            "$program" -runs=0 -verbosity=0 $(corpora "$name")
    done
    llvm-profdata merge -o build/fuzz-profiles/all build/fuzz-profiles/*.profraw
    # shellcheck disable=SC2086  # a list of programs
    llvm-cov report $objects -instr-profile=build/fuzz-profiles/all \
        >build/fuzz-profiles/report
    awk -v least="$least" '
        $1 ~ /^src\/(readers\/|lap\/reader|base\/marshal_in).*\.c$/ ||
        $1 ~ /^src\/recorder\/(shared|name_log|trees|ring|watched|listener)\.c$/ {
            share = $10; sub(/%/, "", share)
            printf "%6.1f %%  %s\n", share, $1
            if (share + 0 < least && $1 !~ /recorder/) low = low " " $1
        }
        END {
            if (low == "") exit 0
            printf "fuzz: under %d %% of lines:%s\n", least, low
            exit 1
        }' build/fuzz-profiles/report
}

case ${1:-} in
run) run ;;
coverage) coverage ;;
*) fail "usage: tools/fuzz.sh run|coverage" ;;
esac
