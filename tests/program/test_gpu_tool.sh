#!/bin/bash
# What tools/gpu.sh makes of what it hears, with programs that stand in for the toolkit, the tests of a GPU and compute-sanitizer.
. "$(dirname "$0")/../support/tap.sh"
case $zerolab in *release*) ;; *) echo "1..0 # SKIP this is the same script in every build"; exit 0 ;; esac

stand_in() { # PATH: its text comes from the input
    mkdir -p "$(dirname "$1")"
    { echo '#!/bin/sh' && cat; } >"$1" && chmod +x "$1"
}
stand_in toolkit/bin/nvcc <<<true
stand_in toolkit/bin/nvidia-smi <<<'echo stand-in'
stand_in toolkit/bin/compute-sanitizer <<<'printf "%s\n" "$HEARD"; exit "${STATUS:-0}"'
stand_in toolkit/bin/make <<<'mkdir -p build/tests && cp test_cuda_kernels build/tests/'
stand_in test_cuda_kernels <<<'[ "$1" != --list ] || printf "gelu_forward\nnorm_forward\n"'
mkdir -p toolkit/include toolkit/lib64
touch toolkit/include/cublasLt.h toolkit/lib64/libcublasLt.so.1 toolkit/lib64/libcudart_static.a

# kernels NAMES HEARD [STATUS]: into `said`, and the exit status.
kernels() {
    KERNELS=$1 HEARD=$2 STATUS=${3:-0} PATH=$work/toolkit/bin:$PATH OUT=$work/out sh "$root/tools/gpu.sh" test-gpu build >said 2>&1
}
says() {
    grep -q -- "$1" said
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
! kernels "gelo" "$clean"
ok "no kernel of such a name is no pass" $?
check "... and it says so" says "^not ok - no kernel's name begins with gelo"

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
