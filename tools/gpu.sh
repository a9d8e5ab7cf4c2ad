#!/bin/sh
# What `make test-gpu` and `make bench-gpu` do: look at the machine, build what needs a GPU and little else, and run it.
#
#     [ZEROLAB=PROGRAM] tools/gpu.sh test-gpu|bench-gpu BUILD
#
# ZEROLAB=FOLDER/zerolab, of a folder of `make program CUDA=1`: nothing is built; the folder has the tests of a GPU, too. Of any other
# ZEROLAB, and without it, the tests are built here, which takes a C compiler and the CUDA toolkit; which of our other libraries are
# missing is said first, and what needs them is left out.
# KERNELS="gelu norm_forward" make test-gpu looks at kernels of these names alone, at every shape, and under compute-sanitizer.
# PARTS="first probes kernels engine peers telemetry fit" make bench-gpu: only these of the figures, in this order.
#
# All that is printed is also in $OUT (else BUILD)/test-gpu.log, as it comes. What matters is repeated at the end, in less than 12,000
# characters.
set -u
# The make that called is not asked for a share of its jobs: what it hands down to a script is closed, and all would be made one by one.
unset MAKEFLAGS MFLAGS MAKELEVEL
what=$1 build=$2
log=${OUT:-$build}/$what.log
began=$(date +%s) granted=0 parts=0 faults=0 failed=0
mkdir -p "$(dirname "$log")"

# within SECONDS COMMAND...: each part is granted so many seconds, and those that earlier parts left; then it is stopped (124, 137). So no
# part takes another's time. The grants of test-gpu add up to all_s at most, eight minutes, and of bench-gpu to ten, which is as long
# as a command may run on many a rented machine. With KERNELS or PARTS, a part may take all of all_s.
case $what in test-gpu) all_s=470 ;; *) all_s=580 ;; esac
[ -z "${KERNELS:-}${PARTS:-}" ] || granted=$all_s
grant() { granted=$((granted + $1)); }
within() {
    grant "$1"
    shift
    [ $granted -lt $all_s ] && left=$granted || left=$all_s
    left=$((began + left - $(date +%s)))
    [ $left -gt 0 ] || { echo "== left out, no time is left: $*"; return 125; }
    timeout -k 10 "$left" "$@"
}

# ---- what is here -----------------------------------------------------------------------------------------------------------

has_header() { echo "#include <$1>" | ${CC:-cc} -DPCRE2_CODE_UNIT_WIDTH=8 -E - >/dev/null 2>&1; }
ask_gpu() { nvidia-smi --query-gpu="$1" --format=csv,noheader 2>/dev/null | head -n 1; }
fault() { faults=$((faults + 1)) && echo "not ok - preflight: $*"; }

# Parts of the toolkit may have come apart from it, as wheels of Python: first_file PATTERN... prints the first that is there.
first_file() {
    for file in "$@"; do
        [ ! -e "$file" ] || { echo "$file"; return; }
    done
}

look_for_libraries() {
    missing= left_out=
    has_header mpi.h || pkg-config --exists ompi-c 2>/dev/null || missing="$missing MPI"
    for pair in ncurses:curses.h cJSON:cjson/cJSON.h libaio:libaio.h zstd:zstd.h zlib:zlib.h PCRE2:pcre2.h oneDNN:dnnl.h; do
        has_header "${pair#*:}" || left_out="$left_out ${pair%%:*}"
    done
    missing=$missing$left_out
    echo "== not on this machine, and left out of this build:${missing:- nothing}"
}

# The GPU, its driver and its free memory.
look_at_gpu() {
    gpu=$(ask_gpu name,driver_version,memory.total,memory.free,compute_cap)
    driver_cuda=$(nvidia-smi 2>/dev/null | sed -n 's/.*CUDA \(UMD \)\{0,1\}Version *: *\([0-9][0-9.]*\).*/\2/p' | head -n 1)
    echo "== $what: ${gpu:-no GPU that nvidia-smi knows of}; its driver runs programs of CUDA ${driver_cuda:-n/a} and earlier"
    [ -n "$gpu" ] || { fault "nvidia-smi finds no GPU"; return; }
    free_mib=$(ask_gpu memory.free | tr -dc 0-9)
    [ "${free_mib:-0}" -ge 4096 ] || fault "only ${free_mib:-0} MiB of the GPU are free; another program uses it"
}

