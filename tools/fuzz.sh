#!/bin/sh
# Fuzzes the readers of foreign bytes with libFuzzer and the sanitizers: sh tools/fuzz.sh [SECONDS [TARGET…]]
#
# Every target of tests/fuzz runs for so many seconds (120). New inputs are kept in build/fuzz/TARGET; what crashes is
# build/fuzz/TARGET-crash-…: copy it to tests/fuzz/corpus/TARGET with the fix, and the plain tests replay it.
set -eu
cd "$(dirname "$0")/.."
. tools/deps.sh
# shellcheck disable=SC2086 # lists of names
deps_debian $DEPS_BUILD clang-14 libclang-rt-14-dev

seconds=${1:-120}
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- $(ls tests/fuzz/fuzz_*.c | sed 's,.*/fuzz_,,; s,\.c$,,')
out=build/fuzz
libraries="glib-2.0 jansson libcrypto libisal"
mkdir -p "$out"
python3 tests/refuse/make.py "$out/refuse" >/dev/null

for target in "$@"; do
  # shellcheck disable=SC2046
  clang-14 -std=gnu11 -g -O1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined -fno-strict-aliasing \
    -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -DG_LOG_DOMAIN='"ballast"' -DBALLAST_VERSION='"fuzz"' -Isrc -Iinclude -I. \
    $(pkg-config --cflags $libraries) -o "$out/fuzz_$target" "tests/fuzz/fuzz_$target.c" \
    src/base/*.c src/store/*.c src/model/*.c $(pkg-config --libs $libraries)
  mkdir -p "$out/$target"
  seeds=
  [ "$target" != manifest ] || seeds=docs/formats/golden
  for folder in "tests/fuzz/corpus/$target" "$out/refuse/$target"; do
    [ ! -d "$folder" ] || seeds="$seeds $folder"
  done
  # shellcheck disable=SC2086
  "$out/fuzz_$target" -max_total_time="$seconds" -max_len=4096 -timeout=10 -rss_limit_mb=1024 -print_final_stats=1 \
    -dict=tests/fuzz/words.dict -artifact_prefix="$out/$target-" "$out/$target" $seeds
done
