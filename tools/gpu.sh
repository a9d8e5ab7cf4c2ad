#!/bin/sh
# What `make test-gpu` and `make bench-gpu` do: build the programs that need a GPU and little else, and run them.
#
#     [ZEROLAB=PROGRAM] tools/gpu.sh test-gpu|bench-gpu BUILD
#
# It takes a C compiler, the CUDA toolkit and a GPU. Which of our other libraries are missing is said first; what needs them is
# not part of this build (plain products stand in for oneDNN's as the reference). What another compiler warns of is no reason to stop.
# The whole engine needs those libraries: where they are missing, ZEROLAB names one that was built elsewhere (`make program CUDA=1`).
# All that is printed is also in $OUT (else BUILD)/test-gpu.log, as it comes.
set -u
# The make that called is not asked for a share of its jobs: what it hands down to a script is closed, and all would be made one by one.
unset MAKEFLAGS MFLAGS MAKELEVEL
what=$1 build=$2
log=${OUT:-$build}/$what.log
began=$(date +%s)
mkdir -p "$(dirname "$log")"

# All of test-gpu ends within eight minutes: within SECONDS COMMAND... stops the command then, or when no more time is left.
within() {
    left=$((began + 470 - $(date +%s)))
    [ "$what" = test-gpu ] || left=$1
    [ $left -gt 5 ] || { echo "== left out, no time is left: $*"; return 124; }
    [ $left -lt "$1" ] || left=$1
    shift
    timeout -k 10 "$left" "$@"
}

# ---- what is here -----------------------------------------------------------------------------------------------------------

has_header() { echo "#include <$1>" | ${CC:-cc} -DPCRE2_CODE_UNIT_WIDTH=8 -E - >/dev/null 2>&1; }
ask_gpu() { nvidia-smi --query-gpu="$1" --format=csv,noheader 2>/dev/null | head -n 1; }

look_for_libraries() {
    missing= left_out=
    has_header mpi.h || pkg-config --exists ompi-c 2>/dev/null || missing="$missing MPI"
    for pair in ncurses:curses.h cJSON:cjson/cJSON.h libaio:libaio.h zstd:zstd.h zlib:zlib.h PCRE2:pcre2.h oneDNN:dnnl.h; do
        has_header "${pair#*:}" || left_out="$left_out ${pair%%:*}"
    done
    missing=$missing$left_out
    gpu=$(ask_gpu name,driver_version,memory.total)
    echo "== $what: ${gpu:-no GPU that nvidia-smi knows of}"
    echo "== not on this machine, and left out of this build:${missing:- nothing}"
}

# Parts of the toolkit may have come apart from it, as wheels of Python: first_file PATTERN... prints the first that is there.
first_file() {
    for file in "$@"; do
        [ ! -e "$file" ] || { echo "$file"; return; }
    done
}

# Sets the make variables by which the build finds the toolkit's parts, and the path on which programs find its libraries.
look_for_toolkit() {
    nvcc=$(command -v nvcc || first_file /usr/local/cuda/bin/nvcc build/cuda-toolkit/bin/nvcc)
    [ -n "$nvcc" ] || { echo "== nvcc is neither on PATH nor in /usr/local/cuda: there is nothing to build with"; return 1; }
    home=$(dirname "$(dirname "$(realpath "$nvcc")")")
    wheels=$(python3 -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])' 2>/dev/null)/nvidia
    header=$(first_file "$home"/include/cublasLt.h "$home"/targets/*/include/cublasLt.h /usr/include/cublasLt.h "$wheels"/*/include/cublasLt.h)
    library=$(first_file "$home"/lib64/libcublasLt.so.* "$home"/targets/*/lib/libcublasLt.so.* /usr/lib/*/libcublasLt.so.* "$wheels"/*/lib/libcublasLt.so.*)
    runtime=$(first_file "$home"/lib64/libcudart_static.a "$home"/targets/*/lib/libcudart_static.a /usr/lib/*/libcudart_static.a \
        "$home"/lib64/libcudart.so.* "$home"/targets/*/lib/libcudart.so.* "$wheels"/*/lib/libcudart.so.*)
    echo "== CUDA: $nvcc, ${header:-no cublasLt.h}, ${library:-no libcublasLt}, ${runtime:-no libcudart}"
    [ -n "$header" ] && [ -n "$library" ] && [ -n "$runtime" ] ||
        { echo "== what is missing belongs to the CUDA toolkit (packages cuda-cudart-dev, libcublas-dev)"; return 1; }
    case $header in
    "$wheels"/*) # nothing else of that folder, which may be of another version than nvcc
        mkdir -p "$build/cuda-headers"
        ln -sf "$(dirname "$header")"/cublas*.h "$build/cuda-headers/"
        export CUDA_INCLUDE="$build/cuda-headers"
        ;;
    esac
    nccl=$(first_file "$home"/include/nccl.h /usr/include/nccl.h /usr/local/include/nccl.h "$wheels"/*/include/nccl.h)
    case $nccl in "$wheels"/*) export NCCL="$(dirname "$(dirname "$nccl")")" ;; esac
    case $runtime in *.so.*) export CUDART="$runtime" ;; esac
    for folder in $(dirname "$library") $(dirname "$runtime") "$wheels"/*/lib; do
        [ ! -d "$folder" ] || export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder"
    done
}

