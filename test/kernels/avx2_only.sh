#!/bin/bash
# Runs a test program on a CPU that has AVX2 and no AVX-512: the one that valgrind plays. So an AVX2
# kernel that holds an instruction of a newer ISA, or a table that trusts the wrong feature, shows on
# any machine; memory errors show besides.
# usage: avx2_only.sh PRESTAGE PROGRAM
set -euo pipefail

if ! command -v valgrind >/dev/null; then
    echo "skipped: valgrind is not installed"
    exit 77
fi
version=$(valgrind -q "$1" --version)
if [[ $version != *"ISA in use: avx2"* ]]; then
    echo "skipped: the CPU of this valgrind has another ISA: $version"
    exit 77
fi
exec valgrind -q --error-exitcode=1 "$2"
