#!/bin/sh
# Make an image of Debian's packages for `--build-arg BASE=localhost/chargehand-base`, where no image registry is
# reachable. Needs root, debootstrap, and podman or docker: `base-image.sh podman`. What debootstrap fetched is kept in
# the user's cache; delete it for newer packages.
set -eu

engine=${1:?podman or docker}
# shellcheck disable=SC1091  # where every Debian has it
. /etc/os-release
archive=${XDG_CACHE_HOME:-$HOME/.cache}/chargehand/base-$VERSION_CODENAME.tar

if [ ! -e "$archive" ]; then
    root=$(mktemp -d)
    trap 'rm -rf "$root"' EXIT
    mkdir -p "${archive%/*}"
    debootstrap --variant=minbase --include=ca-certificates,python3,python3-pip,python3-venv \
        "$VERSION_CODENAME" "$root" >&2
    # As in the official Python images: `python` is there, and pip installs into it.
    ln -s python3 "$root/usr/bin/python"
    rm -rf "$root"/usr/lib/python3*/EXTERNALLY-MANAGED "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/*
    tar -C "$root" -cf "$archive.part" .
    mv "$archive.part" "$archive"
fi
"$engine" import "$archive" localhost/chargehand-base >&2