build_for_gpu() {
    arch=$(ask_gpu compute_cap | tr -d .)
    make --no-print-directory CUDA=1 WERROR= ${arch:+CUDA_ARCHS="$arch"} -j"$(nproc)" "$@"
}

# The whole engine: one that was built elsewhere, or made here if all libraries are.
look_for_engine() {
    program=${ZEROLAB:-}
    if [ -z "$program" ] && [ -z "$left_out" ]; then build_for_gpu all && program=$build/zerolab || failed=1; fi
    [ -n "$program" ] || echo "== the engine on the GPU: left out for want of$left_out; ZEROLAB may name one (make program CUDA=1)"
}

# ---- tests ------------------------------------------------------------------------------------------------------------------

# run SECONDS COMMAND...: at most so many; its time is printed.
run() {
    limit=$1
    shift
    echo "== $*"
    start=$(date +%s)
    within "$limit" "$@" 2>&1 || failed=1
    echo "== $(($(date +%s) - start)) s"
}

# What time does not allow is said, and is no fault; only a finding is.
sanitized() {
    echo "== compute-sanitizer $*"
    within 90 compute-sanitizer --error-exitcode 9 --target-processes all --tool "$@" >"$log.sanitizer" 2>&1
    status=$?
    tail -n 3 "$log.sanitizer"
    case $status in
    0) echo "ok - compute-sanitizer $1 is clean" ;;
    9) failed=1 && echo "not ok - compute-sanitizer $1" && grep -m 20 '^=====' "$log.sanitizer" ;;
    124 | 137) echo "== it did not come to its end in time, and says nothing" ;;
    *) grep -q 'Device not supported' "$log.sanitizer" && { echo "== it does not know this device, and says nothing"; return; }
        failed=1 && echo "not ok - compute-sanitizer $1: status $status" ;;
    esac
}

sanitize() {
    command -v compute-sanitizer >/dev/null || { echo "== compute-sanitizer: not here"; return; }
    for tool in memcheck racecheck; do
        [ -z "$program" ] || sanitized $tool "$program" train configs/nano.json --headless --steps 2 -n 1 \
            --set topology.backend=cuda --set bf16.enabled=true --set train_micro_batch_size_per_gpu=1
        sanitized $tool "$build/tests/test_cuda_kernels" "" small
    done
}

test_gpu() {
    for program_of_tests in "$build"/tests/test_cuda_*; do
        case $program_of_tests in *.o | *.d) continue ;; esac
        run 400 "$program_of_tests"
    done
    if ! grep -q '^ok ' "$log"; then
        echo "nothing ran: there is no GPU here"
        failed=1
        return
    fi
    look_for_engine
    [ -z "$program" ] || run 240 env ZEROLAB="$program" GPU="$program" tests/test_gpu.sh
    [ -z "$program" ] || run 120 env ZEROLAB="$program" GPU="$program" tests/test_gpu_lanes.sh
    sanitize
    echo "$(grep -c '^ok ' "$log") passed, $(grep -c '^not ok ' "$log") failed"
    ! grep -q '^not ok ' "$log" || failed=1
}

# ---- figures ----------------------------------------------------------------------------------------------------------------

bench_gpu() {
    for program_of_kernels in "$build"/tests/bench_cuda_*; do
        case $program_of_kernels in *.o | *.d) continue ;; esac
        run 240 "$program_of_kernels"
    done
    look_for_engine
    [ -z "$program" ] || run 240 tests/gpu_engine_speed.sh "$program"
    [ -z "$program" ] || run 400 tests/gpu_fit.sh "$program"
    if python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then run 300 python3 -u tests/gpu_peers.py
    else echo "== peers: no PyTorch with a GPU here"; fi
}

all() {
    failed=0
    look_for_libraries
    look_for_toolkit && build_for_gpu gpu-programs || return 1
    case $what in
    test-gpu) test_gpu ;;
    bench-gpu) bench_gpu ;;
    esac
    return $failed
}

# A pipe's status is tee's; what became of the rest is left behind in a file.
{ all; echo $? >"$log.status"; } 2>&1 | tee "$log"
read -r status <"$log.status" && rm -f "$log.status"
exit "$status"
