#!/bin/bash
# The real program in a real terminal: a live run, out of memory, a recording, what is kept between runs, and that the
# terminal comes back whole.
. "$(dirname "$0")/../support/screen.sh"

# ---- a live run: switch, pause, step, sizes, leave

start 80 24 TERM=screen-256color -- "$zerolab" --trace live.zlt $paced
waits_for "live run trains" 'RUNNING'
waits_for "first steps are drawn" 'ZeRO stage 0 +last step [0-9]+ +loss [0-9]\.[0-9]+ .*tokens/s'
waits_for "bars against the plan" ' 3 \[P .*\] +[0-9.]+ MiB'
keys 3
waits_for "key 3 trains on at stage 3" 'ZeRO stage 3 '
waits_for "stage 3 gathers parameters" 'prefetch hid +[0-9]+ %'
keys Space
waits_for "Space pauses" 'PAUSED'
before=$(step)
keys .
waits_for ". trains one step" "step $((before + 1)) "
waits_for "... and pauses again" 'PAUSED'
keys p
waits_for "p brings text from the model" 'text from the model after step'
keys '?'
waits_for "? shows the keys" 'q F10 Ctrl-C +leave'
keys Escape
waits_for "Esc closes the help" 'device memory'
tm resize-window -t 0 -x 130 -y 42
waits_for "more room adds panes" 'device memory of rank [0-9], the fullest'
tm resize-window -t 0 -x 50 -y 8
waits_for "too small says what is needed" '80x24 is needed'
tm resize-window -t 0 -x 80 -y 24
waits_for "and comes back" 'ZeRO stage 3 '
keys u
waits_for "u changes the units" '[0-9]{1,3}(,[0-9]{3})+ B'
keys q
waits_for "q leaves" 'status 0'
waits_for "the terminal is as before" 'modes restored'
waits_for "with its first screen" 'FIRST SCREEN'

# ---- out of memory

start 80 24 TERM=xterm -- "$zerolab" --set memory.device_budget=16MiB
waits_for "out of memory opens the report" 'Bytes at that instant'
keys I
waits_for "I keeps an open report, and says what closes it" 'Esc closes it'
check "... open" shows 'Bytes at that instant'
waits_for "with what was refused, and where else" 'refused on|ranks 0-3'
waits_for "with what would fit" 'stage=3 +[^ ]'
keys 3
waits_for "stage 3 goes on" 'RUNNING'
waits_for "why it went on is said until the next step" 'RUNNING +LIVE'
keys I
waits_for "I shows the report again" 'Bytes at that instant'
keys C-c
waits_for "Ctrl-C leaves" 'status 0'
waits_for "and restores the terminal" 'modes restored'

# Changes that help together: Enter makes all of the chosen row.
start 120 40 TERM=xterm -- "$zerolab" train "$root/configs/nano.json" --set memory.device_budget=12MB
waits_for "what takes several changes is offered as one row" '^ +stage=3, offload_optimizer=cpu, offload_param=cpu'
waits_for "... and what is too large, against the same budget" '^ +stage=1 +█+┃█+ '
keys Down Down Down Down
waits_for "the chosen one is said whole" 'Enter: set zero_optimization.stage=3; '
keys Enter
waits_for "Enter makes it, and the run goes on" 'RUNNING'
keys I
waits_for "... at the planned peak" '> stage=3, offload_optimizer=cpu'
keys Enter
waits_for "once it goes on, Enter says so" 'the run has gone on since'
keys E
waits_for "... all of the changes were made" 'set: key zero_optimization.offload_param.device, from none, to cpu'
keys q
comes 'status 0'

start 80 24 TERM=xterm -- "$zerolab" --set memory.device_budget=5MB
waits_for "where no stage fits the way out is a budget" 'OUT OF MEMORY +Enter makes the chosen change; :budget=[0-9]+MiB goes on'
keys :
waits_for "a prompt says which keys end it" 'Enter: done +Esc: cancel'
keys budget=64MiB Enter
waits_for "... which goes on" 'RUNNING'
keys :help Enter
waits_for "a long answer stands whole" 'checkpoint=TAG, stop'
keys q
waits_for "q leaves" 'status 0'

# After a switch between two steps the whiteboard shows what ranks hold by the new plan.
switched() {
    train switched "$root/configs/nano-stage3.json" --steps 3 --at 3:stage=0 --trace switched.zlt || return 1
    "$zerolab" replay switched.zlt --frame 80x24 --view whiteboard --at step:2 >switched.frame || return 1
    grep -q 'whiteboard: stage 0, before step 3' switched.frame && grep -q '= 16.00 of 16 bytes a parameter (16)' switched.frame
}
check "a switch between steps shows on the whiteboard at once" switched

# ---- a recording

start 80 24 TERM=xterm-256color -- "$zerolab" replay live.zlt
waits_for "a recording plays" 'REPLAY'
keys G
waits_for "to its end" 'ENDED +stopped'
last=$(step)
keys BSpace
waits_for "one step back" "step $((last - 1)) "
keys G
comes 'ENDED +stopped'
keys c BSpace
comes "step $((last - 1)) "
keys c
waits_for "a moment is compared with a later one" "number +$last +$((last - 1)) +-1"
keys Escape g
waits_for "to its beginning" 'no step yet'
kill -TERM "$(program_pid)"
waits_for "SIGTERM restores the terminal" 'modes restored'

