#!/bin/bash
# What tools/gpu.sh makes of what it hears, with programs that stand in for the toolkit, the tests of a GPU and compute-sanitizer.
. "$(dirname "$0")/../support/tap.sh"
case $zerolab in *release*) ;; *) echo "1..0 # SKIP this is the same script in every build"; exit 0 ;; esac
unset ZEROLAB # of this test, not of the tool

stand_in() { # PATH: its text comes from the input
    mkdir -p "$(dirname "$1")"
    { echo '#!/bin/sh' && cat; } >"$1" && chmod +x "$1"
}
stand_in toolkit/bin/nvcc <<<'echo "Cuda compilation tools, release ${NVCC_IS:-13.0}, V13"'
stand_in toolkit/bin/nvidia-smi <<'END'
case "$*" in
*query-gpu=memory.free*) echo "${FREE_MIB:-80000} MiB" ;;
*query-gpu=compute_cap*) echo 9.0 ;;
*query-gpu=*) [ -n "${NO_GPU:-}" ] || echo "stand-in, 580.1, 81559 MiB, 80000 MiB, 9.0" ;;
dmon*) printf '#Time gpu pwr sm mclk pclk\n#HH idx W %% MHz MHz\n 1 0 70 0 2619 345\n 2 0 689 99 2619 1410\n 3 0 650 98 2619 1755\n'; echo $$ >dmon.pid; exec sleep 300 ;;
*) echo "| NVIDIA-SMI 580.1      Driver Version: 580.1     CUDA Version: ${DRIVER_IS:-13.0}   |" ;;
esac
END
stand_in toolkit/bin/compute-sanitizer <<<'printf "%s\n" "$HEARD"; exit "${STATUS:-0}"'
stand_in toolkit/bin/make <<<'touch made; mkdir -p build/tests && cp test_cuda_kernels build/tests/'
stand_in test_cuda_kernels <<<'[ "$1" != --list ] || printf "gelu_forward\nnorm_forward\n"'
# Limits of time: each is noted, what HANGS names is stopped at once, and after a part that comes LATE none is left.
stand_in toolkit/bin/timeout <<'END'
echo "$3 $4" >>timeouts
case " $*" in *"/${HANGS:-none of these}") exit 124 ;; esac
shift 3
exec "$@"
END
stand_in toolkit/bin/date <<END
[ -e late ] && echo 99999999999 || exec $(command -v date) "\$@"
END
mkdir -p toolkit/include toolkit/lib64
ln -s "$root/tests" tests
touch toolkit/include/cublasLt.h toolkit/lib64/libcudart_static.a
echo 'int nothing;' | cc -shared -x c - -o toolkit/lib64/libcublasLt.so.13

gpu() { # WHAT: into `said`, and the exit status
    PATH=$work/toolkit/bin:$PATH OUT=$work/out sh "$root/tools/gpu.sh" "$1" build >said 2>&1
}
# kernels NAMES HEARD [STATUS]
kernels() {
    KERNELS=$1 HEARD=$2 STATUS=${3:-0} gpu test-gpu
}
says() {
    grep -qE -- "$1" said
}
clean='========= ERROR SUMMARY: 0 errors'
hazard='========= RACECHECK SUMMARY: 2 hazards displayed (2 errors, 0 warnings)'

kernels "gelu norm_forward" "$clean"
ok "kernels that are clean pass" $?
check "... and it says so of each" [ "$(grep -c '^ok - compute-sanitizer .* is clean' said)" -eq 4 ]
! kernels "gelu" ""
ok "no summary at all is no pass" $?
check "... and it says why" says '^not ok - compute-sanitizer memcheck looked at nothing'
! kernels "gelu" "$clean"$'\n'"$hazard"
ok "what one of several processes did wrong counts, whatever the exit status" $?
check "... and is shown" says '^========= RACECHECK SUMMARY: 2 hazards'
! kernels "gelu" "$clean" 9
ok "so does the exit status" $?
kernels "gelu" "" 124
ok "what time does not allow is no fault" $?
kernels "gelu" "Device not supported" 1
ok "nor what the tool does not know" $?
! kernels "gelu" "" 1
ok "... but any other end of it is" $?
check "no part is given more time than there is in all" awk 'NF == 0 || $1 > 470 { bad = 1 } END { exit bad || NR == 0 }' timeouts
! kernels "gelo" "$clean"
ok "no kernel of such a name is no pass" $?
check "... and it says so" says "^not ok - no kernel's name begins with gelo"

