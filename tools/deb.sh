#!/bin/sh
# Makes a Debian package of a program that is built: tools/deb.sh PROGRAM FOLDER. It depends on the packages of the libraries that the
# program was linked with, so it is for the release of Debian that it was made on.
set -eu
program=${1:?usage: tools/deb.sh PROGRAM FOLDER} folder=${2:?usage: tools/deb.sh PROGRAM FOLDER}
here=$(dirname "$0")
version=$(sed -n 's/^#define ZEROLAB_VERSION "\(.*\)"/\1/p' "$here/../engine/base/version.h")
command -v dpkg-deb >/dev/null || { echo "make deb: dpkg-deb is missing (package dpkg)"; exit 1; }
command -v dpkg-shlibdeps >/dev/null || { echo "make deb: dpkg-shlibdeps is missing (package dpkg-dev)"; exit 1; }
architecture=$(dpkg --print-architecture)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$here/install.sh" "$program" "$work/root/usr"
strip "$work/root/usr/bin/zerolab"
gzip -9n "$work/root/usr/share/man/man1/zerolab.1"
mkdir -p "$work/root/DEBIAN" "$work/root/usr/share/doc/zerolab" "$work/root/usr/share/zsh/vendor-completions" "$work/debian"
mv "$work/root/usr/share/zsh/site-functions/_zerolab" "$work/root/usr/share/zsh/vendor-completions/_zerolab"
rmdir "$work/root/usr/share/zsh/site-functions"
install -m 644 "$here/../LICENSE" "$work/root/usr/share/doc/zerolab/copyright"
printf 'Source: zerolab\n' >"$work/debian/control" # dpkg-shlibdeps wants to see one
needs=$(cd "$work" && dpkg-shlibdeps -O root/usr/bin/zerolab 2>/dev/null | sed -n 's/^shlibs:Depends=//p')
cat >"$work/root/DEBIAN/control" <<END
Package: zerolab
Version: $version
Architecture: $architecture
Maintainer: The zerolab authors <zerolab@localhost>
Depends: $needs
Installed-Size: $(du -sk "$work/root" | cut -f 1)
Section: science
Priority: optional
Description: see ZeRO, the Zero Redundancy Optimizer, at work
 zerolab trains GPT models with a real ZeRO engine on ranks of one machine and shows
 in the terminal which rank holds which bytes, when a bucket flushes, when a gather was
 prefetched and which operation waited for it. It has guided labs and needs no GPU.
END
package=$folder/zerolab_${version}_$architecture.deb
dpkg-deb -z1 --root-owner-group --build "$work/root" "$package" >/dev/null
echo "$package: sudo apt-get install ./$package"
