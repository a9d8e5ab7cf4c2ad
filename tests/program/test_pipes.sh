#!/bin/bash
# A pipe that nobody writes or reads holds no command up, wherever a file is expected; one that has its other end is read and
# written as a file is. Cases that have to give up wait side by side.
. "$(dirname "$0")/../support/tap.sh"
run="train --headless --steps 2 $threads $tiny"
export XDG_STATE_HOME=$work/state
mkdir -p state/zerolab/labs class/labs
mkfifo pipe1 pipe2 pipe3 pipe4 pipe5 pipe6 state/zerolab/labs/sixteen-bytes.json class/labs/zero.json
echo '{"a": 0}' >vocab.json

# gives_up NAME COMMAND...: in the background
declare -A pids=()
gives_up() {
    local name=$1
    shift
    timeout -k 1 60 "$@" >"$name.out" 2>"$name.err" </dev/null &
    pids[$name]=$!
}
# gave_up NAME STATUS WORDS
gave_up() {
    wait "${pids[$1]}"
    local status=$?
    [ $status -eq "$2" ] && [ "$(wc -l <"$1.err")" -eq 1 ] && grep -qF -- "$3" "$1.err" || { echo "# status $status: $(cat "$1.err")"; return 1; }
}
gives_up plan "$zerolab" plan pipe1
gives_up train "$zerolab" $run pipe2
gives_up vocabulary "$zerolab" data encode "$root/README.md" -o t.bin --vocabulary pipe3 --merges pipe3
gives_up lab "$zerolab" lab check ./pipe4
gives_up progress "$zerolab" lab reset sixteen-bytes 1
gives_up report "$zerolab" $run --report pipe5
gives_up output "$zerolab" plan --model nano -o pipe6
nobody=": a pipe without a writer; give a file"
check "CONFIG of a plan" gave_up plan 3 "$nobody"
check "... of a run" gave_up train 3 "$nobody"
check "a vocabulary" gave_up vocabulary 3 "$nobody"
check "a lab" gave_up lab 3 "$nobody"
check "a lab's progress" gave_up progress 3 "sixteen-bytes.json: a pipe or a device, not a file"
check "a report" gave_up report 4 "it is a pipe without a reader"
check "other output" gave_up output 2 "it is a pipe without a reader"
check "progress of a class" timeout -k 1 60 "$zerolab" class class >out

nano=$root/configs/nano.json
check "a plan of what a command prints" eval '"$zerolab" plan <(cat "$nano") | cmp - <("$zerolab" plan "$nano")'
check "... on standard input" eval 'cat "$nano" | "$zerolab" plan /dev/stdin | cmp - <("$zerolab" plan "$nano")'
check "... that comes late" eval '"$zerolab" plan <(sleep 1; cat "$nano") | cmp - <("$zerolab" plan "$nano")'
check "a run of it, which reads it once" eval '"$zerolab" train --headless --steps 1 $threads -n 2 <(cat "$nano") >out'
check "... and starts another engine with it" eval '"$zerolab" train --headless --steps 3 $threads -n 2 --at "2:ranks 1" --report r.json <(cat "$nano") >out && grep -q "\"ranks\":.*1" r.json'
printf '{\0}' >zero.json
check "a zero byte in CONFIG" eval '! "$zerolab" plan zero.json 2>err && grep -q "zero.json: a zero byte in it" err'
finish
