#!/bin/bash
# Two labs from their first step to their last, as learners play them in a real terminal: wrong answers, hints, a task tried
# too early, quitting in the middle and coming back, a step asked anew, and at the end a reset.
. "$(dirname "$0")/../support/screen.sh"
state=$work/state/zerolab/labs

begin() { start "$1" "$2" TERM=screen-256color XDG_STATE_HOME="$work/state" -- "$zerolab" lab "$3"; }
say() { keys Enter; comes 'your prediction' && keys "$@" Enter; }          # types a prediction
screens_opened() { grep -ao '\[?1049h' "$work/sent" | wc -l; }            # since the pane is listened to
told() { waits_for "$1" "$2"; comes 'n goes on'; }
on() { keys n; comes "part $1 of .*"; comes 'Enter: type|choose:|do it'; } # to the next step, until it asks

# ---- zero-1, as a page at 80x24 ----
begin 80 24 zero-1
tm pipe-pane -t 0 "cat >>'$work/sent'"
comes 'Enter: type your prediction in MB'
say a b c
waits_for "zero-1: words are no prediction" 'give a number in MB'
keys C-u 3 . 3 4 Enter
told "step 1: once all gradients is wrong, and why" 'That is once all gradients'
on 2
keys a
told "step 2: nothing has to happen, somebody thinks; it has a reply" 'No. Then each rank would have'
on 3
keys '!'; comes '> What did the all-reduce consist of'
keys '!'; comes '> A reduce-scatter of gradients'
keys '!'
waits_for "step 3: three hints, the last of them the answer" '> The same: 5.01 MB'
keys '!'
waits_for "... and no fourth" 'there are no more hints'
say 5
told "... with which it is right" 'Right: it is 5.01 MB'
keys q
waits_for "one may leave in the middle" 'zero-1: 1 of 6 parts are right; the same command goes on from here'

begin 80 24 zero-1
tm pipe-pane -t 0 "cat >>'$work/sent'"
waits_for "coming back goes on where one was, with what was said before" 'part 3 of 6 +oo●'
comes 'Enter: type'
opened=$(screens_opened)
keys n n
comes 'part 4 of 6'; comes 'choose:'
keys a
told "step 4: the run is started anew; equal to the last bit" 'to the last bit|The same sums of the same numbers'
on 5
keys Enter
waits_for "step 5: a task is not done before something was done" 'not yet: what is expected'
keys K; comes '\[?ZeRO stage 1|schedule'
keys 0; comes 'ZeRO stage 0'
keys . ; comes 'step 3 '
keys . ; comes 'step 4 '
keys K; comes 'do it, then Enter'
keys Enter
told "... and then it is" 'at stage 0 it must have all'
keys n
waits_for "the last page says what others do" 'DeepSpeed all-reduces each bucket at stages 1 and 2'
keys n
waits_for "the last step was the last" 'This was the last part: 4 of 6 parts are right'
keys q
waits_for "zero-1 is done" 'zero-1: 4 of 6 parts are right'
XDG_STATE_HOME="$work/state" "$zerolab" class "$work/state" >beliefs
check "a teacher sees what was believed at step 1" grep -q '^  1 of 1   zero-1, part 1: That is once all gradients' beliefs
check "... and what was chosen at step 2" grep -q '^  1 of 1   zero-1, part 2: nothing$' beliefs
[ -s "$work/sent" ] && [ "$(screens_opened)" -eq "$opened" ]
ok "the screen stayed up while runs were started anew" $?
"$zerolab" lab list >/dev/null 2>&1
XDG_STATE_HOME=$work/state "$zerolab" lab list | grep -A1 '^zero-1 ' | grep -q 'done, 4 of 6 right'
ok "the list says so" $?
grep -q '"attempts":	2' "$state/zero-1.json" && grep -q '"hints":	3' "$state/zero-1.json"
ok "attempts and hints are kept" $?

# ---- slices, beside the view at 120x40 ----
begin 120 40 slices
comes 'Enter: type your prediction'
say 1 9 8 2 7 2
told "slices, step 1: a whole block is picture 1" 'That is picture 1'
keys U; comes 'U once more'; keys U
comes 'Enter: type your prediction'
say 4 9 5 6 8
told "... asked anew, a quarter of it is right" 'Right: it is 49,568'
on 2
say 3 . 8 2
told "step 2: every rank sends the slices that the others lack" 'Right: it is'

on 3
keys c
told "step 3: everything is symmetric" 'The output layer is the embedding'
keys q
comes 'slices: 2 of 5'
begin 120 40 slices
waits_for "slices goes on at step 3" 'part 3 of 5'
comes 'choose:'
keys b
told "... where a wrong answer can become right" 'Slices have equal lengths'
on 4
keys b
told "step 4: the empty shape" 'Between steps nothing is gathered'
keys J
waits_for "J says when there is no place to go to" 'there is no place'
keys n; comes 'Looking at a weight'
keys n
waits_for "slices is done" 'last part: 5 of 5'
keys q
comes 'slices: 5 of 5'
XDG_STATE_HOME=$work/state "$zerolab" class "$work/state" | grep -qE '^state +slices +done .* 2  now'
ok "the instructor sees it" $?

# ---- a view key behind the page ----
start 80 24 TERM=screen-256color XDG_STATE_HOME="$work/state" -- "$zerolab" lab zero-2-buckets --from 5
comes 'do it, then Enter'
keys o
waits_for "o shows the knobs, which the step has put behind its page" 'binds|does not bind'
keys q
comes 'zero-2-buckets: '

XDG_STATE_HOME=$work/state "$zerolab" lab reset
[ -z "$(ls "$state")" ]
ok "a reset forgets it all" $?
finish
