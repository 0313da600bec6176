#!/bin/sh
# Every test of ballast, from a fresh clone on: sh tools/check.sh [--list | STAGE…]
#
# Installs what is missing, builds, and runs the stages below (all of them, or those named), one line each; a stage that
# fails does not stop the next one. What they print is in build/logs/. The last line is "N passed, N failed".
# docs/testing.md says what each stage shows.
set -u
cd "$(dirname "$0")/.." || exit 1
. tools/deps.sh

STAGES="build layers format tidy man unit asan unit-asan e2e fault e2e-asan"
JOBS=2
LOGS=build/logs
# A report of a sanitizer is an exit code that nothing of ours uses.
# Preloaded libraries of the tests may come before the sanitizer's.
export ASAN_OPTIONS="exitcode=99:detect_stack_use_after_return=1:strict_string_checks=1:verify_asan_link_order=0"
export UBSAN_OPTIONS="print_stacktrace=1"
export LC_ALL=C.UTF-8
export PYTHONDONTWRITEBYTECODE=1

stage_build() {
  deps_ninja build -j "$JOBS"
}

stage_layers() {
  /usr/bin/python3 tools/layers.py build
}

stage_format() {
  find src tests bench -name '*.[ch]' -print0 | xargs -0 clang-format-14 --dry-run -Werror
}

stage_tidy() {
  /usr/bin/python3 tools/tidy.py build "$JOBS"
}

stage_man() {
  sh tools/man.sh build/man
}

stage_unit() {
  run_meson_tests build
}

stage_asan() {
  DEPS_SETUP="-Db_sanitize=address,undefined -Db_lundef=false -Dc_args=-fno-sanitize-recover=undefined -Doptimization=1"
  deps_ninja build-asan -j "$JOBS"
}

stage_unit_asan() {
  run_meson_tests build-asan
}

stage_e2e() {
  run_pytest tests/e2e
}

stage_fault() {
  run_pytest tests/fault
}

stage_e2e_asan() {
  run_pytest tests/e2e --ballast build-asan/src/ballast -m 'not heavy and not plain'
}

run_meson_tests() {
  meson test -C "$1" --no-rebuild --num-processes "$JOBS" --print-errorlogs
  run_rc=$?
  cp "$1/meson-logs/testlog.junit.xml" "$junit"
  return $run_rc
}

run_pytest() {
  deps_as_root env ASAN_OPTIONS="$ASAN_OPTIONS" UBSAN_OPTIONS="$UBSAN_OPTIONS" \
    sh tools/pytest.sh -n "$JOBS" --dist worksteal --junitxml "$junit" "$@"
}

# Runs one stage, adds its cases to the totals, and says how it went. A stage without test cases of its own is one case.
run_stage() {
  log=$LOGS/$1.log
  junit=$LOGS/$1.xml
  rm -f "$junit"
  started=$(date +%s)
  "stage_$(printf %s "$1" | tr - _)" >"$log" 2>&1 </dev/null
  rc=$?
  passed=0 failed=0 skipped=0
  if [ -e "$junit" ]; then
    counts=$(/usr/bin/python3 tools/count.py "$junit") || rc=1
    read -r passed failed skipped <<EOF
${counts:-0 0 0}
EOF
    # Something broke beside the cases, or there were none.
    if [ "$failed" -eq 0 ] && { [ $rc -ne 0 ] || [ "$passed" -eq 0 ]; }; then failed=1; fi
  elif [ $rc -eq 0 ]; then
    passed=1
  else
    failed=1
  fi
  printf '%-10s %5d passed, %d failed%s  %4d s\n' "$1" "$passed" "$failed" \
    "$([ "$skipped" -eq 0 ] || printf ', %d skipped' "$skipped")" $(($(date +%s) - started))
  if [ "$failed" -ne 0 ]; then
    tail -n 40 "$log" | sed 's/^/    /'
    printf '    (all of it: %s)\n' "$log"
  elif [ "$skipped" -ne 0 ]; then
    grep -i 'skip' "$log" | sed 's/^/    /'
  fi
  total_passed=$((total_passed + passed))
  total_failed=$((total_failed + failed))
  total_skipped=$((total_skipped + skipped))
}

for stage in "$@"; do
  case " $STAGES --list " in
    *" $stage "*) ;;
    *)
      echo "check.sh: no stage \"$stage\"; there are: $STAGES" >&2
      exit 2
      ;;
  esac
done
case " $* " in
  *" --list "*)
    echo "$STAGES" | tr ' ' '\n'
    exit 0
    ;;
esac

# shellcheck disable=SC2086 # lists of names
deps_debian $DEPS_BUILD $DEPS_PYTHON $DEPS_CHECK && deps_python && deps_hub && deps_models "$MODEL_MINILM" "$MODEL_SILERO" || exit 1
mkdir -p "$LOGS"
total_passed=0 total_failed=0 total_skipped=0
# shellcheck disable=SC2048 # names without blanks
for stage in ${*:-$STAGES}; do
  run_stage "$stage"
done
printf '%d passed, %d failed%s\n' "$total_passed" "$total_failed" \
  "$([ "$total_skipped" -eq 0 ] || printf ', %d skipped' "$total_skipped")"
[ "$total_failed" -eq 0 ]
