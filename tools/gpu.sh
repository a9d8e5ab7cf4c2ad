#!/bin/sh
# What `make test-gpu` and `make bench-gpu` do: build the programs that need a GPU and little else, and run them.
#
#     [ZEROLAB=PROGRAM] tools/gpu.sh test-gpu|bench-gpu BUILD
#
# KERNELS="gelu norm_forward" make test-gpu looks at kernels of these names alone, at every shape, and under compute-sanitizer.
# PARTS="kernels engine peers telemetry fit" make bench-gpu: only these of the figures, in this order.
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

# All of test-gpu ends within eight minutes, of bench-gpu within ten, which is as long as a command may run on many a rented machine:
# within SECONDS COMMAND... stops the command then (124, 137); where no time is left it is not begun (125).
case $what in test-gpu) all_s=470 ;; *) all_s=580 ;; esac
within() {
    left=$((began + all_s - $(date +%s)))
    [ $left -gt 5 ] || { echo "== left out, no time is left: $*"; return 125; }
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

# As far as it comes: what one file says to this compiler is no reason to know nothing of the rest.
build_for_gpu() {
    arch=$(ask_gpu compute_cap | tr -d .)
    start=$(date +%s)
    within 240 make --no-print-directory -k CUDA=1 WERROR= ${arch:+CUDA_ARCHS="$arch"} -j"$(nproc)" "$@"
    status=$?
    echo "== built in $(($(date +%s) - start)) s"
    return $status
}

# Programs of an earlier build would tell of other sources.
build_programs() {
    for program_of_gpu in "$build"/tests/test_cuda_* "$build"/tests/bench_cuda_*; do
        case $program_of_gpu in *.o | *.d) ;; *) rm -f "$program_of_gpu" ;; esac
    done
    build_for_gpu gpu-programs || { failed=1 && echo "== the build failed; what there is of it is run"; }
}

# The whole engine: one that was built elsewhere, or made here if all libraries are. Asked for once, whatever comes of it.
look_for_engine() {
    [ -z "${asked_for_engine:-}" ] || return
    asked_for_engine=yes
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
    within "$limit" "$@" 2>&1
    status=$?
    [ $status -eq 0 ] || failed=1
    case $status in
    125) echo "not ok - left out: $*" ;;
    124 | 137) echo "not ok - no end after $(($(date +%s) - start)) s: $*" ;;
    esac
    echo "== $(($(date +%s) - start)) s"
}

# What time does not allow is said, and is no fault; only a finding is, or a summary that is missing: a tool that saw no process of
# ours ends well, too. Tests work in children, each of which has a summary of its own.
sanitized() {
    echo "== compute-sanitizer $*"
    within 90 compute-sanitizer --error-exitcode 9 --target-processes all --tool "$@" >"$log.sanitizer" 2>&1
    status=$?
    tail -n 3 "$log.sanitizer"
    summaries=$(grep -E '(ERROR|RACECHECK) SUMMARY:' "$log.sanitizer")
    case $status in
    0)
        if [ -z "$summaries" ]; then failed=1 && echo "not ok - compute-sanitizer $1 looked at nothing"
        elif echo "$summaries" | grep -qvE 'SUMMARY: 0 '; then failed=1 && echo "not ok - compute-sanitizer $1" && grep -m 20 '^=====' "$log.sanitizer"
        else echo "ok - compute-sanitizer $1 is clean"; fi
        ;;
    9) failed=1 && echo "not ok - compute-sanitizer $1" && grep -m 20 '^=====' "$log.sanitizer" ;;
    124 | 125 | 137) echo "== it did not come to its end in time, and says nothing" ;;
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
        sanitized $tool "$build/tests/test_cuda_sums"
    done
}

test_kernels() { # NAME...
    for name in "$@"; do
        "$build/tests/test_cuda_kernels" --list | grep -q "^$name" || { failed=1 && echo "not ok - no kernel's name begins with $name"; continue; }
        run 150 "$build/tests/test_cuda_kernels" "$name"
        command -v compute-sanitizer >/dev/null || { echo "== compute-sanitizer: not here"; continue; }
        for tool in memcheck racecheck; do
            sanitized $tool "$build/tests/test_cuda_kernels" "$name" small
        done
    done
}

# The most telling first; limits are such that whatever hangs leaves time for the rest.
test_gpu() {
    # shellcheck disable=SC2086
    if [ -n "${KERNELS:-}" ]; then test_kernels $KERNELS; return; fi
    run 170 "$build/tests/test_cuda_kernels"
    for other in "$build"/tests/test_cuda_*; do
        case $other in *.o | *.d | */test_cuda_kernels) continue ;; esac
        run 40 "$other"
    done
    look_for_engine
    [ -z "$program" ] || run 150 env ZEROLAB="$program" GPU="$program" TRAIN_LIMIT=30 tests/program/test_gpu.sh
    [ -z "$program" ] || run 90 env ZEROLAB="$program" GPU="$program" TRAIN_LIMIT=30 tests/program/test_gpu_lanes.sh
    sanitize
    echo "$(grep -c '^ok ' "$log") passed, $(grep -c '^not ok ' "$log") failed"
    ! grep -q '^not ok ' "$log" || failed=1
}

# ---- figures ----------------------------------------------------------------------------------------------------------------

bench_engine() { run 150 tests/bench/gpu_engine_speed.sh "$program"; }
bench_telemetry() {
    run 120 "$program" bench configs/gpt2-bf16.json -n 1 --rounds 15 --set topology.backend=cuda --set data.synthetic=true \
        --set data.sequence_length=1024 --set train_micro_batch_size_per_gpu=64 --set zero_optimization.stage=0
}
bench_fit() { run 240 tests/bench/gpu_fit.sh "$program"; }

bench_gpu() {
    for part in ${PARTS:-kernels engine peers telemetry fit}; do
        case $part in
        kernels) run 150 "$build/tests/bench_cuda_kernels" ;;
        peers)
            if python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then run 150 python3 -u tests/bench/gpu_peers.py
            else echo "== peers: no PyTorch with a GPU here"; fi
            ;;
        engine | telemetry | fit)
            look_for_engine
            [ -z "$program" ] || "bench_$part"
            ;;
        *) echo "== $part is unknown: PARTS are kernels, engine, peers, telemetry, fit" && failed=1 ;;
        esac
    done
}

all() {
    failed=0
    look_for_libraries
    look_for_toolkit || return 1
    build_programs
    # Asked for kernels of no name, it only opens the GPU.
    within 60 "$build/tests/test_cuda_kernels" "(none)" | grep SKIP && { echo "nothing ran: there is no GPU here"; return 1; }
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
