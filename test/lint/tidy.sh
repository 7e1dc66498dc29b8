#!/bin/bash
# clang-tidy with .clang-tidy over every unit of src/, bench/ and examples/ that a build folder compiles.
# usage: tidy.sh SOURCE_FOLDER BUILD_FOLDER
set -euo pipefail
cd "$1"
build=$2

if ! command -v clang-tidy >/dev/null; then
    echo "skipped: clang-tidy is not installed"
    exit 77
fi
mapfile -t units < <(python3 - "$build/compile_commands.json" "$PWD" <<'PYTHON'
import json, os, sys
root = sys.argv[2]
names = {os.path.relpath(entry["file"], root) for entry in json.load(open(sys.argv[1]))}
print("\n".join(sorted(name for name in names if name.startswith(("src/", "bench/", "examples/")))))
PYTHON
)
if ((${#units[@]} == 0)); then
    echo "no unit in $build/compile_commands.json"
    exit 1
fi
echo "${#units[@]} units"
# gcc's own flags are in the commands; clang must not stumble over the ones that it does not know.
printf '%s\0' "${units[@]}" | xargs -0 -n 1 -P "$(nproc)" \
    clang-tidy --quiet -p "$build" --extra-arg=-Wno-unknown-warning-option 2> >(grep -v 'warnings generated\|^Suppressed\|^Use -header' >&2)
