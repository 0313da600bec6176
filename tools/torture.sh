#!/bin/sh
# The long forms of the tests, hours of them: sh tools/torture.sh [STAGE…]
#
# Stages: fault valgrind tsan fuzz chroot. Each is one line; what it printed is in build/logs/torture-<stage>.log.
set -u
cd "$(dirname "$0")/.." || exit 1
. tools/deps.sh

STAGES="fault replay random valgrind tsan fuzz chroot"
JOBS=2
FUZZ_SECONDS=${FUZZ_SECONDS:-600}

stage_fault() {
  run_pytest --ignore tests/fault/test_replay.py --ignore tests/fault/test_random.py tests/fault
}

stage_replay() {
  run_pytest tests/fault/test_replay.py
}

stage_random() {
  run_pytest tests/fault/test_random.py
}

run_pytest() {
  deps_as_root env BALLAST_TORTURE=1 sh tools/pytest.sh -n "$JOBS" --dist worksteal -o timeout=36000 "$@"
}

stage_valgrind() {
  deps_ninja build -j "$JOBS" && G_SLICE=always-malloc meson test -C build --no-rebuild --suite unit \
    --num-processes "$JOBS" --timeout-multiplier 30 --print-errorlogs --logbase valgrind \
    --wrapper "valgrind --quiet --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite"
}

# GLib is not built for the thread sanitizer: the preloaded library tells it what GLib's locks order. The sanitizer delivers
# signals late, so tests of their moment are left out.
stage_tsan() {
  DEPS_SETUP="-Db_sanitize=thread -Db_lundef=false -Doptimization=1"
  deps_ninja build-tsan -j "$JOBS" || return 1
  options="exitcode=99:suppressions=$(pwd)/tests/fault/tsan.supp"
  shim=$(pwd)/build-tsan/tests/fault/tsanshim.so
  TSAN_OPTIONS="$options" G_SLICE=always-malloc meson test -C build-tsan --no-rebuild --num-processes "$JOBS" \
    --timeout-multiplier 10 --print-errorlogs --wrapper "env LD_PRELOAD=$shim" || return 1
  deps_as_root env TSAN_OPTIONS="$options" G_SLICE=always-malloc BALLAST_PRELOAD="$shim" \
    sh tools/pytest.sh -n "$JOBS" --dist worksteal --ballast build-tsan/src/ballast -m "not heavy and not plain" \
    -k "not signal and not interrupted and not ctrl_c" tests/e2e tests/fault/test_race.py
}

stage_fuzz() {
  sh tools/fuzz.sh "$FUZZ_SECONDS"
}

# The demo where nothing is installed: a Debian of its own, with this machine's package sources.
stage_chroot() {
  deps_root=$(mktemp -d /var/tmp/ballast-chroot-XXXXXX) || return 1
  deps_as_root unshare --mount --propagation private sh tools/chroot-demo.sh "$deps_root"
  chroot_rc=$?
  deps_as_root rm -rf --one-file-system "$deps_root"
  return $chroot_rc
}

for stage in "$@"; do
  case " $STAGES " in
    *" $stage "*) ;;
    *)
      echo "torture.sh: no stage \"$stage\"; there are: $STAGES" >&2
      exit 2
      ;;
  esac
done

# shellcheck disable=SC2086 # lists of names
deps_debian $DEPS_BUILD $DEPS_PYTHON $DEPS_CHECK $DEPS_LONG && deps_python && deps_hub &&
  deps_models "$MODEL_MINILM" "$MODEL_SILERO" || exit 1
mkdir -p build/logs
deps_ninja build -j "$JOBS" >build/logs/torture-build.log 2>&1 || {
  tail -n 40 build/logs/torture-build.log
  exit 1
}
n_failed=0
# shellcheck disable=SC2048 # names without blanks
for stage in ${*:-$STAGES}; do
  log=build/logs/torture-$stage.log
  started=$(date +%s)
  if "stage_$stage" >"$log" 2>&1 </dev/null; then verdict=ok; else verdict=FAILED n_failed=$((n_failed + 1)); fi
  printf '%-10s %-6s %6d s\n' "$stage" "$verdict" $(($(date +%s) - started))
  [ "$verdict" = ok ] || tail -n 40 "$log" | sed 's/^/    /'
done
[ "$n_failed" -eq 0 ]
