#!/bin/bash
# Runs shellcheck on every shell script; bash -n where shellcheck is missing.
# usage: shell.sh SOURCE_FOLDER
set -euo pipefail
cd "$1"

mapfile -d '' scripts < <(find scripts test .ci \( -name '*.sh' -o -path '.ci/run' \) -print0 | sort -z)
if command -v shellcheck >/dev/null; then
    shellcheck --format=gcc "${scripts[@]}"
else
    for script in "${scripts[@]}"; do
        bash -n "$script"
    done
    echo "shellcheck is not installed; syntax alone was checked"
fi
echo "${#scripts[@]} checked, 0 wrong"
