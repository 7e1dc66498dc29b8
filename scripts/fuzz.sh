#!/bin/bash
# Runs each libFuzzer program of a build folder for some seconds, starting from the committed corpus.
# usage: scripts/fuzz.sh FOLDER SECONDS     new inputs: FOLDER/found/NAME; crashes: FOLDER/crash/NAME-*
set -euo pipefail
cd "$(dirname "$0")/.."

if (($# != 2)); then
    echo "usage: scripts/fuzz.sh FOLDER SECONDS" >&2
    exit 2
fi
folder=$1
seconds=$2
count=0
failed=()
mkdir -p "$folder/crash"
for program in "$folder"/fuzz_*; do
    [[ -f $program && -x $program ]] || continue
    name=${program##*/fuzz_}
    mkdir -p "$folder/found/$name"
    corpora=("$folder/found/$name")
    if [[ -d test/fuzz/corpus/$name ]]; then
        corpora+=("test/fuzz/corpus/$name")
    fi
    count=$((count + 1))
    echo "+ fuzz_$name, $seconds s"
    "$program" -max_total_time="$seconds" -rss_limit_mb=2048 -timeout=20 -print_final_stats=1 -verbosity=0 \
        -artifact_prefix="$folder/crash/$name-" "${corpora[@]}" || failed+=("$name")
done
if ((count == 0)); then
    echo "fuzz.sh: no fuzz_* program in $folder" >&2
    exit 1
fi
if ((${#failed[@]})); then
    echo "$((count - ${#failed[@]})) passed, ${#failed[@]} failed: ${failed[*]}; inputs are in $folder/crash" >&2
    exit 1
fi
echo "$count passed, 0 failed"
