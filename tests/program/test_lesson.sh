#!/bin/bash
# A lecture: a lab presented (answers shown and hidden, any step, a screen that stands still) and recorded, then replayed page
# by page with no engine, on another day or another machine.
. "$(dirname "$0")/../support/screen.sh"

present() { start "$1" "$2" TERM=screen-256color XDG_STATE_HOME="$work/state" -- "$zerolab" "${@:3}"; }

present 80 24 lab zero-1 --presenter --record lesson
waits_for "a presenter is told which key shows the answer" 'Enter: predict in MB; y shows it'
keys y
waits_for "y shows it, with the run behind it" 'It is 5.01 MB'
comes 'asks again; y hides'
keys y
waits_for "y hides it" 'y shows the answer again'
waits_for "... and what explains it" '!It is 5.01 MB'
keys y
waits_for "y shows it again" 'It is 5.01 MB'
keys z
waits_for "z freezes the screen" 'frozen: z goes on'
keys n
waits_for "... for other keys too" 'part 1 of 6'
keys z
waits_for "z again goes on" '!frozen'
keys N; comes 'go to part \(1 to 6\)'
keys 9 Enter
waits_for "a step that is not there" 'there are the parts 1 to 6'
keys N; comes 'go to part'
keys 4 Enter
waits_for "N jumps to any step; the run is taken there" 'part 4 of 6'
comes 'choose: a to c; y shows it'
keys b; comes 'asks again; y hides'
keys N; comes 'go to part'
keys 2 Enter
comes 'part 2 of 6'
waits_for "... also back" 'choose: a to c; y shows it'
keys K; comes '!choose:'
waits_for "K shows the view alone" 'ZeRO stage 0'
keys q
waits_for "quitting says where the lesson is" 'recorded: lesson   look at it with: zerolab replay lesson'
[ ! -e state/zerolab/labs/zero-1.json ]
ok "a presenter's progress is not kept" $?
[ "$(ls lesson)" = "$(printf '001.zlt\n002.zlt\n003.zlt\n004.zlt')" ] || ls lesson | sed 's/^/# /'
[ -e lesson/003.zlt ]
ok "every run of it is a file" $?
for part in lesson/*.zlt; do "$zerolab" check "$part" || echo BAD; done >checked
# (Records that come late are no fault: a thread may lose its core for longer than the writer waits for what has its time already.)
! grep -E 'BAD|missing' checked | sed 's/^/# /' | grep .
ok "... a whole trace" $?

present 80 24 replay lesson
waits_for "a replay begins with the first page" 'part 1 of 6'
waits_for "... and asks as the lab did" 'How many bytes does a rank send'
pid=$(program_pid)
[ -e "/proc/$pid/exe" ] && [ -z "$(cat "/proc/$pid/task/"*/children)" ]
ok "no engine runs" $?
keys n
waits_for "n turns the page" 'It is 5.01 MB'
waits_for "... and the run stands where it stood then" 'step 2 '
keys n
waits_for "beyond the end of a run comes the next one at which somebody stopped" 'part 4 of 6'
waits_for "... with its question" 'How will the losses compare'
keys n
waits_for "a wrong answer is part of the lesson" 'No. It would be so|Here they are not'
keys N N
waits_for "N goes back, over the border too" 'It is 5.01 MB'
keys K
waits_for "K shows the view of that moment" 'sent by each rank in step 2'
keys K; comes 'It is 5.01 MB'
keys n n n
waits_for "the last page is the last" 'part 2 of 6'
keys n
waits_for "... and says so" 'this was the last page'
keys Enter
waits_for "a recording takes no answers" '!your prediction'
keys q
comes 'status 0'

"$zerolab" replay lesson/001.zlt --frame 120x40 >frame && grep -q 'ZeRO-1: each rank updates' frame && grep -q 'collectives\|device memory' frame
ok "a frame has the pane beside the view" $?
"$zerolab" replay lesson/001.zlt --frame 80x24 >frame && grep -q 'lab: ZeRO-1' frame
ok "... or alone, where it is narrow" $?
"$zerolab" replay lesson/001.zlt --frame 80x24 --view memory >frame && ! grep -q 'lab: ZeRO-1' frame
ok "... and not where a view is asked for" $?
"$zerolab" replay lesson --frame 80x24 2>errors; status=$?
[ $status -eq 2 ] && grep -q 'one of its parts' errors
ok "a whole lesson is no frame" $?
mkdir empty
"$zerolab" replay empty </dev/null 2>errors; status=$?
[ $status -eq 2 ] || [ $status -eq 3 ]
ok "an empty folder is no lesson" $?
present 80 24 lab zero-1 --record lesson
waits_for "a lesson is not written over another" 'lesson is not empty'
finish
