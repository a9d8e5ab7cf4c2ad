#!/bin/bash
# A run of a very small model on a terminal, at full speed: SECONDS (30) of it. The owner's screen must not be cut off, the exit
# status must be 0, and the front end stays below 160 MB. With a third of the time left it is stopped for some seconds and goes on.
#
#     tests/bench/live_tiny.sh [SECONDS]
. "$(dirname "$0")/../support/screen.sh"
seconds=${1:-30} bound_kb=$((160 * 1024))
cat >tiny.json <<'END'
{"model": {"layers": 2, "hidden": 32, "heads": 2, "context": 32, "vocabulary": 256}, "data": {"sequence_length": 32},
 "train_micro_batch_size_per_gpu": 4, "topology": {"ranks": 4, "ranks_as": "threads"}}
END
rss_kb() { sed -n 's/^VmHWM:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$1/status" 2>/dev/null; }
trains_until() { # SECONDS of this script: the screen is live, and steps go on
    local before now
    before=$(step)
    while [ $SECONDS -lt "$1" ]; do
        shows 'CONNECTION LOST|NO CONNECTION' && return 1
        sleep 0.5
    done
    now=$(step)
    [ "${now:-0}" -gt "${before:-0}" ]
}

start 80 24 TERM=screen-256color -- "$zerolab" train tiny.json
waits_for "a live screen" 'step [1-9]'
front=$(program_pid) begun=$SECONDS
trains_until $((begun + seconds * 2 / 3))
ok "the owner is not cut off" $?
before=$(step)
kill -STOP "$front"
sleep 5
keys C-j # the shell that started it continues it; the terminal is still raw
eventually goes_past "$before"
ok "it goes on after it was stopped" $?
trains_until $((begun + seconds + 5))
ok "... and is not cut off" $?
shows '!CONNECTION'
ok "no word of a lost connection" $?
peak_kb=$(rss_kb "$front") steps=$(step)
echo "# ${steps:-0} steps in $((SECONDS - begun)) s, the front end had at most ${peak_kb:-?} KB"
[ "${peak_kb:-$bound_kb}" -lt $bound_kb ]
ok "the front end stays below $((bound_kb / 1024)) MB" $?
keys q
waits_for "exit status 0" 'status 0'
finish
