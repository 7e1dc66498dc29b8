#!/bin/bash
# Two minutes from a checkout to an answer: builds prestage, fetches SmolLM2 (98 MB) and runs it.
# usage: scripts/demo.sh [PROMPT]     THREADS=N limits the threads
set -euo pipefail
cd "$(dirname "$0")/.."

prompt=${1:-"Explain in a few sentences why a computer keeps a cache."}
scripts/install-deps.sh demo
make --no-print-directory release
model=$(scripts/fetch-models.py smollm2)

run=(build/release/prestage run "$model" -p "$prompt" -n 64 --temp 0 --stats)
if [[ -n ${THREADS:-} ]]; then
    run+=(-t "$THREADS")
fi

echo
printf '+'
for word in "${run[@]}"; do
    if [[ $word == *[^A-Za-z0-9_./:=-]* ]]; then
        word="'$word'"
    fi
    printf ' %s' "$word"
done
printf '\n\n'
"${run[@]}"

# The same on two ranks that wait 40 us for each other, as hosts would; what they read in the meantime, and what it brings.
if [[ $(nproc) -ge 2 ]]; then
    ranks=(build/release/prestage run "$model" -p "$prompt" -n 320 --ignore-eos --temp 0 --tp 2 --comm-sim latency=40us)
    echo
    echo
    echo "two ranks, a link of 40 us: prefetching off, then auto"
    for policy in off auto; do
        "${ranks[@]}" --prefetch "$policy" --stats --trace "build/demo-$policy.json" \
            >"build/demo-$policy.txt" 2>"build/demo-$policy.stats"
        grep '^decode' "build/demo-$policy.stats"
    done
    cmp build/demo-off.txt build/demo-auto.txt && echo "the answers are equal"
    sed -n '/prefetch/,$p' build/demo-auto.stats
    echo
    build/release/prestage overlap build/demo-auto.json
fi
