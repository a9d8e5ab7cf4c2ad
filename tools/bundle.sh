#!/bin/sh
# One archive for laptops without a network: sources, labs, configurations, documents, and the list of Debian packages that the
# build needs (tools/bootstrap.sh --packages). tools/bundle.sh ARCHIVE.tar.gz
set -eu
cd "$(dirname "$0")/.."
archive=${1:?usage: tools/bundle.sh ARCHIVE.tar.gz}
name=zerolab-$(sed -n 's/^#define ZEROLAB_VERSION "\(.*\)"/\1/p' engine/base/version.h)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

# What git knows or would take; in an unpacked bundle there is no git, and nothing else but what was built.
files() {
    if [ -e .git ]; then git ls-files --cached --others --exclude-standard
    else find . -type f ! -path './build/*' ! -name PACKAGES ! -name "$(basename "$archive")" | sed 's|^\./||'
    fi | sort -u | while read -r file; do [ ! -f "$file" ] || echo "$file"; done
}

mkdir "$place/$name"
files | tar -cf - --files-from=- | tar -xf - -C "$place/$name"
tools/bootstrap.sh --packages >"$place/$name/PACKAGES"
mkdir -p "$(dirname "$archive")"
tar -cf - -C "$place" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@${SOURCE_DATE_EPOCH:-$(date +%s)}" "$name" |
    gzip -9n >"$archive"

echo "$archive: $(($(wc -c <"$archive") / 1024)) KiB, $(tar -tf "$archive" | grep -cv '/$') files. On a laptop with Debian 12 or Ubuntu 24.04:"
echo "    with a network, once:   sudo apt-get install -y --no-install-recommends \$(cat PACKAGES)"
echo "    from then on without:   tar xf $(basename "$archive") && cd $name && make run"
