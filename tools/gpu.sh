#!/bin/sh
# What `make test-gpu` and `make bench-gpu` do: build the programs that need a GPU and little else, and run them.
#
#     tools/gpu.sh test-gpu|bench-gpu BUILD
#
# It takes a C compiler, the CUDA toolkit and a GPU. Which of our other libraries are missing is said first; what needs them is
# not part of this build (plain products stand in for oneDNN's as the reference). What another compiler warns of is no reason to stop.
set -u
# The make that called is not asked for a share of its jobs: what it hands down to a script is closed, and all would be made one by one.
unset MAKEFLAGS MFLAGS MAKELEVEL
what=$1 build=$2

has_header() { echo "#include <$1>" | ${CC:-cc} -E - >/dev/null 2>&1; }
missing= left_out=
has_header mpi.h || pkg-config --exists ompi-c 2>/dev/null || missing="$missing MPI"
for pair in ncurses:ncurses.h cJSON:cjson/cJSON.h libaio:libaio.h zstd:zstd.h zlib:zlib.h PCRE2:pcre2posix.h; do
    has_header "${pair#*:}" || left_out="$left_out ${pair%%:*}"
done
has_header dnnl.h || left_out="$left_out oneDNN"
missing=$missing$left_out
echo "== $what: $(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null | head -n 1 || echo no nvidia-smi)"
echo "== not on this machine, and left out of this build:${missing:- nothing}"

arch=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1 | tr -d .)
make --no-print-directory CUDA=1 WERROR= ${arch:+CUDA_ARCHS="$arch"} gpu-programs || exit 1

failed=0
case $what in
test-gpu)
    passed=0 bad=0
    for program in "$build"/tests/test_cuda_*; do
        case $program in *.o | *.d) continue ;; esac
        echo "== $program"
        start=$(date +%s)
        output=$(timeout 240 "$program" 2>&1) || failed=1
        echo "$output"
        echo "== $(($(date +%s) - start)) s"
        passed=$((passed + $(echo "$output" | grep -c '^ok ')))
        bad=$((bad + $(echo "$output" | grep -c '^not ok ')))
    done
    # The whole engine, where the libraries that the program needs are here too.
    if [ $passed -eq 0 ]; then
        echo "== tests/test_gpu.sh, the engine on the GPU: not run"
    elif [ -z "$left_out" ]; then
        echo "== tests/test_gpu.sh"
        make --no-print-directory CUDA=1 WERROR= ${arch:+CUDA_ARCHS="$arch"} all || failed=1
        output=$(ZEROLAB=$build/zerolab GPU=$build/zerolab timeout 240 tests/test_gpu.sh 2>&1) || failed=1
        echo "$output"
        passed=$((passed + $(echo "$output" | grep -c '^ok ')))
        bad=$((bad + $(echo "$output" | grep -c '^not ok ')))
    else
        echo "== tests/test_gpu.sh, the engine on the GPU: left out for want of$left_out"
    fi
    echo "$passed passed, $bad failed"
    if [ $passed -eq 0 ]; then
        echo "nothing ran: there is no GPU here"
        failed=1
    fi
    ;;
bench-gpu)
    for program in "$build"/tests/bench_cuda_*; do
        case $program in *.o | *.d) continue ;; esac
        echo "== $program"
        timeout 240 "$program" || failed=1
    done
    ;;
esac
exit $failed
