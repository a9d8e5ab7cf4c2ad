#!/bin/bash
# The first minute on a fresh machine: the tour is offered in the live view, blocks nobody, is never offered again to those
# who do not want it, and ends with a switch of the stage by the learner's own hand.
. "$(dirname "$0")/../support/screen.sh"
offer='New here\? Enter: a two-minute tour'

fresh() { start 80 24 TERM=screen-256color XDG_STATE_HOME="$work/$1" ZEROLAB_TOUR= -- "$zerolab" "${@:2}"; }
runs() { comes 'tokens/s'; comes 'LIVE'; }

fresh one
waits_for "a fresh machine is offered the tour" "$offer"
waits_for "... and trains meanwhile" 'step [0-9]+ +loss'
keys 3
waits_for "another key means what it always means" 'ZeRO stage 3'
waits_for "... and the offer stays" "$offer"
keys T
waits_for "other views do not show it" "!$offer"
keys Escape
waits_for "the overview does again" "$offer"
keys Escape
waits_for "Esc: later" "!$offer"
keys q
comes 'status 0'
fresh one
waits_for "who did not say never is offered it again" "$offer"
keys N
waits_for "N: not again" "!$offer"
keys q
comes 'status 0'
fresh one
runs
waits_for "... ever" "!$offer"
keys q
comes 'status 0'

fresh two --theme mono
runs
waits_for "whoever says what he wants is offered nothing" "!$offer"
keys q
comes 'status 0'
fresh two train --steps 2
comes 'ENDED'
waits_for "... nor with train" "!$offer"
keys q
comes 'status 0'

XDG_STATE_HOME=$work/three "$zerolab" </dev/null >out 2>&1
grep -q 'after step 30' out && ! grep -q 'tour' out
ok "without a terminal nothing is offered" $?

fresh four
tm pipe-pane -t 0 "cat >'$work/sent'"
comes "$offer"
keys Enter
waits_for "Enter begins the tour, on the same screen" 'part 1 of 5'
waits_for "... which first shows what a rank holds" 'together 13.35'
waits_for "... on the whiteboard above the text" 'whiteboard: stage 0.* rank width: 16 bytes a parameter'
keys n; comes 'choose: a to c'
keys a
waits_for "... switches a stage" 'without a restart: 1.67 MB'
keys n
waits_for "... shows stage 2 with its bucket" 'A step has 5 flushes here'
keys K
waits_for "... at the flush of bucket 1" 'bucket 1.* flushed|1 block 3:33%.* flushed'
waits_for "... while bucket 2 is not there yet" '2 block 2:33%.* (to come|filling|complete)'
keys K; comes 'flushes here'
keys n; comes 'do it, then Enter'
keys 3; comes 'ZeRO stage 3|sent: stage=3'
keys . ; comes 'ZeRO stage 3 +last step 5'
keys Enter
waits_for "... and lets the learner switch the next" 'Between steps a rank keeps 3.34 MB'
keys n; comes 'Equal bits: zerolab'
keys n
waits_for "that is all" 'last part: 5 of 5 parts are right'
[ "$(grep -ao '\[?1049h' "$work/sent" | wc -l)" -le 1 ]
ok "the screen stayed up all the while" $?
keys q
waits_for "the tour says how it went" 'tour: 5 of 5 parts are right'
comes 'status 0'
fresh four
runs
waits_for "who took the tour is not asked again" "!$offer"
keys q
comes 'status 0'

# The engine fails as the tour begins: its processes are stopped, so that the screen waits for their last word, and then killed.
descendants() { local child; for child in $(cat /proc/"$1"/task/*/children 2>/dev/null); do echo "$child"; descendants "$child"; done; }
fresh five
comes "$offer"
comes 'step [0-9]+ +loss'
engine=$(descendants "$(program_pid)")
kill -STOP $engine
keys Enter
comes "!$offer"
kill -KILL $engine
waits_for "an engine that fails before the tour is told of" '^zerolab: '
waits_for "... with the right status" 'status 4'
waits_for "... and the terminal is as it was" 'modes restored'
finish
