#!/bin/bash
# What "why" predicts on the screen is what a run at that stage then measures, to the byte.
. "$(dirname "$0")/../support/tap.sh"
common="--headless --steps 3 --set topology.ranks_as=threads --set zero_optimization.overlap_comm=false"

frame() { "$zerolab" replay "$1.zlt" --frame 160x40 --view why --units bytes; }
# The row of a stage: "2   15,582,208 B ..." or "2  now 15,582,208 B ...".
predicted() { frame "$1" | sed -nE "s/.* $2 ( now)? +([0-9,]+) B +([0-9,]+) B +([0-9,]+) B.*/\\2 \\3 \\4/p" | tr -d ,; }
in_report() { tr -d ' \n\t' <"$1.json" | grep -o "$2" | head -1 | grep -o '[0-9]*$'; }
measured() { echo "$(in_report "$1" '"peak":\[{"rank":0,"tier":"device","bytes":[0-9]*') $(in_report "$1" '"sent_bytes":\[[0-9]*')"; }

for stage in 0 1 2 3; do
    "$zerolab" train $common --set zero_optimization.stage=$stage --trace $stage.zlt --report $stage.json >/dev/null 2>err || cat err
done
for stage in 0 1 2 3; do
    set -- $(measured $stage)
    peak=$1 sent=$2
    for from in 0 1 2 3; do
        set -- $(predicted $from $stage)
        check "stage $stage as seen from stage $from: peak $peak" [ "${1-}" = "$peak" ]
        check "... sent in a step $sent" [ "${3-}" = "$sent" ]
    done
done

"$zerolab" train $common --steps 6 --at 4:stage=3 --trace both.zlt >/dev/null 2>err || cat err
frame both >out
check "a switch is listed" grep -q 'step 4: stage 0 -> 3' out
check "the present stage is marked" grep -q ' 3  now ' out
finish
