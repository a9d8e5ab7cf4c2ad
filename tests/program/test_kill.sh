#!/bin/bash
# kill -9 of a rank, of what started the ranks, of the front end: one clear line in time, no process and no file left. Ranks
# are processes of our own supervisor, threads, or processes of mpirun. (At random moments: tests/bench/kills.sh.)
. "$(dirname "$0")/../support/tap.sh"
under_mpirun="--set topology.ranks_as=mpirun"

# Starts a long run; sets front, launcher, and ranks (its processes, rank 0 first).
start() {
    rm -f out err
    "$zerolab" train --headless --steps 1000000 $tiny "$@" >out 2>err </dev/null &
    front=$!
    eventually grep -q "^step " out || return 1
    launcher=$(children $front | tr -d " ")
    ranks=($(children "$launcher"))
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
# killed_soon "WHO..." "line" ARGS...: and within five seconds; on a machine that is busy with other things in one of three tries.
killed_soon() {
    local who=$1 line=$2 victims
    shift 2
    for attempt in 1 2 3; do
        start "$@" || return 1
        eval "victims=\"$who\""
        kill -9 $victims
        local before=$SECONDS
        killed "$line" || return 1
        [ $((SECONDS - before)) -gt 5 ] || return 0
        echo "# attempt $attempt: $((SECONDS - before)) s"
    done
    return 1
}
segments() { ls -A /dev/shm | grep -E "(vader|sm)_segment.$(hostname)" | sort; } # of Open MPI, also of runs beside this one
segments >segments_before
nothing_more() { [ -z "$(segments | comm -13 segments_before -)" ]; }

check "kill -9 of a rank" killed_soon '${ranks[2]}' "^zerolab: rank 2 \(process [0-9]+\) was ended by signal 9 \(Killed\)$"
check "kill -9 of rank 0" killed_soon '${ranks[0]}' "^zerolab: rank 0 \(process [0-9]+\) was ended by signal 9 \(Killed\)$"
check "kill -9 of all ranks" killed_soon '${ranks[*]}' "^zerolab: rank [0-3] \(process [0-9]+\) was ended by signal 9 \(Killed\)$"
check "kill -9 of the supervisor" killed_soon '$launcher' '^zerolab: the supervisor was ended by signal 9'
check "kill -9 of the supervisor and a rank" killed_soon '$launcher ${ranks[1]}' '^zerolab: the supervisor was ended by signal 9'

# A rank that does not move any more cannot end by itself when another has died.
check "a rank is stopped" start
kill -STOP "${ranks[3]}"
kill -9 "${ranks[1]}"
check "... and another killed" killed 'rank 1 .* signal 9'

check "the front end is stopped" start
kill -STOP $front
kill -9 "${ranks[1]}"
check "... and a rank killed: the others end" eventually gone "$launcher" "${ranks[@]}"
kill -CONT $front
check "... and it says so when it goes on" killed 'rank 1 .* signal 9'

check "another" start
kill -9 $front
wait $front 2>/dev/null
check "kill -9 of the front end: the engine ends by itself" eventually gone "$launcher" "${ranks[@]}"
check "... and the next start cleans up" train next --steps 1 -n 1 $tiny
check "... entirely" [ -z "$(ls -A "$XDG_RUNTIME_DIR")" ]

check "another" start
kill -9 $front "$launcher"
wait $front 2>/dev/null
check "kill -9 of front end and supervisor: no rank stays" eventually gone "${ranks[@]}"
check "... and the next start cleans up" train next --steps 1 -n 1 $tiny

check "another" start
kill -TERM "$launcher"
wait $front
check "SIGTERM for the supervisor stops the run between two steps" grep -q '^stopped after step' out

check "ranks as threads" start --set topology.ranks_as=threads
ranks=()
kill -9 "$launcher"
check "kill -9 of their process" killed 'the engine was ended by signal 9'

check "another" start --trace end.zlt
kill -9 "${ranks[2]}"
wait $front
check "rank 0 ends the trace of a run that lost a rank" "$zerolab" check end.zlt
check "another" start --trace cut.zlt --report cut.json
learned() { "$zerolab" check cut.zlt 2>&1 | grep -q 'learning *yes'; } # a step is in the file a quarter of a second after its end
check "... and a step is in its trace" eventually learned
kill -9 "${ranks[0]}"
wait $front
check "the report of a killed run" grep -q '"outcome":.*"failed"' cut.json
"$zerolab" check cut.zlt >out 2>&1
check "its trace is known to be cut" [ $? -eq 1 ]
check "... and good up to there" grep -q 'learning *yes' out

check "SIGINT" start
kill -INT $front
wait $front
check "... stops the run" [ $? -eq 0 ]
check "... and says so" grep -q '^stopped after step' out
check "SIGTERM" start
kill $front
wait $front
check "... too" grep -q '^stopped after step' out

if ! command -v mpirun >/dev/null; then skip "mpirun" "no mpirun"; finish; fi
# mpirun names the signal; where the other ranks notice first and mpirun is slow to print, theirs is the line.
check "mpirun: kill -9 of a rank" killed_soon '${ranks[2]}' 'rank 2( \(process [0-9]+\))? (was ended by signal 9 .*|died)$' $under_mpirun
check "mpirun: kill -9 of itself" killed_soon '$launcher' 'mpirun was ended by signal 9' $under_mpirun

# Before there is a run: an mpirun that never starts its ranks.
mkdir bin
printf '#!/bin/sh\nexec sleep 100\n' >bin/mpirun
chmod +x bin/mpirun
PATH=$PWD/bin:$PATH "$zerolab" train --headless --steps 100000 --trace none.zlt --report early.json $under_mpirun >out 2>&1 </dev/null &
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
real=$(command -v mpirun)
printf '#!/bin/sh\ntrap "trap \\"\\" TERM; >told" TERM\n>here\nuntil [ -e go ]; do sleep 0.05; done\nexec %s "$@"\n' "$real" >bin/mpirun
PATH=$PWD/bin:$PATH "$zerolab" train --headless --steps 100000 --trace late.zlt --report late.json --set checkpoint.path=late $under_mpirun \
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

# An mpirun that stays when its ranks have gone, as one does that somebody else keeps busy.
printf '#!/bin/bash\n%q "$@"\nexec sleep 100\n' "$real" >bin/mpirun
before=$SECONDS
PATH=$PWD/bin:$PATH check "an mpirun that does not end is ended once its ranks are gone" train stays --steps 2 $tiny $under_mpirun
check "... soon" [ $((SECONDS - before)) -le 20 ]
check "... and nothing is left" [ -z "$(ls -A "$XDG_RUNTIME_DIR")" ]
check "nothing in /dev/shm" eventually nothing_more
finish
