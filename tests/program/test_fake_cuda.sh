#!/bin/bash
# The GPU's kernels and streams on a GPU that the processor plays: runs the programs of build/fake (`make fake` builds them; they are
# the ones that `make test-gpu` runs on a real GPU) and counts their tests as its own.
set -u
cd "$(dirname "$0")/../.." || exit 1
case ${ZEROLAB:-release} in *release*) ;; *) echo "1..0 # SKIP these are the same programs in every build"; exit 0 ;; esac
number=0 failed=
for program in build/fake/tests/test_cuda_*; do
    case $program in *.o | *.d) continue ;; esac
    if [ ! -x "$program" ]; then
        echo "1..0 # SKIP not built (make fake)"
        exit 0
    fi
    output=$("$program" 2>&1)
    status=$?
    planned=$(printf '%s\n' "$output" | sed -n 's/^1\.\.\([0-9]*\)$/\1/p')
    counted=$(printf '%s\n' "$output" | grep -cE '^(not )?ok ')
    while IFS= read -r line; do
        case $line in
        'ok '* | 'not ok '*)
            number=$((number + 1))
            echo "${line%%ok *}ok $number - ${line#* - }"
            ;;
        1..*) ;;
        *) echo "# $line" ;;
        esac
    done <<<"$output"
    if [ $status -ne 0 ] || [ "${planned:-none}" != "$counted" ]; then
        failed=1
        number=$((number + 1))
        echo "not ok $number - $(basename "$program") ran to its end (exit status $status)"
    fi
done

# What goes wrong is told so that it need not be seen twice, and takes nothing else with it.
check() { # NAME, PATTERN
    number=$((number + 1))
    grep -qE "$2" <<<"$broken" && { echo "ok $number - $1"; return; }
    echo "not ok $number - $1" && failed=1
}
broken=$(build/fake/tests/test_cuda_kernels broken 2>&1)
check "attention goes by warpgroups, as on a GPU that has them" '^# attention by warpgroups$'
check "a wrong element is shown with shape, place and values" '^# operand 0 .* 1 of 168 elements; the first in row 13, column 11: -0.79.*, expected -0.0018'
check "... and the shape" '^# at B 2, T 7, C 12, '
check "a test that hangs ends" '^# no end after .* s: it hangs'
check "one that dies is no end of the others" '^not ok 9 - broken, a process that dies, fp16'
echo "1..$number"
[ -z "$failed" ]
