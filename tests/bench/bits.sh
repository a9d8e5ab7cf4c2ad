#!/bin/bash
# The bits of every configuration at every stage it allows, to compare two versions of the program: bits.sh [PROGRAM] >TABLE
#
# A row is: configuration, stage, steps, state hash, and a checksum of the bits of all losses. Two tables of one machine must be
# equal, unless a commit says why they are not. STEPS (30) and GPT2_STEPS (6) say how many steps. It takes some ten minutes.
set -u
cd "$(dirname "$0")/../.." || exit 1
program=${1:-build/release/zerolab}
report=$(mktemp)
trap 'rm -f "$report"' EXIT

row() { # CONFIG, STAGE
    local steps=${STEPS:-30}
    case $1 in */gpt2*) steps=${GPT2_STEPS:-6} ;; esac
    if "$program" train "$1" --headless --steps "$steps" --set "zero_optimization.stage=$2" --set checkpoint.at_end=false \
        --report "$report" >/dev/null 2>"$report.err"; then
        printf '%-32s %d %3d %s %s\n' "$1" "$2" "$steps" "$(sed -n 's/.*"state_hash":[[:space:]]*"\([^"]*\)".*/\1/p' "$report")" \
            "$(grep '"loss_bits"' "$report" | cksum | cut -d ' ' -f 1)"
    else
        printf '%-32s %d refused: %s\n' "$1" "$2" "$(head -n 1 "$report.err")"
    fi
    rm -f "$report.err"
}

for config in configs/*.json; do
    for stage in 0 1 2 3; do row "$config" $stage; done
done
