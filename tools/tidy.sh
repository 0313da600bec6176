#!/bin/sh
# clang-tidy over the sources: sh tools/tidy.sh BUILD JOBS
#
# A file that passed is not looked at again until it, a header or .clang-tidy changes: BUILD/tidy/ has an empty file,
# named by the SHA-256 of all of these, for each that passed.
set -eu
cd "$(dirname "$0")/.."
build=$1
jobs=$2
passed=$build/tidy
mkdir -p "$passed"
shared=$({ cat .clang-tidy && find src -name '*.h' -print0 | sort -z | xargs -0 cat; } | sha256sum)
find src -name '*.c' | sort | while read -r source; do
  key=$({ printf '%s\n' "$shared" "$source" && cat "$source"; } | sha256sum | cut -d ' ' -f 1)
  [ -e "$passed/$key" ] || printf '%s %s\n' "$source" "$key"
done |
  # $1 is the source, $2 its key, as the loop above printed them.
  xargs -P "$jobs" -n 2 sh -c 'clang-tidy-14 --quiet --warnings-as-errors="*" -p "$0" "$1" && : >"$0/tidy/$2"' "$build"
