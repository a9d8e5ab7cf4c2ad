#!/bin/bash
# A very small model at full speed under the eyes of its owner and of two more viewers, one of which stops reading; then what that
# costs a step. Prints the resident memory of the owner's front end, whether it was cut off, and ratios of step times. Minutes: 10.
# Wants the machine for itself.
#
#     tests/bench/bench_viewers.sh [MINUTES] [RANKS]
. "$(dirname "$0")/../support/screen.sh"
minutes=${1:-10} ranks=${2:-4} bound_kb=$((160 * 1024))
cat >tiny.json <<END
{"model": {"layers": 1, "hidden": 32, "heads": 2, "context": 32, "vocabulary": 256}, "data": {"sequence_length": 32},
 "train_micro_batch_size_per_gpu": 2, "topology": {"ranks": $ranks, "ranks_as": "threads"}}
END
memory_kb() { sed -n "s/^$2:[^0-9]*\([0-9]*\).*/\1/p" "/proc/$1/status" 2>/dev/null; }

start 120 40 TERM=screen-256color -- "$zerolab" train tiny.json
waits_for "a live screen" 'step [1-9]'
owner=$server front=$(program_pid)
for viewer in 1 2; do
    server=$((owner + viewer))
    start_another "$zerolab" attach --readonly
    waits_for "viewer $viewer" 'WATCHING'
done
kill -STOP "$(pane_pid)" # the second reads no more
server=$owner
begun=$SECONDS before=$(step) cut=0
for minute in $(seq "$minutes"); do
    while [ $SECONDS -lt $((begun + 60 * minute)) ]; do
        sleep 1
        shows 'CONNECTION LOST|NO CONNECTION' && cut=1
    done
    now=$(step)
    echo "# minute $minute: step ${now:-?}, $(((now - before) / 60)) steps/s, front end $(memory_kb "$front" VmRSS) KB"
    before=$now
done
ok "the owner is not cut off" $cut
peak_kb=$(memory_kb "$front" VmHWM)
[ "${peak_kb:-$bound_kb}" -lt $bound_kb ]
ok "the front end stays below $((bound_kb / 1024)) MB (at most ${peak_kb:-?} KB)" $?
server=$((owner + 1))
shows WATCHING && shows '!CONNECTION'
ok "nor is the viewer that reads" $?
server=$owner
keys q
waits_for "exit status 0" 'status 0'

for n in 1 4; do
    echo "# step time, -n $n: zerolab bench, blocks without and with trace and view in turns"
    "$zerolab" bench tiny.json -n $n 2>&1 | sed 's/^/#   /'
done
finish
