#!/bin/sh
# Installs what the build and the tests need: looks for each piece, says what is missing, installs it with apt-get where it may
# (root, or sudo without a password), and otherwise prints the one command to type. It is silent, and does not use the network,
# when nothing is missing. --check: only say what the build needs, and install nothing. --packages: print the list.
set -u

has_command() { command -v "$1" >/dev/null 2>&1; }
has_library() { pkg-config --exists "$1" 2>/dev/null; }
has_header() { [ -e "/usr/include/$1" ] || echo "#include <$1>" | cc -E - >/dev/null 2>&1; }
has_openmp() { echo '#include <omp.h>' | $CC -x c -fopenmp -fsyntax-only - 2>/dev/null; }
has_compiler() { echo '#include <stdio.h>' | cc -x c -fsyntax-only - 2>/dev/null; }

# What is looked for, how, and the Debian package that has it.
pieces() {
    cat <<-END
	has_compiler cc build-essential C compiler
	has_command pkg-config pkg-config finding libraries
	has_header ncursesw/ncurses.h libncurses-dev the terminal
	has_header cjson/cJSON.h libcjson-dev JSON
	has_header zstd.h libzstd-dev trace compression
	has_header zlib.h zlib1g-dev checksums
	has_header pcre2.h libpcre2-dev words of a byte-pair encoding
	has_header libaio.h libaio-dev NVMe I/O
	has_header dnnl.h libdnnl-dev matrix products
	has_library ompi-c libopenmpi-dev ranks that mpirun starts
	has_command mpirun openmpi-bin starting them
	has_header cmocka.h libcmocka-dev tests
	has_command tmux tmux screen tests
	has_command ip iproute2 tests of two hosts
	END
    case ${CC:-} in *clang*) echo has_openmp clang libomp-dev threads of clang ;; esac # gcc brings its own
}

missing() {
    pieces | while read -r check name package purpose; do
        $check "$name" || echo "$package $purpose"
    done
}

if [ "${1:-}" = --packages ]; then # the list, for machines that are to have no network later
    pieces | cut -d ' ' -f 3
    exit 0
fi

lines=$(missing)
# A build needs neither the tests' packages nor Open MPI.
[ "${1:-}" != --check ] || lines=$(echo "$lines" | grep -vE ' (ranks|launching|tests|screen)' || true)
[ -z "$lines" ] && exit 0
packages=$(echo "$lines" | cut -d ' ' -f 1 | sort -u | tr '\n' ' ')
echo "zerolab: missing on this machine:"
echo "$lines" | while read -r package purpose; do printf '    %-18s %s\n' "$package" "$purpose"; done

install="apt-get install -y --no-install-recommends $packages"
if [ "${1:-}" = --check ]; then
    echo "zerolab: install them, then try again: sudo $install"
    exit 1
elif ! has_command apt-get; then
    echo "zerolab: there is no apt-get here; install the equivalents of: $packages"
    exit 1
elif [ "$(id -u)" = 0 ]; then
    as_root="env DEBIAN_FRONTEND=noninteractive"
elif has_command sudo && sudo -n true 2>/dev/null; then
    as_root="sudo -n env DEBIAN_FRONTEND=noninteractive"
else
    echo "zerolab: please type this, then try again:"
    echo "    sudo apt-get update && sudo $install"
    exit 1
fi

echo "zerolab: installing them with apt-get ..."
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! { $as_root apt-get update && $as_root $install; } >"$log" 2>&1 </dev/null; then
    tail -n 15 "$log"
    echo "zerolab: apt-get failed (above); once it works, this is all that is needed:"
    echo "    apt-get update && $install"
    exit 1
fi
lines=$(missing)
[ -z "$lines" ] && exit 0
echo "zerolab: still missing after the installation:"
echo "$lines"
exit 1
