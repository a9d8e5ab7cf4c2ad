#!/bin/bash
# How long a run takes from its command to the end of its first step, nano on 4 ranks: ranks as processes against ranks as
# threads, in turn. Medians of ROUNDS (15). ZEROLAB names another build of the program to compare with.
set -u
cd "$(dirname "$0")/../.." || exit 1
zerolab=${ZEROLAB:-build/release/zerolab} rounds=${ROUNDS:-15}

seconds() { # AS: from the command to its first line about a step; then its end is waited for
    local began=$EPOCHREALTIME line now=
    while read -r line; do
        [ -n "$now" ] || [[ $line != "step 1/"* ]] || now=$EPOCHREALTIME
    done < <("$zerolab" train --headless --steps 1 -n 4 --set topology.ranks_as="$1" 2>&1)
    [ -n "$now" ] && awk -v a="$began" -v b="$now" 'BEGIN { printf "%.3f\n", b - a }'
}
median() { sort -n | awk '{ at[NR] = $1 } END { print (NR % 2 ? at[(NR + 1) / 2] : (at[NR / 2] + at[NR / 2 + 1]) / 2) }'; }

times=$(for ((i = 0; i < rounds; i++)); do
    for as in threads processes; do echo "$as $(seconds $as)"; done
done)
threads=$(sed -n 's/^threads //p' <<<"$times" | median)
processes=$(sed -n 's/^processes //p' <<<"$times" | median)
awk -v t="$threads" -v p="$processes" 'BEGIN { printf "to the first step, nano, 4 ranks: threads %.3f s, processes %.3f s, %+.3f s\n", t, p, p - t }'