# Before anything is run or built: what would make all that follows worthless.
refuses() { # TEXT VARIABLE=VALUE...
    rm -f made
    ! env "${@:2}" PATH="$work/toolkit/bin:$PATH" OUT="$work/out" sh "$root/tools/gpu.sh" test-gpu build >said 2>&1 &&
        says "^not ok - preflight: .*$1" && says 'nothing was run' && [ ! -e made ]
}
check "no GPU is said before anything is built" refuses 'finds no GPU' NO_GPU=1
check "... a GPU that another program has filled" refuses 'only 100 MiB of the GPU are free' FREE_MIB=100
check "... a compiler that is too old" refuses 'CUDA 11.8 is too old' NVCC_IS=11.8
check "... a driver that is older than the compiler" refuses 'knows CUDA 12.4 at most, and this is for CUDA 13.0; .*cuda-toolkit.sh 12' DRIVER_IS=12.4
check "... a cuBLASLt of another version" refuses 'libcublasLt.so.12 does not load: .*cannot open shared object' NVCC_IS=12.4
mkdir other && echo broken >other/libcublasLt.so.13
check "... one that does not load" refuses 'libcublasLt.so.13 does not load: .*(invalid ELF header|file too short)' LD_LIBRARY_PATH="$work/other"

# A folder that was brought: nothing is built. A program that lacks a library, or knows nothing of CUDA, is a fault.
mkdir -p brought/bin brought/lib
stand_in brought/zerolab <<<'echo "zerolab 1"; echo "GPU kernels: CUDA ${BUILT_FOR:-13.0}, cuBLASLt 13.1, wgmma"; exit "${ENDS:-0}"'
echo 'int nothing(void) { return 0; }' | cc -shared -x c - -o libneeded.so
echo 'int nothing(void); int main(void) { return nothing(); }' | cc -x c - -o brought/bin/zerolab -L. -lneeded
check "a program that was brought without a library" refuses 'brought/bin/zerolab lacks libraries:.*libneeded.so' ZEROLAB="$work/brought/zerolab"
mv libneeded.so brought/lib/
check "... and one that was built without CUDA" refuses 'was built without CUDA' ZEROLAB="$work/brought/zerolab" BUILT_FOR=none
check "... and one that does not run" refuses 'brought/zerolab --version: zerolab 1' ZEROLAB="$work/brought/zerolab" ENDS=1
for name in test_cuda_kernels test_cuda_first test_cuda_sums bench_cuda_probes bench_cuda_kernels; do
    stand_in brought/$name <<END
