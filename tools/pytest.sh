#!/bin/sh
# Runs pytest for tests/e2e and tests/fault: sh tools/pytest.sh ARGUMENT…
#
# As root, for loop devices and other users. In mount and pid namespaces of its own, so that nothing stays mounted and
# nothing keeps running, however it ends. Temporary folders are in memory, where fsync costs nothing: the tests of
# durability bring file systems of their own.
set -eu
cd "$(dirname "$0")/.."
if [ "${1-}" != --inside ]; then
  exec unshare --mount --propagation private --pid --fork --kill-child --mount-proc sh tools/pytest.sh --inside "$@"
fi
shift
# Over /mnt, as seen from here alone: a path that other users may enter, wherever the sources lie.
mount -t tmpfs -o mode=755,size=8g tmpfs /mnt
exec env LC_ALL=C.UTF-8 PYTHONDONTWRITEBYTECODE=1 TMPDIR=/mnt \
  build/venv/bin/python -m pytest --basetemp /mnt/tmp "$@"
