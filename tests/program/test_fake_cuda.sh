#!/bin/bash
# The kernels and streams of a GPU on a CUDA device emulated on the CPU: runs the programs of build/fake (`make fake` builds them; they
# are the ones that `make test-gpu` runs on a real GPU) and counts their tests as its own.
. "$(dirname "$0")/../support/tap.sh"
cd "$root" || exit 1
case ${ZEROLAB:-release} in *release*) ;; *) echo "1..0 # SKIP these are the same programs in every build"; exit 0 ;; esac
for program in build/fake/tests/test_cuda_*; do
    case $program in *.o | *.d) continue ;; esac
    if [ ! -x "$program" ]; then
        echo "1..0 # SKIP not built (make fake)"
        exit 0
    fi
    output=$("$program" 2>&1)
    status=$?
    [ "${program##*/}" != test_cuda_first ] || first=$output
    planned=$(printf '%s\n' "$output" | sed -n 's/^1\.\.\([0-9]*\)$/\1/p')
    counted=$(printf '%s\n' "$output" | grep -cE '^(not )?ok ')
    while IFS= read -r line; do
        case $line in
        'ok '*) check "${line#* - }" true ;;
        'not ok '*) check "${line#* - }" false ;;
        1..*) ;;
        *) echo "# $line" ;;
        esac
    done <<<"$output"
    [ $status -eq 0 ] && [ "${planned:-none}" = "$counted" ] || check "$(basename "$program") ran to its end (exit status $status)" false
done

# What goes wrong is told so that it need not be seen twice, and takes nothing else with it.
shown() { grep -qE "$1" <<<"$broken"; }
broken=$(build/fake/tests/test_cuda_kernels broken 2>&1)
check "attention goes by warpgroups, as on a GPU that has them" shown '^# attention by warpgroups$'
check "a wrong element is shown with shape, place and values" shown '^# operand 0 .* 1 of 168 elements; the first in row 13, column 11: -0.79.*, expected -0.0018'
check "... and the shape" shown '^# at B 2, T 7, C 12, '
check "a test that hangs ends" shown '^# no end after .* s: it hangs'
check "one that dies is no end of the others" shown '^not ok 9 - broken, a process that dies, fp16'

# On a real GPU the reference has a thread for each processor, and each its own scratch.
broken=$(OMP_WAIT_POLICY=passive REFERENCE_THREADS=2 build/fake/tests/test_cuda_kernels attention_backward 2>&1)
ok "a reference of several threads has scratch for each" $?

# The first shapes say where the worst element is, also where all is well; figures are of numbers only.
broken=$first
check "the first shapes name the worst element, by either way" shown \
    '^#   backward, warpgroups \(wgmma\) .* at d[qkv] sequence 1, token [0-9]+, head [01], column [0-9]+: [-0-9.e]+, expected [-0-9.e]+'
check "... and compare the two ways" shown '^#   forward, wgmma against mma '
broken=$(build/fake/tests/test_cuda_first broken)
for way in 'forward, warpgroups \(wgmma\) .* at' 'backward, warpgroups \(wgmma\) .* at dk' 'backward, wgmma against mma .* at dk'; do
    check "... one that is wrong has its place" shown "^#   $way sequence 1, token 5, head 1, column 3: 16, expected "
done
check "... and fails the test" shown '^not ok 1 - attention, bf16, B 2, T 129'
broken=$(build/fake/tests/bench_cuda_kernels broken)
[ $? -eq 1 ] && shown '^  broken .* NOT FINITE'
ok "a product of fp32 statistics is seen in the figures" $?
shown '^  a step of 64 tokens: its kernels' && [ "$(grep -c 'NOT FINITE' <<<"$broken")" -eq 1 ]
ok "... and all others are of numbers" $?
check "... and so is what a kernel leaves in any area" shown '^  seen at the end of 9 of 9 areas'
awk '/ x = / { sum += $(NF - 1) } /: its kernels/ { said = $8 } END { exit !(said > 0 && (sum - said) ^ 2 < 0.0025) }' <<<"$broken"
ok "... and make up what the step's kernels take" $?
broken=$(build/fake/tests/bench_cuda_probes)
check "the driver's calls are timed" shown '^  a page committed +[0-9.]+ us'
check "... and each algorithm that the library proposes" shown '^  qkv forward +[0-9.]+ +[0-9.]+ ms; .*, number [12] '
check "... with GELU in the product and beside it" shown '^  GELU backward: beside the product [0-9.]+ \+ [0-9.]+ = [0-9.]+ ms, in it [0-9.]+ ms'
finish
