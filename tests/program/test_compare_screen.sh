#!/bin/bash
# `zerolab compare` in a terminal: one cursor for both runs, Tab, help, q; and two runs in progress, by their numbers.
. "$(dirname "$0")/../support/screen.sh"

both_show() { [ "$(screen | grep -cE -- "^─ [AB] .*$1")" = 2 ]; }
waits_for_both() { # NAME PATTERN
    eventually both_show "$2"
    ok "$1" $?
}

start 80 24 TERM=xterm -- "$zerolab" compare "$root/tests/reference/stage1.zlt" "$root/tests/reference/stage3.zlt"
waits_for "the whiteboard of A comes first" '^─ whiteboard: stage 1'
waits_for "... of B below it" '^─ whiteboard: stage 3'
waits_for_both "both play to their ends" 'after step 3 '
waits_for "what differs stands below" 'device: parameters at peak 3,337,216 → 834,304'
keys BSpace
waits_for_both "one key moves both: a step back" 'after step 2 '
keys ,
waits_for_both "... an operation on" 'within step 3 '
keys .
waits_for_both "... a step on" 'after step 3 '
keys Tab
eventually eval '[ "$(screen | grep -cE "^ +comm ")" = 2 ]'
ok "Tab shows the timelines" $?
keys M
eventually eval '[ "$(screen | grep -cE "^─ device memory of rank 0")" = 2 ]'
ok "a view's key shows that view of both" $?
keys c
waits_for "two moments are of one run" 'two moments of one run: replay one'
keys Y e
eventually eval '[ "$(screen | grep -cE "^block 0 ")" = 2 ]'
ok "half a screen of 24 rows has no room for the whiteboard's large form" $?
keys e
keys '?'
waits_for "the help page has the whole screen" '^─ help'
keys Escape
waits_for_both "... and gives it back" 'after step 3 '
keys q
waits_for "q leaves" '^status 0$'
waits_for "the terminal is as before" 'modes restored'

# shellcheck disable=SC2086
background() { "$zerolab" train "$root/configs/nano.json" $tiny $threads --detach --steps 100000 --set topology.slow_motion=20 "$@" | sed -n 's/^run \([0-9]*\) .*/\1/p'; }
a=$(background --set zero_optimization.stage=1) b=$(background --set zero_optimization.stage=3)
at_end() { end_screens; kill "$a" "$b" 2>/dev/null; }
start 80 24 TERM=xterm -- "$zerolab" compare "$a" "$b"
waits_for "two runs in progress: A" "^─ A  run $a .*ZeRO stage 1"
waits_for "... and B" "^─ B  run $b .*ZeRO stage 3"
waits_for "... and what differs so far" 'device: parameters at peak [0-9,]+ → [0-9,]+'
keys q
waits_for "q leaves" '^status 0$'
check "... and ends neither" kill -0 "$a" "$b"

finish