# The program that was brought, or else the compiler. Sets $cuda, the version of CUDA that they were, or will be, built with.
look_at_program() {
    text=$("$program" --version 2>&1) || fault "$program --version: $text"
    cuda=$(echo "$text" | sed -n 's/.*CUDA \([0-9][0-9.]*\).*/\1/p' | head -n 1)
    echo "== $program, $(du -smL "$(dirname "$program")" | cut -f 1) MiB with its folder: $(echo "$text" | tr '\n' ' ')"
    [ -n "$cuda" ] || fault "$program was built without CUDA"
    for file in "$brought/bin/"*; do
        [ -e "$file" ] || file=$program
        lacks=$(LD_LIBRARY_PATH="$brought/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" ldd "$file" 2>/dev/null | grep 'not found' | tr -s '\t\n' ' ')
        [ -z "$lacks" ] || fault "$file lacks libraries:$lacks"
    done
}

look_at_compiler() {
    cuda=$([ -z "$nvcc" ] || "$nvcc" --version | sed -n 's/.*release \([0-9.]*\).*/\1/p')
    echo "== ${nvcc:-no nvcc}, CUDA ${cuda:-n/a}; ${header:-no cublasLt.h}; ${runtime:-no libcudart}"
    if [ -z "$nvcc" ] || [ -z "$header" ] || [ -z "$runtime" ]; then
        fault "the CUDA toolkit is not here, or not all of it (cublasLt.h: libcublas-dev; libcudart: cuda-cudart-dev);" \
            "tools/cuda-toolkit.sh fetches it, or bring a folder of make program CUDA=1"
    elif [ "${cuda%%.*}" -lt 12 ]; then
        fault "CUDA $cuda is too old: it has no wgmma, and its cuBLASLt is another; tools/cuda-toolkit.sh fetches 13 or 12"
    fi
}

# The driver must know the version of CUDA, and the loader find its cuBLASLt. The loader says why a library that it is to load before a
# program cannot be loaded, which takes neither a compiler nor Python.
look_at_fit() {
    [ -n "$cuda" ] || return
    if [ -n "$driver_cuda" ] && [ "${driver_cuda%%.*}" -lt "${cuda%%.*}" ]; then
        fault "the driver knows CUDA $driver_cuda at most, and this is for CUDA $cuda; build it with tools/cuda-toolkit.sh ${driver_cuda%%.*}"
    fi
    wants=libcublasLt.so.${cuda%%.*}
    says=$(env LD_PRELOAD="$wants" true 2>&1)
    if [ -n "$says" ]; then fault "$wants does not load: $says; here is ${library:-none}"
    else echo "== $wants loads: ${library:-as the system finds it}"; fi
}

# Sets the make variables by which the build finds the toolkit's parts, and the path on which programs find its libraries.
look_for_toolkit() {
    nvcc=$(command -v nvcc || first_file /usr/local/cuda/bin/nvcc build/cuda-toolkit/bin/nvcc)
    home=$([ -z "$nvcc" ] || dirname "$(dirname "$(realpath "$nvcc")")")
    home=${home:-/usr/local/cuda}
    wheels=$(python3 -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])' 2>/dev/null)/nvidia
    header=$(first_file "$home"/include/cublasLt.h "$home"/targets/*/include/cublasLt.h /usr/include/cublasLt.h "$wheels"/*/include/cublasLt.h)
    library=$(first_file "$home"/lib64/libcublasLt.so.* "$home"/targets/*/lib/libcublasLt.so.* /usr/lib/*/libcublasLt.so.* "$wheels"/*/lib/libcublasLt.so.*)
    runtime=$(first_file "$home"/lib64/libcudart_static.a "$home"/targets/*/lib/libcudart_static.a /usr/lib/*/libcudart_static.a \
        "$home"/lib64/libcudart.so.* "$home"/targets/*/lib/libcudart.so.* "$wheels"/*/lib/libcudart.so.*)
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
    for folder in ${library:+"$(dirname "$library")"} ${runtime:+"$(dirname "$runtime")"} "$wheels"/*/lib; do
        [ ! -d "$folder" ] || export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder"
    done
}

