#!/bin/bash
# Every C file is as clang-format leaves it, and its comments, which clang-format leaves alone, are
# within 100 columns too. .def files are tables, laid out by hand.
# usage: format.sh SOURCE_FOLDER
set -euo pipefail
cd "$1"

if ! command -v clang-format >/dev/null; then
    echo "skipped: clang-format is not installed"
    exit 77
fi
folders=()
for folder in src test bench include examples; do
    [[ ! -d $folder ]] || folders+=("$folder")
done
mapfile -d '' files < <(find "${folders[@]}" \( -name '*.[ch]' -o -name '*.inc' \) -print0 | sort -z)
if ((${#files[@]} == 0)); then
    echo "no C file below $PWD"
    exit 1
fi
if ! clang-format --dry-run -Werror "${files[@]}"; then
    echo "these are not formatted; run: make format"
    exit 1
fi
if grep -nE '^.{101,}$' "${files[@]}" | grep -E '//'; then
    echo "these comments pass 100 columns"
    exit 1
fi
echo "${#files[@]} checked, 0 wrong"
