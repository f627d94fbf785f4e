#!/bin/sh
# Makes the named seeds in fuzz/corpus/lap again: fuzz/corpus_lap.sh MAKE_RUN
# (MAKE_RUN is the program built from tools/make_run.c). The others were found by
# fuzzing and kept because each reaches something that no other does.
set -eu
make_run=$1
cd "$(dirname "$0")/corpus/lap"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

rm -f -- *.seg *.lapz
"$make_run" --small --rounds 1 "$folder/one.lap"
cp "$folder/one.lap/p0001-000001.seg" one.seg
"$make_run" --small --rounds 3 --calls 5 --deep 3 --pack few.lapz "$folder/few.lap"
cp "$folder/few.lap/p0001-000001.seg" few.seg
"$make_run" --small --samples 400 --calls 200 --rounds 2 "$folder/zstd.lap"
cp "$folder/zstd.lap/p0001-000001.seg" zstd.seg
"$make_run" --small --rounds 9 --segment 900 --pack segments.lapz "$folder/s.lap"
"$make_run" --small --rounds 9 --calls 9 --segment 900 --thin --pack thinned.lapz \
    "$folder/t.lap"
cp "$folder/t.lap/p0001-000001.seg" thinned.seg

# Runs that something happened to.
cp -r "$folder/s.lap" "$folder/damaged.lap"
printf 'garbage' >"$folder/damaged.lap/p0001-000002.seg"
rm "$folder/damaged.lap/p0001-000003.seg"
tar -cf damaged.lapz --format=ustar -C "$folder" damaged.lap
cp -r "$folder/one.lap" "$folder/info.lap"
cat >"$folder/info.lap/run.json" <<'JSON'
{"format": "lapwing run", "major": 1, "minor": 0, "state": "running", "command": "a b",
 "arguments": ["a", "b"], "parameters": {"lr": "0.1", "n": "3"}, "facts": {"host": "x"},
 "rank": 1, "clock": {"start_ns": 5, "wall_start_ns": 6}, "exit_code": 3,
 "losses": [{"cause": "disk full", "unit": "spans", "count": 7}], "new": [1, {}, null]}
JSON
tar -cf info.lapz --format=ustar -C "$folder" info.lap
sed -i 's/"major": 1/"major": 9/' "$folder/info.lap/run.json"
tar -cf newer.lapz --format=ustar -C "$folder" info.lap
head -c 300 few.seg >cut.seg
# A chunk in the middle loses its sync, another a byte of its body.
{ head -c 100 few.seg; printf '####'; tail -c +105 few.seg; } >damaged.seg
{ head -c 400 few.seg; printf '#'; tail -c +402 few.seg; } >damaged_body.seg
