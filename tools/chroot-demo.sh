#!/bin/sh
# Runs the demo twice in a new Debian below FOLDER: sh tools/chroot-demo.sh FOLDER
#
# For tools/torture.sh, as root in a mount namespace of its own. The second run must install nothing.
set -eu
cd "$(dirname "$0")/.."
root=$1

# shellcheck disable=SC2016 # apt-get's own word
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Codename: bookworm' 'Identifier: Packages' | head -n 1)
debootstrap --variant=minbase bookworm "$root" "$mirror"
# This machine's way to the package registries.
for file in /etc/apt/sources.list /etc/apt/sources.list.d /etc/apt/apt.conf.d /etc/apt/keyrings /etc/resolv.conf \
  /etc/hosts; do
  [ ! -e "$file" ] || cp -aL "$file" "$root/etc/$([ "${file#/etc/apt}" = "$file" ] || echo apt/)"
done
[ ! -e /etc/ssl/certs/ca-certificates.crt ] || cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/host-certificates.crt"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"

mkdir "$root/ballast"
tar -c --exclude='./build*' --exclude=./.git . | tar -x -C "$root/ballast"
in_there() {
  chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
    PIP_CERT=/etc/host-certificates.crt ${PIP_INDEX_URL:+PIP_INDEX_URL="$PIP_INDEX_URL"} sh -c "cd /ballast && $1"
}
in_there "sh tools/demo.sh"
in_there "sh tools/demo.sh 2>&1 >/dev/null" >"$root/second"
if [ -s "$root/second" ]; then
  echo "the second run did more than show:" && cat "$root/second"
  exit 1
fi
# Nothing but build/ is left behind.
left=$(find "$root/tmp" "$root/root" -mindepth 1 ! -name .bashrc ! -name .profile ! -path '*/.cache*')
[ -z "$left" ] || {
  echo "left behind: $left"
  exit 1
}
