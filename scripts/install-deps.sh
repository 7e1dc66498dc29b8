#!/bin/bash
# Installs the Debian packages that a purpose needs; quiet and off the network when none is missing.
# usage: scripts/install-deps.sh PURPOSE...     purposes: build test lint demo models bench fuzz fixtures
# Why each package: docs/design/0001-dependencies.md.
set -euo pipefail

packages_for() {
    local build="gcc libc6-dev make cmake ninja-build pkg-config
        libhwloc-dev libpcre2-dev libjansson-dev libxxhash-dev liburing-dev libedit-dev
        libopenmpi-dev libcmocka-dev"
    local fetch="python3 python3-pip ca-certificates"
    case "$1" in
    build | bench) echo "$build" ;;
    test) echo "$build openmpi-bin python3 valgrind" ;;
    fixtures) echo "$fetch python3-jinja2" ;;
    lint) echo "$build g++ git python3 clang-format clang-tidy cppcheck shellcheck" ;;
    demo | models) echo "$build $fetch" ;;
    fuzz) echo "$build clang libclang-rt-14-dev llvm python3" ;;
    *)
        echo "install-deps.sh: no purpose '$1'; there are build, test, lint, demo, models, bench, fuzz, fixtures" >&2
        return 2
        ;;
    esac
}

missing_of() {
    local package state
    for package in "$@"; do
        state=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
        [[ $state == installed ]] || echo "$package"
    done
}

if (($# == 0)); then
    echo "usage: scripts/install-deps.sh PURPOSE... (build, test, lint, demo, models, bench, fuzz, fixtures)" >&2
    exit 2
fi
wanted=()
for purpose in "$@"; do
    list=$(packages_for "$purpose")
    read -r -d '' -a more <<<"$list" || true
    wanted+=("${more[@]}")
done
# Elsewhere the packages have other names; CMake says what it does not find.
command -v dpkg-query >/dev/null || exit 0

mapfile -t missing < <(missing_of "${wanted[@]}" | sort -u)
((${#missing[@]})) || exit 0

if ((EUID == 0)); then
    as_root=(env)
elif command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [[ -t 0 ]]; }; then
    as_root=(sudo env)
else
    echo "prestage needs packages that only root can install. Run this, then try again:" >&2
    echo "  apt-get update && apt-get install -y --no-install-recommends ${missing[*]}" >&2
    exit 1
fi
echo "installing ${missing[*]}" >&2
apt=("${as_root[@]}" DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300
    -o Acquire::Retries=3)
"${apt[@]}" update >&2
"${apt[@]}" install -y --no-install-recommends "${missing[@]}" >&2
