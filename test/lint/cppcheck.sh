#!/bin/bash
# cppcheck's warnings over src/, bench/ and examples/, one configuration.
# usage: cppcheck.sh SOURCE_FOLDER
set -euo pipefail
cd "$1"

if ! command -v cppcheck >/dev/null; then
    echo "skipped: cppcheck is not installed"
    exit 77
fi
# One configuration (-D), no search for system headers: seconds instead of minutes.
cppcheck --quiet --std=c11 --enable=warning,portability --inline-suppr --error-exitcode=1 -j "$(nproc)" \
    --template='{file}:{line}: {message} [{id}]' --suppressions-list=test/lint/cppcheck.suppressions \
    -D__x86_64__ -D_GNU_SOURCE -D__GNUC__=12 -DPS_VERSION='""' -I src -I include src bench examples
