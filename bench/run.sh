#!/bin/sh
# The benchmark of docs/performance.md, on a release build. Arguments go to bench/bench.py (--help).
set -eu
cd "$(dirname "$0")/.."
. tools/deps.sh
# shellcheck disable=SC2086 # lists of names
deps_debian $DEPS_BUILD openssl time xfsprogs mount util-linux python3
DEPS_SETUP="--buildtype=release" deps_ninja build-release
exec /usr/bin/python3 bench/bench.py --ballast build-release/src/ballast "$@"