# All that can be known before a kernel has run. With a fault nothing else is begun: it would only waste the machine.
preflight() {
    program=${ZEROLAB:-} brought=${ZEROLAB:+$(dirname "$ZEROLAB")} tests=$build/tests
    [ ! -e "$brought/test_cuda_kernels" ] || tests=$brought
    look_at_gpu
    look_for_toolkit
    if [ -n "$program" ]; then look_at_program; else cuda=; fi
    [ "$tests" = "$brought" ] || look_at_compiler
    look_at_fit
    [ $faults -eq 0 ] || { echo "== $faults faults; nothing was run"; return 1; }
}

# While it runs, the driver holds the GPU open: else it would start the GPU anew for every program, which takes seconds.
watch() {
    nvidia-smi dmon -d 2 -s pucvm -o T >"$log.dmon" 2>&1 &
    # shellcheck disable=SC2064
    trap "kill $! 2>/dev/null" EXIT
    trap 'exit 143' INT TERM
}

# ---- building ---------------------------------------------------------------------------------------------------------------

# As far as it comes: what one file says to this compiler is no reason to know nothing of the rest. Programs of an earlier build would
# tell of other sources.
build_programs() {
    look_for_libraries
    arch=$(ask_gpu compute_cap | tr -d .)
    for old in "$build"/tests/test_cuda_* "$build"/tests/bench_cuda_*; do
        case $old in *.o | *.d) ;; *) rm -f "$old" ;; esac
    done
    [ -n "$program" ] || [ -n "$left_out" ] || program=$build/zerolab
    start=$(date +%s)
    within 90 make --no-print-directory -k CUDA=1 WERROR= ${arch:+CUDA_ARCHS="$arch"} -j"$(nproc)" gpu-programs ${program:+$([ -n "${ZEROLAB:-}" ] || echo all)} ||
        { failed=1 && echo "not ok - the build failed; what there is of it is run"; }
    echo "== built in $(($(date +%s) - start)) s"
    [ -z "$program" ] || [ -x "$program" ] || program=
    [ -n "$program" ] || echo "== the engine on the GPU is left out: missing here:${left_out:- (see above)}; ZEROLAB may name one (make program CUDA=1)"
}

# ---- tests ------------------------------------------------------------------------------------------------------------------

# run SECONDS COMMAND...: at most so many, and what is left over; its time is printed.
run() {
    seconds=$1
    shift
    echo "== $*"
    start=$(date +%s)
    within "$seconds" "$@" 2>&1
    status=$?
    [ $status -eq 0 ] || failed=1
    case $status in
    125) echo "not ok - left out: $*" ;;
    124 | 137) echo "not ok - no end after $(($(date +%s) - start)) s: $*" ;;
    esac
    parts=$((parts + 1))
    echo "== $(($(date +%s) - start)) s, part $parts"
    for wait in 1 2 3 4 5 6 7 8 9; do # tee may be behind, and what follows reads the log
        tail -n 1 "$log" | grep -q ", part $parts\$" && break
        sleep 0.$wait
    done
}

