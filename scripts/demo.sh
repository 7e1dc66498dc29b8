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
exec "${run[@]}"
