#!/usr/bin/env bash
# Makes a Debian with Python for the tests marked `container`, as BASE (default:
# .container/base.tar beside the Makefile). It stands in for python:…-slim, which no package
# registry has. It takes about two minutes, and nothing once it is done.
#
#   tests/containers/base.sh [BASE]
#
# Where buildah and debootstrap can't be had, it says so, and the tests are skipped.
set -euo pipefail

base=${1:-$(cd "$(dirname "$0")/../.." && pwd)/.container/base.tar}
if [ -e "$base" ]; then
    exit 0
fi

skip() {
    echo "The containers are not tested: $*"
    exit 0
}

[ "$(id -u)" = 0 ] || skip "buildah and debootstrap work as root here"
if ! command -v buildah >/dev/null || ! command -v debootstrap >/dev/null; then
    echo "installing buildah and debootstrap"
    { apt-get update --quiet --quiet \
        && DEBIAN_FRONTEND=noninteractive apt-get install --quiet --quiet --yes \
            --no-install-recommends buildah debootstrap; } >/dev/null \
        || skip "buildah and debootstrap can't be installed"
fi

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
echo "making a Debian with Python"
debootstrap --variant=minbase --include=ca-certificates,python3,python3-pip bookworm "$root" \
    >"$root.log" 2>&1 || { tail -n 20 "$root.log"; skip "debootstrap failed"; }
# Whom this machine trusts, the build is to trust as well.
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/* "$root.log"
mkdir -p "$(dirname "$base")"
tar --directory "$root" --create --file "$base.part" .
mv "$base.part" "$base"
