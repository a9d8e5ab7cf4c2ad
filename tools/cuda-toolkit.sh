#!/bin/sh
# Unpacks a CUDA compiler into a folder, so that a machine without one can at least compile and link what runs on a GPU:
#
#     tools/cuda-toolkit.sh [FOLDER]        build/cuda-toolkit; `make` looks there
#
# Debian 12's packages (non-free, CUDA 11.8) are downloaded with apt-get, by a list of sources and folders of their own, and what is
# needed of them is taken out: the compiler, headers, the static runtime. Nothing is installed, no root is needed, and the machine's
# own lists stay as they are. Some 860 MB come over the network, 350 MB stay. Does nothing where nvcc is there already.
set -eu
cd "$(dirname "$0")/.."
folder=${1:-build/cuda-toolkit}

for nvcc in "$(command -v nvcc || true)" /usr/local/cuda/bin/nvcc "$folder/bin/nvcc"; do
    if [ -n "$nvcc" ] && [ -x "$nvcc" ]; then
        echo "cuda-toolkit: $nvcc is there"
        exit 0
    fi
done
if [ "$(dpkg --print-architecture 2>/dev/null)" != amd64 ]; then
    echo "cuda-toolkit: this takes Debian's packages for amd64, and this machine is another; install the CUDA toolkit by hand"
    exit 1
fi

mkdir -p "$(dirname "$folder")"
work=$(mktemp -d "$(dirname "$folder")/cuda-toolkit-XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/debs" "$work/root"
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian bookworm non-free" >"$work/sources.list"

apt() {
    apt-get -q -o Dir::Etc::SourceList="$work/sources.list" -o Dir::Etc::SourceParts=- -o Dir::State::Lists="$work/lists" \
        -o Dir::Cache="$work/cache" -o APT::Sandbox::User= "$@" >>"$work/log" 2>&1
}
work=$(cd "$work" && pwd)
if ! apt update || ! (cd "$work/debs" && apt download nvidia-cuda-toolkit nvidia-cuda-dev); then
    tail -n 5 "$work/log"
    echo "cuda-toolkit: the packages could not be downloaded (above)"
    exit 1
fi

# Of each package what is wanted and in it: most of them are other libraries.
for package in "$work"/debs/*.deb; do
    dpkg --fsys-tarfile "$package" | tar x -C "$work/root" --wildcards './usr/bin/*' './usr/include/*' './usr/lib/nvidia-cuda-toolkit/bin/*' \
        './usr/lib/nvidia-cuda-toolkit/libdevice/*' '*/libcudart_static.a' '*/libcudadevrt.a' 2>/dev/null || [ $? -eq 2 ]
done

tree=$work/toolkit
mkdir -p "$tree/bin" "$tree/nvvm" "$tree/lib64"
mv "$work"/root/usr/lib/nvidia-cuda-toolkit/bin/* "$tree/bin"
rm -f "$tree/bin/nvcc.profile" "$tree/bin/gcc" "$tree/bin/g++"
for tool in ptxas fatbinary cudafe++ nvlink bin2c cuobjdump; do mv "$work/root/usr/bin/$tool" "$tree/bin"; done
mv "$work/root/usr/lib/nvidia-cuda-toolkit/libdevice" "$tree/nvvm"
mv "$work/root/usr/include" "$tree"
mv "$work"/root/usr/lib/x86_64-linux-gnu/libcudart_static.a "$work"/root/usr/lib/x86_64-linux-gnu/libcudadevrt.a "$tree/lib64"
# shellcheck disable=SC2016
printf '%s\n' 'TOP = $(_HERE_)/..' 'CICC_PATH = $(TOP)/bin' 'NVVMIR_LIBRARY_DIR = $(TOP)/nvvm/libdevice' \
    'PATH += $(TOP)/bin:' 'INCLUDES += "-I$(TOP)/include"' 'LIBRARIES =+ "-L$(TOP)/lib64"' >"$tree/bin/nvcc.profile"
rm -rf "$folder"
mv "$tree" "$folder"
echo "cuda-toolkit: $("$folder/bin/nvcc" --version | sed -n 's/.*release \([0-9.]*\).*/CUDA \1/p') in $folder"
