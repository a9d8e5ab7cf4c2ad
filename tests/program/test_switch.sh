#!/bin/bash
# What a live switch of stage leaves behind: nobody's peak is above the plan of the stage that then trains, though the
# switch itself needed a buffer that this plan does not have.
. "$(dirname "$0")/../support/tap.sh"

# Every "memory" row of the report with a peak above its plan (none planned: 0), one a line.
excesses() {
    tr -d ' \t\n' <"$1.json" | grep -o '"memory":\[[^]]*\]' | grep -o '{[^}]*}' | sed 's/.*"category":"\([a-z]*\)".*"peak_bytes":\([0-9]*\),"at.*"predicted_peak_bytes":\([0-9a-z]*\).*/\1 \2 \3/' |
        awk '{ if (NF != 3) print "not understood:", $0; else if ($2 > $3 + 0) print "# " $1 ": peak " $2 ", planned " $3 }'
}
within_plan() {
    local found
    found=$(excesses "$1")
    [ -z "$found" ] || { echo "$found"; return 1; }
}

for to in 0 1 2 3; do
    for from in 0 1 2 3; do
        [ $from -ne $to ] || continue
        check "from stage $from to $to" train s$from$to --steps 3 $threads $tiny \
            --set zero_optimization.stage=$from --at 2:stage=$to
        check "... every peak is within the plan" within_plan s$from$to
    done
done
grep -q 'stage: from 0, to 3, also overlap_comm true (default)' s03.out s03.err
ok "a default that changes with the stage is in the event" $?
! grep -q also s01.out s01.err
ok "... and only then" $?
rows() { [ "$(tr -d ' \t\n' <"$1.json" | grep -o '"memory":\[[^]]*\]' | grep -o '"peak_bytes"' | wc -l)" -ge 24 ]; }
check "there was something to compare" rows s03
finish
