#!/bin/sh
# Unpacks a CUDA compiler into a folder, so that a machine without one can compile and link what runs on a GPU:
#
#     tools/cuda-toolkit.sh [13|12] [FOLDER]        build/cuda-toolkit; `make` looks there
#
# 13: NVIDIA's wheels from PyPI, with cuBLASLt and NCCL; some 880 MB come over the network. 12: Debian 13's packages (non-free, CUDA
# 12.4), because the wheels of CUDA 12 have no nvcc; some 1140 MB, of which the compiler, headers and the static runtime are kept.
# Nothing is installed, no root is needed, and the machine's own lists of packages stay as they are. Does nothing where an nvcc of
# CUDA 12 or later is there already, or of the version that was asked for.
set -eu
cd "$(dirname "$0")/.."
wanted=${1:-} folder=${2:-build/cuda-toolkit}
case $wanted in '' | 12 | 13) ;; *) echo "usage: tools/cuda-toolkit.sh [13|12] [FOLDER]" >&2; exit 2 ;; esac

release_of() { "$1" --version 2>/dev/null | sed -n 's/.*release \([0-9.]*\).*/\1/p'; }
for nvcc in "$(command -v nvcc || true)" /usr/local/cuda/bin/nvcc "$folder/bin/nvcc"; do
    [ -n "$nvcc" ] && [ -x "$nvcc" ] || continue
    major=$(release_of "$nvcc" | cut -d. -f1)
    if [ "${major:-0}" -ge 12 ] && [ "${wanted:-$major}" = "$major" ]; then
        echo "cuda-toolkit: $nvcc is there, CUDA $(release_of "$nvcc")"
        exit 0
    fi
done
if [ "$(uname -m)" != x86_64 ]; then
    echo "cuda-toolkit: this takes packages for x86-64, and this machine is another; install the CUDA toolkit by hand"
    exit 1
fi

mkdir -p "$(dirname "$folder")"
work=$(mktemp -d "$(dirname "$folder")/cuda-toolkit-XXXXXX")
trap 'rm -rf "$work"' EXIT
work=$(cd "$work" && pwd)
tree=$work/toolkit
mkdir -p "$tree"
cannot() {
    tail -n 5 "$work/log"
    echo "cuda-toolkit: the packages could not be downloaded (above)"
    exit 1
}

from_wheels() {
    python3 -m pip download -q --no-deps --only-binary=:all: -d "$work/wheels" nvidia-cuda-nvcc nvidia-nvvm nvidia-cuda-crt nvidia-cuda-cccl \
        nvidia-cuda-runtime nvidia-nvtx nvidia-cublas nvidia-nccl-cu13 >"$work/log" 2>&1 || cannot
    for wheel in "$work"/wheels/*.whl; do python3 -m zipfile -e "$wheel" "$work/root"; done
    mv "$work"/root/nvidia/cu13/* "$tree"
    cp -R "$work"/root/nvidia/nccl/include "$work"/root/nvidia/nccl/lib "$tree"
    rm -f "$tree"/lib/libcublas.so.* "$tree"/lib/libnvblas.so.* "$tree"/lib/libnvvm.so.*
    ln -s lib "$tree/lib64"
    chmod +x "$tree"/bin/* "$tree"/nvvm/bin/*
}

from_debian() {
    mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/debs" "$work/root" "$tree/bin" "$tree/nvvm" "$tree/lib64"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian trixie main contrib non-free" >"$work/sources.list"
    apt() {
        apt-get -q -o Dir::Etc::SourceList="$work/sources.list" -o Dir::Etc::SourceParts=- -o Dir::State::Lists="$work/lists" \
            -o Dir::Cache="$work/cache" -o APT::Sandbox::User= "$@" >>"$work/log" 2>&1
    }
    apt update && (cd "$work/debs" && apt download nvidia-cuda-toolkit nvidia-cuda-dev libcu++-dev libnccl-dev) || cannot
    # Of each package what is wanted and in it: most of them are other libraries.
    for package in "$work"/debs/*.deb; do
        dpkg --fsys-tarfile "$package" | tar x -C "$work/root" --wildcards './usr/bin/*' './usr/include/*' './usr/lib/nvidia-cuda-toolkit/bin/*' \
            './usr/lib/nvidia-cuda-toolkit/libdevice/*' '*/libcudart_static.a' '*/libcudadevrt.a' 2>/dev/null || [ $? -eq 2 ]
    done
    mv "$work"/root/usr/lib/nvidia-cuda-toolkit/bin/* "$tree/bin"
    rm -f "$tree/bin/nvcc.profile" "$tree/bin/gcc" "$tree/bin/g++"
    for tool in ptxas fatbinary cudafe++ nvlink bin2c cuobjdump; do mv "$work/root/usr/bin/$tool" "$tree/bin"; done
    mv "$work/root/usr/lib/nvidia-cuda-toolkit/libdevice" "$tree/nvvm"
    mv "$work/root/usr/include" "$tree"
    mv "$work"/root/usr/lib/x86_64-linux-gnu/libcudart_static.a "$work"/root/usr/lib/x86_64-linux-gnu/libcudadevrt.a "$tree/lib64"
    # shellcheck disable=SC2016
    printf '%s\n' 'TOP = $(_HERE_)/..' 'CICC_PATH = $(TOP)/bin' 'NVVMIR_LIBRARY_DIR = $(TOP)/nvvm/libdevice' \
        'PATH += $(TOP)/bin:' 'INCLUDES += "-I$(TOP)/include"' 'LIBRARIES =+ "-L$(TOP)/lib64"' >"$tree/bin/nvcc.profile"
}

if [ "$wanted" = 12 ]; then from_debian; else from_wheels; fi
rm -rf "$folder"
mv "$tree" "$folder"
echo "cuda-toolkit: CUDA $(release_of "$folder/bin/nvcc") in $folder, $(du -sm "$folder" | cut -f 1) MiB"
