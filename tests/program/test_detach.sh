#!/bin/bash
# --detach and attach: a run that goes on by itself, is found, is stopped by its number, and leaves its report.
. "$(dirname "$0")/../support/tap.sh"
runs() {
    "$zerolab" attach --json | grep -o '"run":[0-9]*' | grep -o '[0-9]*'
}
no_runs() {
    [ -z "$(runs)" ]
}

check "a short run" "$zerolab" train --detach --steps 3 $threads --report short.json
check "... ends by itself" eventually test -s short.json
check "... with its report" grep -q '"outcome":.*"finished"' short.json
eventually no_runs
# A step of this writes some 200 KB of trace; no file here may pass 8.4 MB, which the ranks' shared memory just does not.
limited() { (ulimit -f 8200 && "$zerolab" train --detach --steps 60 $threads $tiny --set model.layers=12 --set model.hidden=8 \
    --set data.sequence_length=8 --set gradient_accumulation_steps=16 --set zero_optimization.stage=3 "$@"); }
if [ -n "${SHORT:-}" ]; then
    skip "a report takes no room on the way" "takes minutes with a sanitizer"
    skip "a trace that finds no room" "takes minutes with a sanitizer"
else
    check "a report takes no room on the way: one of more records than a file may hold" limited --report folded.json
    check "... is written" eventually test -s folded.json
    check "... of a run that finished" grep -q '"outcome":.*"finished"' folded.json
    check "... from its first step on, every one" [ "$(grep -o '"step":[^,]*,' folded.json | head -n 60 | tr -dc '0-9\n' | paste -sd' ')" = "$(seq -s' ' 60)" ]
    check "a trace that finds no room" limited --report lost.json --trace lost.zlt
    check "... does not fail the run" eventually grep -q '"outcome":.*"finished"' lost.json
    check "... whose report says what is missing" grep -q '"error":.*the trace lost.zlt was not written whole' lost.json
fi
eventually no_runs
check "a long run" "$zerolab" train --detach $threads $paced --report long.json --trace long.zlt
number=$(runs)
check "... is found" [ -n "$number" ]
check "another" "$zerolab" train --detach $threads $paced
check "two are listed" [ "$(runs | wc -l)" -eq 2 ]
touch -d '2 hours ago' "$XDG_RUNTIME_DIR"/*/socket
check "... for how long they have gone on, whatever the wall clock says" [ "$("$zerolab" attach --json | grep -cE '"seconds":[0-9]{1,3},')" -eq 2 ]
"$zerolab" attach >out 2>err
check "... and one must be named" [ $? -eq 2 ]
timeout 20 "$zerolab" attach $number </dev/null >out 2>err
check "... on a terminal: with other input it ends at once" [ $? -eq 2 ]
check "... and says so" grep -q 'not a terminal' err
for run in $(runs); do kill "$run"; done
check "SIGTERM ends them" eventually no_runs
check "... as stopped" eventually grep -q '"outcome":.*"stopped"' long.json
check "... with a whole trace" "$zerolab" check long.zlt
check "nothing is left" eventually nothing_left
check "one that is out of memory" "$zerolab" train --detach --steps 5 $threads --set memory.device_budget=5MB --report alone.json
lists() { "$zerolab" attach --json | grep -q "$1"; }
check "... is listed as what it is" eventually lists '"model":"nano","ranks":4,"stage":0,"state":"out of memory"'
check "... and ends without anybody" eventually no_runs
check "... with its report" eventually grep -q '"outcome":.*"out_of_memory"' alone.json
# An engine that is stopped takes no viewers: some twenty fit into the queue of its socket, the next would wait.
check "one to be stopped" "$zerolab" train --detach $threads $paced
number=$(runs) engine=$(cat /proc/$number/task/$number/children)
kill -STOP $engine
# Its threads go on until the first of them has taken the signal.
is_stopped() { ! cat /proc/$engine/task/*/stat | grep -qv ') T '; }
eventually is_stopped
for i in $(seq 20); do timeout 30 "$zerolab" attach --json >waits.$i & done
wait
check "a run that is stopped is listed: it does not answer" eval 'timeout 30 "$zerolab" attach --json >all && grep -q "\"run\":$number.*\"state\":\"does not answer\"" all'
check "... by all that asked" [ "$(grep -l 'does not answer' waits.* | wc -l)" -eq 20 ]
if command -v script >/dev/null; then
    TERM=xterm timeout 30 script -qec "'$zerolab' attach $number" screen.out >/dev/null </dev/null
    check "... nor can be watched: exit status 3" [ $? -eq 3 ]
    check "... in one line" grep -q 'does not answer; if its engine was stopped, kill -CONT continues it' screen.out
else skip "watching a run that is stopped" "no script"; fi
kill -CONT $engine
kill $number
check "... and ends when it goes on" eventually no_runs
check "what cannot start says so" eval '! "$zerolab" train --detach nosuch.json 2>/dev/null'
finish
