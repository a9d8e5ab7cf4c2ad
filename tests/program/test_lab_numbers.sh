#!/bin/bash
# What the checks of labs find is the same with one and two threads a rank (LABS: those that take little time). REFERENCE is
# another build of the program, by another compiler say; its numbers are held against these, too. Some labs compare measured times,
# which other programs on the machine may make longer: the best of three.
. "$(dirname "$0")/../support/tap.sh"
labs=${LABS:-memory-wall sixteen-bytes zero-2-buckets zero-3}

numbers() { # PROGRAM, THREADS
    local lab attempt attempts
    for lab in $labs; do
        case $lab in capstone | free | nvme | offload | quiz | spmd) attempts="1 2 3" ;; *) attempts=1 ;; esac
        for attempt in $attempts; do
            "$1" lab check "$lab" --numbers --set topology.threads_per_rank="$2" >"found.$2" && { cat "found.$2"; continue 2; }
        done
        echo "$lab failed"
    done
}

numbers "$zerolab" 2 >two 2>errors & # they mostly wait for paced links
numbers "$zerolab" 1 >one 2>errors.one
wait
cat errors.one >>errors
check "labs hold with one thread a rank" awk '/failed$/ {bad = 1} END {exit bad}' one
check "numbers are printed" [ "$(grep -c ': [0-9]' one)" -gt 15 ]
check "the same numbers come out with two" diff one two
if [ -n "${REFERENCE:-}" ]; then
    numbers "$REFERENCE" 1 >reference 2>>errors
    check "the same numbers come out of the other build" diff one reference
fi
sed 's/^/# /' errors
finish