# What time does not allow is said, and is no fault; only a finding is, or a summary that is missing: a tool that saw no process of
# ours ends well, too. Tests work in children, each of which has a summary of its own.
sanitized() {
    echo "== compute-sanitizer $*"
    within 4 timeout -k 10 90 compute-sanitizer --error-exitcode 9 --target-processes all --tool "$@" >"$log.sanitizer" 2>&1
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

# Races are slow to find, and only kernels whose threads share memory can have them: those of cuBLASLt are not ours.
sanitize() {
    command -v compute-sanitizer >/dev/null || { echo "== compute-sanitizer: not here"; return; }
    for tool in memcheck racecheck; do
        [ -z "$program" ] || sanitized $tool "$program" train configs/nano.json --headless --steps 2 -n 1 \
            --set topology.backend=cuda --set bf16.enabled=true --set train_micro_batch_size_per_gpu=1
        sanitized $tool "$tests/test_cuda_sums"
    done
    sanitized memcheck "$tests/test_cuda_kernels" "" small
    for name in attention norm loss embed linear_backward_bias; do sanitized racecheck "$tests/test_cuda_kernels" $name small; done
}

test_kernels() { # NAME...
    for name in "$@"; do
        "$tests/test_cuda_kernels" --list | grep -q "^$name" || { failed=1 && echo "not ok - no kernel's name begins with $name"; continue; }
        run 150 "$tests/test_cuda_kernels" "$name"
        command -v compute-sanitizer >/dev/null || { echo "== compute-sanitizer: not here"; continue; }
        for tool in memcheck racecheck; do
            sanitized $tool "$tests/test_cuda_kernels" "$name" small
        done
    done
}

# The cheapest and most telling first.
test_gpu() {
    # shellcheck disable=SC2086
    if [ -n "${KERNELS:-}" ]; then test_kernels $KERNELS; return; fi
    run 10 "$tests/test_cuda_first"
    run 10 "$tests/bench_cuda_probes" driver
    run 90 "$tests/test_cuda_kernels"
    for other in "$tests"/test_cuda_*; do
        case $other in *.o | *.d | */test_cuda_kernels | */test_cuda_first) continue ;; esac
        run 5 "$other"
    done
    if [ -n "$program" ]; then
        run 130 env ZEROLAB="$program" GPU="$program" TRAIN_LIMIT=30 tests/program/test_gpu.sh
        run 60 env ZEROLAB="$program" GPU="$program" TRAIN_LIMIT=30 tests/program/test_gpu_lanes.sh
    fi
    sanitize
    echo "$(grep -c '^ok ' "$log") passed, $(grep -c '^not ok ' "$log") failed"
    ! grep -q '^not ok ' "$log" || failed=1
}

# ---- figures ----------------------------------------------------------------------------------------------------------------

# The batches of "MODEL B=BATCH" lines about $1 in the log, as MODEL=BATCH.
batches_of() { sed -n "s/^  \([a-z0-9-]*\) *B=\([0-9]*\) .* $1.* tokens\/s.*/\1=\2/p" "$log" | awk '!seen[$0]++'; }

# PyTorch and llm.c at the engine's batch; and where that was too large for them, the engine at theirs.
bench_peers() {
    python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null || { grant 190; echo "== peers: no PyTorch with a GPU here"; return; }
    # shellcheck disable=SC2046
    run 170 python3 -u tests/bench/gpu_peers.py $(batches_of zerolab)
    grant 20
    for pair in $(batches_of PyTorch); do
        batches_of zerolab | grep -qx "$pair" || [ -z "$program" ] || run 0 tests/bench/gpu_engine_speed.sh "$program" "${pair%=*}" "${pair#*=}"
    done
}

bench_part() {
    case $1 in
    first) run 10 "$tests/test_cuda_first" ;;
    probes) run 20 "$tests/bench_cuda_probes" ;;
    kernels) run 20 "$tests/bench_cuda_kernels" ;;
    peers) bench_peers ;;
    engine | telemetry | fit) [ -z "$program" ] || "bench_$1" ;;
    *) echo "== $1 is unknown: PARTS are first, probes, kernels, engine, peers, telemetry, fit" && failed=1 ;;
    esac
}
bench_engine() { run 60 tests/bench/gpu_engine_speed.sh "$program"; }
bench_telemetry() {
    run 30 "$program" bench configs/gpt2-bf16.json -n 1 --rounds 5 --set topology.backend=cuda --set data.synthetic=true \
        --set data.sequence_length=1024 --set train_micro_batch_size_per_gpu=64 --set zero_optimization.stage=0
}
bench_fit() { run 140 tests/bench/gpu_fit.sh "$program"; }
bench_gpu() { for part in ${PARTS:-first probes kernels engine peers telemetry fit}; do bench_part "$part"; done; }