start 80 24 TERM=xterm-256color NO_COLOR=1 LC_ALL=C -- "$zerolab" replay live.zlt
keys G
waits_for "without UTF-8 bars are letters" ' 0 \[PP+G+'
screen | LC_ALL=C grep -q '[^ -~]'
ok "and every character is ASCII" $((! $?))
tm capture-pane -p -e -t 0 | grep -qE $'\033\\[[0-9;]*(3[0-7]|4[0-7]|9[0-7])m'
ok "NO_COLOR sends no colour" $((! $?))
kill -ABRT "$(program_pid)" # the crash that sanitizers leave to us
waits_for "a crash restores the terminal too" 'modes restored'

start 80 24 TERM=dumb -- "$zerolab" replay live.zlt
waits_for "TERM=dumb is refused" 'TERM=dumb cannot show a screen'
waits_for "as a usage error" 'status 2'

# ---- a live screen is that of its recording at the same moment; and a run without a trace can be recorded by a key

start 80 24 NO_COLOR=1 -- "$zerolab" --at 4:stage=2 --at 8:stage=3 --at 13:pause --units GiB
waits_for "pauses before step 13" 'PAUSED +by command'
for view in overview M H T B P O i C L E; do
    [ $view = overview ] || keys $view
    settled | body >"live.$view"
    [ $view = overview ] || keys $view
done
keys r
waits_for "r records what is kept, and goes on" 'recording to zerolab-[0-9]+-[0-9]+.zlt'
keys .
waits_for "one more step" 'step 13 '
keys q
waits_for "leaves" 'status 0'
mv zerolab-*.zlt recorded.zlt
"$zerolab" check recorded.zlt | grep -q 'steps 1 to 13; the run ended: stopped'
ok "the recording is whole" $?
for view in overview:overview M:memory H:tiers T:timeline B:buckets P:shards O:schedule i:why C:collectives L:loss E:events; do
    "$zerolab" replay recorded.zlt --frame 80x24 --view "${view#*:}" --at step:12 | body >replayed
    diff "live.${view%:*}" replayed | sed 's/^/# /'
    cmp -s "live.${view%:*}" replayed
    ok "the live ${view#*:} equals the replayed one" $?
done
"$zerolab" replay recorded.zlt --frame 80x24 --at step:12.3 | grep -q 'step 11 '
ok "a moment within a step" $?
at() { "$zerolab" replay recorded.zlt --frame 80x24 --view whiteboard --at "step:$1" >"at.$1" 2>err; }
at 12.3.begin && at 12.3.end && at 12.3 && cmp -s at.12.3.end at.12.3 && ! cmp -s at.12.3.begin at.12.3.end
ok "the begin of an operation is not its end" $?
at 12.3.middle
[ $? -eq 2 ] && [ "$(wc -l <err)" -eq 1 ] && grep -q 'step:12.3.middle: ' err
ok "another word is refused" $?
"$zerolab" replay recorded.zlt --frame 80x24 --at time:0 | grep -q 'no step yet'
ok "a moment in time" $?

# ---- the whiteboard of a run at full speed plays a step; keys go to the run, and the newest moment is shown when it pauses

start 80 24 -- "$zerolab" train --set zero_optimization.stage=3
comes 'step [2-9]'
keys Y
waits_for "the last step is played" 'step ([0-9]+) at 1/[0-9]+ of its speed; live: step'
waits_for "... as the header says" 'the last whole step, slowly.*LAST STEP'
playing() { screen | sed -nE 's/.*step ([0-9]+) at 1.*/\1/p'; }
played=$(playing)
moves_on() { [ "$(playing)" -gt "$played" ]; }
eventually moves_on
ok "... and then a later one" $?
keys Space
waits_for "a pause ends it" 'PAUSED.*LIVE'
waits_for "... and the screen shows the newest step" '!of its speed'
keys ,
waits_for "an operation is shown at its begin" 'an operation begins.*LIVE'
keys T
waits_for "while one steps, the timeline counts operations" '^ op +0'
keys 2
waits_for "a stage asked for in the midst of a step has its time" 'stage=2 takes effect after this step'
keys .
waits_for "... and comes then" 'PAUSED  after one step'
waits_for "a step that was not stepped through has its time" '^ time +'
keys :nonsense=1 Enter
waits_for "what is refused is not said to come" '!nonsense=1 takes effect'
keys Y
keys Left
waits_for "looking back has its name" 'LOOKING BACK.*training is paused'
keys F
waits_for "... and its end" 'PAUSED.*LIVE'
keys q
waits_for "leaves" 'status 0'

# ---- what is kept between runs

rm -r config

start 80 24 -- "$zerolab" replay live.zlt
waits_for "plays" REPLAY
keys u
keys t
comes '^ light'
kill -HUP "$(program_pid)"
waits_for "a hangup leaves" 'modes restored'
grep -q '^theme = light' config/zerolab/settings
ok "theme and units are kept" $?
start 80 24 -- "$zerolab" replay live.zlt --readonly
waits_for "and in force again" 'device memory.* [0-9,]{7,} B'
keys u
comes '^ GB'
keys q
waits_for "--readonly leaves" 'status 0'
grep -q '^units = bytes' config/zerolab/settings
ok "... and keeps nothing" $?
start 80 24 ZEROLAB_UNITS=GB -- "$zerolab" replay live.zlt
waits_for "the environment wins over the file" 'plan [0-9.]+ MB'
start 80 24 -- "$zerolab" replay live.zlt --units GiB
waits_for "an option over both" 'plan [0-9.]+ MiB'
echo 'theme = pink' >config/zerolab/settings
start 80 24 -- "$zerolab" replay live.zlt
waits_for "a faulty file is one line" 'settings: line 1: theme is default, light'
keys u
comes 'bytes'
keys q
grep -q pink config/zerolab/settings
ok "... and is left alone" $?

finish
