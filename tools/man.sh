#!/bin/sh
# Builds the manual pages into FOLDER and lints them: sh tools/man.sh FOLDER
set -eu
cd "$(dirname "$0")/.."
out=$1
mkdir -p "$out"
bad=0
for page in man/*.scd; do
  name=${page##*/}
  made=$out/${name%.scd}
  scdoc <"$page" >"$made" || bad=1
  # scdoc leaves the date to the build, and writes no file names with spaces: warnings about style are its own.
  mandoc -T lint -W error "$made" || bad=1
done
exit $bad
