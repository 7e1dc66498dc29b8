#!/bin/bash
# Goal: what `cmake --install` leaves is enough to use the command, the library and the manual page.
# Method: install into a temporary folder, build examples/generate.c against it by pkg-config alone, and let
# command and example answer the same prompt. Without the model the last part is skipped (77).
# usage: install.sh SOURCE_FOLDER BUILD_FOLDER CC
set -euo pipefail
source=$1
build=$2
cc=$3

fail() {
    echo "install.sh: $*"
    exit 1
}

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
cmake --install "$build" --prefix "$root/first" >/dev/null
# pkg-config must find the library from where it stands, not from where it was installed.
mv "$root/first" "$root/moved"
prefix=$root/moved

pc=$(find "$prefix" -name prestage.pc)
[[ -n $pc ]] || fail "no prestage.pc"
PKG_CONFIG_PATH=$(dirname "$pc")${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
export PKG_CONFIG_PATH
version=$("$prefix/bin/prestage" --version)
[[ $version == *"$(pkg-config --modversion prestage)"* ]] ||
    fail "prestage --version says '$version', prestage.pc $(pkg-config --modversion prestage)"
if [[ -f $source/man/prestage.1 ]]; then
    [[ -f $prefix/share/man/man1/prestage.1 ]] || fail "no manual page in share/man/man1"
fi
[[ $(find "$prefix" -name '*.a' | wc -l) == 1 ]] || fail "one library was expected: $(find "$prefix" -name '*.a')"

read -r -a flags <<<"$(pkg-config --static --cflags --libs prestage)"
"$cc" -std=c11 -Wall -Wextra -Werror "$source/examples/generate.c" "${flags[@]}" -o "$root/generate"
if "$root/generate" "$root/none.gguf" x 1 2>"$root/error"; then
    fail "the example opened a file that does not exist"
fi
grep -q none.gguf "$root/error" || fail "the example's error does not name the file: $(cat "$root/error")"

model=${PRESTAGE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/prestage}/models/SmolLM2-135M-Instruct.Q4_1.gguf
if [[ ! -f $model ]]; then
    echo "skipped: the answers were not compared; run scripts/fetch-models.py smollm2"
    exit 77
fi
prompt="The capital of France is"
answer=$("$root/generate" "$model" "$prompt" 8)
[[ $answer == *Paris* ]] || fail "the example answered '$answer'"
command_answer=$("$prefix/bin/prestage" run "$model" --raw -p "$prompt" -n 8 --temp 0 </dev/null)
[[ $command_answer == *"${answer## }"* ]] || fail "prestage run answered '$command_answer', the example '$answer'"
echo "both answered:$answer"