case \$1 in
driver) echo "  a page committed 12.5 us" ;;
'(none)') [ -z "\${OPENS:-}" ] || { echo "1..0 # \$OPENS" && [ "\$OPENS" = SKIP ]; exit; } ;;
'') echo "ok 1 - of $name" ;;
esac
[ $name != test_cuda_first ] || [ -z "\${LATE:-}" ] || touch late
[ $name != bench_cuda_probes ] || [ "\$1" = driver ] || for row in \$(seq 100); do echo "  row \$row of the algorithms of a product, which is as long as such rows are, and of which there are too many to keep them all"; done
[ $name != bench_cuda_kernels ] || echo "  a step of 65536 tokens: its kernels 80.00 ms, their floors (o: by operations, b: by bytes) 70.00 ms"
END
done
stand_in brought/zerolab <<'END'
echo "zerolab 1"; echo "GPU kernels: CUDA 13.0, cuBLASLt 13.1, wgmma"
while [ $# -gt 1 ]; do
    [ "$1" != --report ] || printf '"parameters":\t124475904,\n"tokens": 65536\n"total": 0.1\n"tokens": 65536\n"total": 0.1\n"tokens": 65536\n"total": 0.1\n"tokens": 65536\n"total": 0.1\n' >"$2"
    shift
done
END
stand_in toolkit/bin/python3 <<'END'
case "$*" in
*gpu_peers.py*) echo "asked for: $*"; echo "  gpt2         B=64  T=1024  PyTorch 2, torch.compile           327680 tokens/s"; echo "  gpt2-xl      B=8   T=1024  PyTorch 2, torch.compile            32768 tokens/s" ;;
*) exit 0 ;;
esac
END
within_time() { # WHAT SECONDS
    local granted
    granted=$(sed -n 's/^== limits of \([0-9]*\) s, of .*/\1/p' said)
    [ "${granted:-999}" -le "$2" ] && [ "$granted" -gt $(($2 / 2)) ] || { echo "# $granted s of $2"; return 1; }
}
opens_not() { # TEXT OPENS
    ! ZEROLAB=$work/brought/zerolab OPENS=$2 gpu test-gpu && says "^not ok - $1; nothing was run" && ! says 'of test_cuda_first'
}
check "a GPU that does not open ends all" opens_not 'the GPU does not open' error
check "... and so does one that the tests do not see" opens_not 'there is no GPU here' SKIP
mv toolkit/include/cublasLt.h .
if [ -e /usr/include/cublasLt.h ]; then skip "half a toolkit" "this machine has the other half"
else check "half a toolkit is none" refuses 'CUDA toolkit is not here, or not all of it'; fi
mv cublasLt.h toolkit/include/
rm -f made
ZEROLAB=$work/brought/zerolab HEARD=$clean gpu test-gpu
check "with a folder that was brought nothing is built" [ ! -e made ]
check "... its size is said, and its version" says 'brought/zerolab, [0-9]+ MiB with its folder: zerolab 1 .*CUDA 13.0'
check "... the first shapes come before all other tests" [ "$(grep -n 'of test_cuda_first' said | cut -d: -f1)" -lt "$(grep -n 'of test_cuda_kernels' said | cut -d: -f1)" ]
check "... the parts' limits fit" within_time test-gpu 470
! ZEROLAB=$work/brought/zerolab HEARD=$clean HANGS=test_cuda_kernels gpu test-gpu
ok "a part that hangs is stopped, and a fault" $?
check "... it says so" says '^not ok - no end after [0-9]* s: .*/test_cuda_kernels$'
check "... and the others go on" says '^ok 1 - of test_cuda_sums'
! ZEROLAB=$work/brought/zerolab HEARD=$clean LATE=1 gpu test-gpu
ok "a part for which no time is left is left out, and a fault" $?
check "... it says so" says '^not ok - left out: .*/test_cuda_kernels$'
rm -f late
! ZEROLAB=$work/brought/zerolab PARTS=kernels HANGS=bench_cuda_kernels gpu bench-gpu
ok "so are figures that do not come to an end" $?
ZEROLAB=$work/brought/zerolab PARTS= gpu bench-gpu
check "... and those of the figures" within_time bench-gpu 580
check "the figures end with what matters" says '^  a step of gpt2 B=64, measured: 100.00 ms; the sum of its kernels: 80.00 ms, 80 % of it'
check "... others are asked for the engine's batch" says 'asked for: -u tests/bench/gpu_peers.py gpt2=64 gpt2-xl=24'
check "... and the engine at theirs, where it is another" says '^== tests/bench/gpu_engine_speed.sh .*/zerolab gpt2-xl 8$'
check "... and compared at it" says '^  gpt2 B=64: 2.00 times the tokens of PyTorch 2, torch.compile'
check "... with power and clock" says '^  nvidia-smi dmon: power up to 689 W; clock up to 1755 MHz, and when busy at least 1410 MHz'
check "... in less than 12,000 characters" [ "$(sed -n '/^== again, what matters/,$p' said | wc -c)" -lt 12000 ]
[ "$(grep -c 'row .* of the algorithms' out/bench-gpu.log)" -eq 100 ] && grep -q '689 99 2619' out/bench-gpu.log
ok "... and all in the log, with what nvidia-smi saw" $?
check "... after which nvidia-smi has ended" gone "$(cat dmon.pid)"

# What the build makes of ptxas's notes (tools/ptxas-notes.sh).
compile() { # NOTE [STATUS]
    touch object
    SAID=$1 STATUS=${2:-0} "$root/tools/ptxas-notes.sh" object toolkit/bin/compiler >said 2>&1
}
stand_in toolkit/bin/compiler <<<'[ -z "$SAID" ] || echo "$SAID" >&2; exit "$STATUS"'
compile "ptxas info    : (C7517) warpgroup.wait is injected in around line 1290 by compiler"
ok "a note of another kind does not end the build" $?
check "... and is shown" says 'is injected'
! compile "ptxas info    : (C7518) Potential Performance Loss: wgmma.mma_async instructions are serialized due to"
ok "products that are serialized end the build" $?
check "... and leave no object behind" [ ! -e object ]
compile "" 3
check "what the compiler refuses has its own status" [ $? -eq 3 ]
finish
