#!/bin/bash
# kill -9 of a rank, of mpirun, of the front end: one clear line in time, no process and no file left.
. "$(dirname "$0")/tap.sh"
if ! command -v mpirun >/dev/null; then skip "killing processes" "no mpirun"; finish; fi

children() {
    cat /proc/"$1"/task/*/children
}

# Starts a long run; sets front, launcher, and ranks (its processes, rank 0 first).
start() {
    rm -f out err
    "$zerolab" train --headless --steps 100000 "$@" >out 2>err </dev/null &
    front=$!
    eventually grep -q "^step " out || return 1
    launcher=$(children $front | tr -d " ")
    ranks=($(children "$launcher"))
}
gone() {
    local pid
    for pid in "$@"; do
        [ ! -e /proc/$pid ] || [ "$(sed 's/.*) //; s/ .*//' /proc/$pid/stat)" = Z ] || return 1 # a zombie waits for init only
    done
}
# killed "line": the front end has ended with status 4 and this one line; nothing is left.
killed() {
    wait $front
    local status=$?
    [ $status -eq 4 ] || { echo "# exit status $status"; return 1; }
    [ "$(wc -l <err)" -eq 1 ] && grep -qE "$1" err || { echo "# said: $(cat err)"; return 1; }
    eventually gone "$launcher" "${ranks[@]}" || return 1
    [ -z "$(ls -A "$XDG_RUNTIME_DIR")" ] || { echo "# left: $(ls -A "$XDG_RUNTIME_DIR")"; return 1; }
}
# killed_soon WHO "line": and within five seconds; on a machine that is busy with other things in one of three tries.
killed_soon() {
    for attempt in 1 2 3; do
        start || return 1
        kill -9 "${!1}"
        local before=$SECONDS
        killed "$2" || return 1
        [ $((SECONDS - before)) -gt 5 ] || return 0
        echo "# attempt $attempt: $((SECONDS - before)) s"
    done
    return 1
}
shm_before=$(ls -A /dev/shm | grep -cE "(vader|sm)_segment.$(hostname)")

check "kill -9 of a rank" killed_soon 'ranks[2]' 'rank 2.* signal 9'
check "kill -9 of rank 0" killed_soon 'ranks[0]' 'rank 0.* signal 9'
check "kill -9 of mpirun" killed_soon launcher 'mpirun was ended by signal 9'

check "another" start
kill -9 $front
wait $front 2>/dev/null
check "kill -9 of the front end: the engine ends by itself" eventually gone "$launcher" "${ranks[@]}"
check "... and the next start cleans up" train next --steps 1 -n 1
check "... entirely" [ -z "$(ls -A "$XDG_RUNTIME_DIR")" ]

check "ranks as threads" start --set topology.ranks_as=threads
ranks=()
kill -9 "$launcher"
check "kill -9 of their process" killed 'the engine was ended by signal 9'

check "another" start --trace end.zlt
kill -9 "${ranks[2]}"
wait $front
check "rank 0 ends the trace of a run that lost a rank" "$zerolab" check end.zlt
check "another" start --trace cut.zlt --report cut.json
kill -9 "${ranks[0]}"
wait $front
check "the report of a killed run" grep -q '"outcome":.*"failed"' cut.json
"$zerolab" check cut.zlt >out 2>&1
check "its trace is known to be cut" [ $? -eq 1 ]
check "... and good up to there" grep -q 'learning *yes' out

# Before there is a run: an mpirun that never starts its ranks.
mkdir bin
printf '#!/bin/sh\nexec sleep 100\n' >bin/mpirun
chmod +x bin/mpirun
PATH=$PWD/bin:$PATH "$zerolab" train --headless --steps 100000 --trace none.zlt --report early.json >out 2>&1 </dev/null &
front=$!
on_its_way() { [ -n "$(children $front)" ] && grep -q sleep /proc/"$(children $front | tr -d " ")"/comm; }
check "an engine on its way" eventually on_its_way
kill -INT $front
wait $front
check "SIGINT before the run began stops it" [ $? -eq 0 ]
check "... in one line, besides that of the report" [ "$(cat out)" = "$(printf 'stopped before the run began\nreport: early.json')" ]
check "... which says the same" grep -q '"outcome":.*"stopped"' early.json
check "... and leaves nothing" [ -z "$(ls -A "$XDG_RUNTIME_DIR")" ]

# And one whose ranks come up only after the stop: they must not train on until they are killed.
printf '#!/bin/sh\ntrap "trap \\"\\" TERM; >told" TERM\n>here\nuntil [ -e go ]; do sleep 0.05; done\nexec %s "$@"\n' "$(command -v mpirun)" >bin/mpirun
PATH=$PWD/bin:$PATH "$zerolab" train --headless --steps 100000 --trace late.zlt --report late.json --set checkpoint.path=late \
    >out 2>&1 </dev/null &
front=$!
check "another engine on its way" eventually [ -e here ]
kill -INT $front
check "... is told to end" eventually [ -e told ]
touch go
wait $front
check "SIGINT stops it as well" [ $? -eq 0 ]
check "... in the same lines" [ "$(cat out)" = "$(printf 'stopped before the run began\nreport: late.json')" ]
check "... and they have begun nothing" [ ! -e late.zlt -a ! -e late ]
check "... and leave nothing" [ -z "$(ls -A "$XDG_RUNTIME_DIR")" ]
check "SIGINT" start
kill -INT $front
wait $front
check "... stops the run" [ $? -eq 0 ]
check "... and says so" grep -q '^stopped after step' out
check "SIGTERM" start
kill $front
wait $front
check "... too" grep -q '^stopped after step' out
check "nothing in /dev/shm" [ "$(ls -A /dev/shm | grep -cE "(vader|sm)_segment.$(hostname)")" -le "$shm_before" ]
finish