# ---- what is repeated at the end --------------------------------------------------------------------------------------------

# A step as measured against the sum of its kernels, and zerolab against the best of the others at the same batch.
headline() {
    awk '
    function batch() { match($0, /B=[0-9]+/); return $1 " B=" substr($0, RSTART + 2, RLENGTH - 2) }
    function rate() { match($0, /[0-9]+ tokens\/s/); return substr($0, RSTART, RLENGTH) + 0 }
    /^  a step of [0-9]+ tokens: its kernels/ { tokens = $4; kernels = $8 }
    / tokens\/s/ && /^  gpt2/ {
        at = batch()
        if (/zerolab/) { ours[at] = rate(); match($0, /T=[0-9]+/); T[at] = substr($0, RSTART + 2, RLENGTH - 2) }
        else if (rate() > best[at]) { best[at] = rate(); who[at] = $0; sub(/.*T=[0-9]+ +/, "", who[at]); sub(/ +[0-9]+ tokens.*/, "", who[at]) }
    }
    END {
        for (at in ours) {
            size = at; sub(/.*B=/, "", size); size *= T[at]; ms = size / ours[at] * 1e3
            if (at ~ /^gpt2 / && size == tokens)
                printf "  a step of %s, measured: %.2f ms; the sum of its kernels: %.2f ms, %.0f %% of it\n", at, ms, kernels, 100 * kernels / ms
            if (best[at]) printf "  %s: %.2f times the tokens of %s\n", at, ours[at] / best[at], who[at]
        }
    }' "$log"
}

# Power and clock while it ran, from the columns that dmon names.
watched() {
    awk '
    /^# *Time/ || /^#Time/ { for (i = 1; i <= NF; i++) column[$i] = i - ($1 == "#"); next }
    /^#/ { next }
    NF > 3 && column["pwr"] { p = $column["pwr"]; c = $column["pclk"]; n++; if (p > most) most = p; if (c > fast) fast = c
        if ($column["sm"] > 50 && (!slow || c < slow)) slow = c }
    END { if (n) printf "  nvidia-smi dmon: power up to %d W; clock up to %d MHz, and when busy at least %s\n", most, fast, slow ? slow " MHz" : "n/a"
          else print "  nvidia-smi dmon has said nothing" }' "$log.dmon"
}

summary() {
    echo "== again, what matters; all of it is in $log"
    case $what in
    test-gpu) grep -A 4 '^not ok' "$log" | cut -c1-220 | head -n 40; grep '^  ' "$log" | head -n 20; grep ' passed, .* failed$' "$log" ;;
    bench-gpu) grep -E '^(not ok|  )' "$log" | cut -c1-150 | tail -c 10500; headline ;;
    esac
    watched
}

all() {
    preflight || return 1
    watch
    grant 10 # what was looked at until now
    if [ "$tests" = "$brought" ]; then grant 90; else build_programs; fi
    # Asked for kernels of no name, it only opens the GPU.
    within 10 "$tests/test_cuda_kernels" "(none)" >"$log.opens" 2>&1 || { tail -n 5 "$log.opens"; echo "not ok - the GPU does not open; nothing was run"; return 1; }
    ! grep SKIP "$log.opens" || { echo "not ok - there is no GPU here; nothing was run"; return 1; }
    case $what in
    test-gpu) test_gpu ;;
    bench-gpu) bench_gpu ;;
    esac
    [ -n "${KERNELS:-}${PARTS:-}" ] || echo "== limits of $granted s, of $all_s"
    echo "== $(($(date +%s) - began)) s in all"
    return $failed
}

# A pipe's status is tee's; what became of the rest is left behind in a file.
rm -f "$log.dmon"
{ all; echo $? >"$log.status"; } 2>&1 | tee "$log"
read -r status <"$log.status" && rm -f "$log.status"
[ ! -e "$log.dmon" ] || summary | head -c 11900
[ ! -e "$log.dmon" ] || cat "$log.dmon" >>"$log"
exit "$status"
