#!/bin/bash
# Labs whose checks compare measured times: tests/run-tests runs nothing beside this. (All other labs: test_lab.sh.) LABS="NAME...":
# these labs.
. "$(dirname "$0")/../support/tap.sh"
export XDG_STATE_HOME=$PWD/state

# They wait for links and devices that are paced, and take hardly any processor time: all six go at once. Other programs on the machine
# may make times longer: the best of three, of which the later ones are alone.
check_lab() { "$zerolab" lab check "$1" >"$1.table" 2>"$1.errors"; }

labs=${LABS:-capstone free nvme offload quiz spmd}
declare -A first=() # attempts: their processes, then their statuses
for name in $labs; do
    check_lab "$name" &
    first[$name]=$!
done
for name in $labs; do
    wait "${first[$name]}"
    first[$name]=$?
done
for name in $labs; do
    [ "${first[$name]}" -eq 0 ] || check_lab "$name" || check_lab "$name"
    ok "$name holds with its right answers, and catches the wrong ones" $?
    tail -n +2 "$name.table" | cat - "$name.errors" | sed 's/^/# /'
done
finish
