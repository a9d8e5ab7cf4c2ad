#!/bin/bash
# What becomes of runs when a process is stopped for 30 s, when the disk is full at any of their writes, and when the wall clock is set by
# an hour while they train. Prints one row for each case, and fails when a row is not as it must be. Run by hand: it takes some minutes.
#
#     tests/bench/faults.sh [endings] [stop] [disk] [clock]        all without an argument
#
# endings: every signal in every state of the terminal, as in test_endings, and the table of that.
# STOP=SECONDS: how long a process is stopped. The cases of `disk` need root or user namespaces, those of `clock` libfaketime.
if [ -z "${OWN_MOUNTS:-}" ]; then
    export OWN_MOUNTS=none
    for flags in -m -Urm; do
        unshare $flags true 2>/dev/null && OWN_MOUNTS=yes exec unshare $flags bash "$0" "$@"
    done
fi
. "$(dirname "$0")/../support/tap.sh"
stop=${STOP:-30} with_clock=()
tiny="$threads $tiny"

# ---- the table ----

# row CASE GOOD OUTCOME STATUS LINE KEPT. GOOD: 0 if all is as it must be.
row() {
    printf '%s %-52s | %-22s | %6s | %-84s | %s\n' "$([ "$2" -eq 0 ] && echo "   " || echo NOT)" "$1" "$3" "$4" "${5:--}" "${6:--}" | tee -a table
}
head_row() { printf '\n    %-52s | %-22s | %6s | %-84s | %s\n' "$1" outcome status line "state kept"; }

outcome() { sed -nE 's/^\t"outcome":\t"([a-z_]+)".*/\1/p' "$1.json" 2>/dev/null; }
last_line() { tail -n 1 "$1" 2>/dev/null | sed 's/^zerolab: //'; }
hash_of() { bits "$1" 2>/dev/null | grep state_hash; }
# The state is that of NAME's, and all of the trace is there.
state_kept() { # NAME REFERENCE
    [ -n "$(hash_of "$1")" ] && [ "$(hash_of "$1")" = "$(hash_of "$2")" ] || { echo "another state"; return 1; }
    [ ! -e "$1.zlt" ] || "$zerolab" check "$1.zlt" >/dev/null 2>&1 || { echo "same bits, trace cut"; return 1; }
    echo "same bits, whole trace"
}

descendants() { local pid; for pid in $(children "$1"); do echo "$pid"; descendants "$pid"; done; }
# The engine's processes that train, rank 0 first.
ranks_of() { local pid; for pid in $(descendants "$1" | sort -n); do [ -n "$(children "$pid")" ] || echo "$pid"; done; }
pause_processes() { kill -STOP "$@" && sleep "$stop" && kill -CONT "$@"; }
pause_screen() { pause_processes "$front"; kill -CONT "$terminal"; } # script stops with the program

# In a pseudo-terminal: in_terminal NAME ARGS...; sets front (the program) and terminal (script, which has its status).
in_terminal() {
    local name=$1
    shift
    TERM=xterm-256color ZEROLAB_TOUR=no script -qefc "stty cols 100 rows 30; exec ${with_clock[*]} '$zerolab' $*" "$name.screen" >/dev/null 2>"$name.err" </dev/null &
    terminal=$! front=none
    eventually program_of $terminal && front=$(program_of $terminal)
}
program_of() { local pid; for pid in $(descendants "$1"); do [[ "$(cat /proc/"$pid"/comm)" = zerolab* ]] && echo "$pid" && return; done; return 1; }
shows() { tail -c 40000 "$1.screen" | grep -aq "$2"; }

# ---- signals ----

endings_cases() {
    local state signal good line
    head_row "every signal in every state of the terminal"
    (cd "$root" && ENDINGS=all ZEROLAB=$zerolab CMOCKA_MESSAGE_OUTPUT=TAP build/release/tests/test_endings) >endings 2>&1
    sed -nE 's/^(ok|not ok) [0-9]+ - (.*), SIG([A-Z0-9]+)$/\1\t\2\t\3/p' endings | awk -F '\t' '
        !($2 in all) { order[++count] = $2 }
        { all[$2]++; if ($1 == "ok") good[$2]++; else bad[$2] = bad[$2] " " $3 }
        END { for (i = 1; i <= count; i++) printf "%s\t%d\t%d\t%s\n", order[i], good[order[i]], all[order[i]], bad[order[i]] }' >states
    while IFS=$'\t' read -r state good count bad; do
        row "$state" $((good != count)) "$good of $count signals" "" "${bad:+not:$bad}" "terminal restored, engine gone in 5 s"
    done <states
    [ -s states ] || row "endings" 1 "did not run"
}

# ---- SIGSTOP ----

# stopped CASE NAME CHOOSE [ARGS...]: a headless run; CHOOSE prints the processes to stop, given its front end.
stopped() {
    local case=$1 name=$2 choose=$3 status kept good
    shift 3
    "$zerolab" train --headless --steps 40 --report "$name.json" --trace "$name.zlt" "$@" >"$name.out" 2>"$name.err" </dev/null &
    local front=$!
    eventually grep -q '^step 1/' "$name.out"
    pause_processes $($choose $front)
    wait $front
    status=$?
    kept=$(state_kept "$name" plain)
    good=$?
    row "$case" $((status | good)) "$(outcome "$name")" $status "$(last_line "$name.err")" "$kept"
}
rank_2() { ranks_of "$1" | sed -n 3p; }
rank_0() { ranks_of "$1" | sed -n 1p; }
all_ranks() { ranks_of "$1"; }
launcher() { children "$1"; }
itself() { echo "$1"; }

# The screen of a run of its own: nothing is lost, and it goes on.
stopped_screen() {
    local name=screen status kept good
    in_terminal $name train --steps 40 --report $name.json --trace $name.zlt --set topology.ranks_as=processes
    eventually shows $name RUNNING
    pause_screen
    eventually "$zerolab" check $name.zlt
    kill -TERM "$front"
    wait $terminal
    status=$?
    kept=$(state_kept $name plain)
    good=$?
    row "front end with a screen" $((status | good)) "$(outcome $name)" $status "$(last_line $name.err)" "$kept"
}

# A viewer falls behind by tens of megabytes: the run does not wait for it, and it goes on watching.
stopped_viewer() {
    local name=viewer number steps_before status=0 lost=1
    number=$("$zerolab" train --detach $tiny --report $name.json --trace $name.zlt | sed 's/run \([0-9]*\) .*/\1/')
    in_terminal $name attach --readonly "$number"
    eventually shows $name RUNNING
    steps_before=$(step_of "$number")
    pause_screen
    steps_after=$(step_of "$number")
    goes_on() { [ -e /proc/"$front" ] && [ "$(stat -c %s $name.screen)" -gt "$bytes" ]; }
    bytes=$(stat -c %s $name.screen)
    eventually goes_on && sleep 2 && ! shows $name 'CONNECTION LOST' && lost=0
    kill -TERM "$front"
    wait $terminal || status=$?
    kill "$number"
    eventually [ -s $name.json ]
    [ "$(outcome $name)" = stopped ] && "$zerolab" check $name.zlt >/dev/null || lost=1
    row "viewer of a fast run" $((lost | status)) "$(outcome $name)" $status "$(shows $name 'CONNECTION LOST' && echo CONNECTION LOST)" \
        "$((steps_after - steps_before)) steps meanwhile"
}
step_of() { "$zerolab" attach --json | sed -nE "s/.*\"run\":$1,.*\"step\":([0-9]+).*/\1/p"; }

# A run that is asked to end while a rank is stopped: the second request ends it by force.
stopped_and_ended() {
    local name=forced status before
    "$zerolab" train --headless --steps 1000 --report $name.json --set topology.ranks_as=processes >$name.out 2>$name.err </dev/null &
    local front=$!
    eventually grep -q '^step 1/' $name.out
    local pids; pids=$(ranks_of $front)
    kill -STOP $(rank_2 $front)
    kill -INT $front
    eventually grep -q 'once more' $name.out
    before=$SECONDS
    kill -INT $front
    wait $front
    status=$?
    row "rank, and the run is ended twice" $((status != 4 || SECONDS - before > 12)) "$(outcome $name)" $status "$(last_line $name.err)" \
        "ended in $((SECONDS - before)) s, $(ps -o pid= -p "$(echo $pids | tr ' ' ,)" | wc -l) ranks left"
}

stop_cases() {
    head_row "SIGSTOP for $stop s"
    train plain --steps 40
    stopped "rank 2" rank2 rank_2 --set topology.ranks_as=processes &
    stopped "rank 0" rank0 rank_0 --set topology.ranks_as=processes &
    stopped "all ranks" ranks all_ranks --set topology.ranks_as=processes &
    stopped "launcher" launcher launcher --set topology.ranks_as=processes &
    wait
    stopped "engine whose ranks are threads" threads launcher --set topology.ranks_as=threads &
    stopped "front end without a screen" front itself --set topology.ranks_as=processes &
    stopped_screen &
    wait
    stopped_viewer
    stopped_and_ended
}

# ---- full disks ----

# sweep CASE JUDGE SIZES COMMAND...: the command with disk/ as a file system of each size, in KiB. JUDGE says by its status whether
# what came of it may be, and prints why not; it sees $status, out, err and disk/.
sweep() {
    local case=$1 judge=$2 sizes=$3 statuses= kept why good=0 full=0 tried=0
    shift 3
    : >lines
    for kib in $sizes; do
        mount -t tmpfs -o size=$((kib > 4 ? kib : 4))k none disk || return
        [ "$kib" -gt 0 ] || cat /dev/zero >disk/.filler 2>/dev/null
        "$@" >out 2>err </dev/null
        status=$?
        why=$($judge) || { good=1; echo "# $case, $kib KiB, status $status: $why; $(cat err)"; }
        tried=$((tried + 1))
        [ $status -eq 0 ] || { full=$((full + 1)); last_line err | sed -E 's/step-[0-9]+/step-N/g; s/shard-[0-9]/shard-N/; s/[0-9]+\.(partial|[0-9])/N.\1/' >>lines; }
        statuses="$statuses $status"
        umount disk
    done
    row "$case" $good "too little in $full of $tried" "$(echo $statuses | tr ' ' '\n' | sort -un | paste -sd ,)" \
        "$(sort lines | uniq -c | sort -rn | sed -E 's/^ *[0-9]+ //' | head -n 1)" "$kept_of"
}
left() { ls -A disk | grep -v '^\.filler$'; }
one_line() { [ "$(wc -l <err)" -le 1 ] || echo "more than one line"; [ "$(wc -l <err)" -le 1 ]; }

trace_judge() {
    one_line || return 1
    [ "$kib" -gt 0 ] || { [ $status -eq 4 ] && ! grep -q '^step' out && return; } # not even the beginning: the run is refused
    grep -q '^finished' out || { echo "did not finish"; return 1; }
    "$zerolab" check disk/t.zlt >/dev/null 2>&1
    local check=$?
    [ $status -eq 0 ] && [ $check -eq 0 ] || { [ $status -eq 4 ] && [ $check -ne 0 ] && [ $check -le 3 ]; } || { echo "check says $check"; return 1; }
}
report_judge() {
    one_line || return 1
    grep -q '^finished' out || { echo "did not finish"; return 1; }
    if [ $status -eq 0 ]; then grep -q '"outcome":.*"finished"' disk/r.json && [ "$(tail -c 2 disk/r.json | head -c 1)" = "}" ]
    else [ $status -eq 4 ] && [ -z "$(left)" ]; fi || { echo "left: $(left)"; return 1; }
}
checkpoint_judge() {
    local at latest
    one_line || return 1
    grep -q '^finished' out || { echo "did not finish"; return 1; }
    latest=$(cat disk/ck/latest 2>/dev/null)
    ls -A disk/ck 2>/dev/null | grep -vxE 'latest|step-[0-9]+' >odd && { echo "left: $(cat odd)"; return 1; }
    for at in disk/ck/step-*; do
        [ -e "$at" ] || continue
        "$zerolab" checkpoint inspect "$at" >/dev/null 2>&1 || { echo "$at is not good"; return 1; }
        [ -n "$latest" ] || { echo "$at stands, and there is no latest"; return 1; }
    done
    [ -z "$latest" ] || [ -d "disk/ck/$latest" ] || { echo "latest is $latest"; return 1; }
    case $status in
    0) [ "$latest" = step-3 ] || { echo "latest is $latest"; return 1; } ;;
    4) grep -q "was not saved" err && { [ -z "$latest" ] || grep -q "nor any checkpoint of this run" err || grep -q "the newest is $latest" err; } || { echo "latest is $latest"; return 1; } ;;
    *) return 1 ;;
    esac
}
goes_on_judge() { # what stood before is good whatever became of the new ones
    checkpoint_judge && [ -d disk/ck/step-1 ] || return 1
    "$zerolab" train --headless --resume disk/ck --steps 9 --set checkpoint.every=0 --set checkpoint.at_end=false >again 2>&1 ||
        { echo "cannot go on: $(tail -n 1 again)"; return 1; }
}
log_judge() { one_line && grep -q '^finished' out && { [ $status -eq 4 ] && grep -q 'cannot write the log' err || [ "$kib" -eq 4096 ]; }; }
last_judge() {
    [ "$(wc -l <err)" -le 2 ] || return 1 # one for each file
    local good=0
    "$zerolab" check disk/zerolab/last.zlt >/dev/null 2>&1 || good=4
    [ -s disk/zerolab/last.json ] || good=4
    [ $status -eq 0 ] && [ $good -eq 0 ] || [ $status -ne 0 ] || { echo "status $status, files $good"; return 1; }
}
# What -o names is there whole, as `whole` is, or nothing is there.
output_judge() {
    one_line || return 1
    if [ $status -eq 0 ]; then diff -rq whole disk/x >/dev/null || { echo "is not whole"; return 1; }
    else rmdir disk/x 2>/dev/null; [ $status -ge 2 ] && [ -z "$(left)" ] && grep -qi 'no space\|cannot' err || { echo "left: $(left)"; return 1; }; fi
}
# A status and a line are all that can be asked of what goes straight into a file.
stream_judge() { one_line && { [ $status -eq 0 ] || grep -q 'No space left' err; }; }

resumed() { cp -r first disk/ck && "$zerolab" train --headless $tiny --resume disk/ck --steps 3 --set checkpoint.every=1 --set checkpoint.background=off; }
without_terminal() { XDG_STATE_HOME=$PWD/disk "$zerolab"; }
to_standard_output() { "$zerolab" "$@" >disk/x; }
detached() {
    local number
    mkdir -m 700 disk/runtime || return 4
    XDG_RUNTIME_DIR=$PWD/disk/runtime "$zerolab" train --detach --steps 20 $tiny --report detached.json >out 2>err || return
    number=$(sed 's/run \([0-9]*\) .*/\1/' out)
    eventually [ ! -e "/proc/$number" ]
    [ "$(outcome detached)" = finished ]
}
detached_judge() { one_line && { [ $status -eq 0 ] || [ -s err ] || [ -s detached.json ]; }; }

outputs() { # CASE COMMAND...: with -o disk/x, at no room, one page, and enough
    local case=$1
    shift
    rm -rf whole
    "$zerolab" "$@" -o whole >/dev/null 2>&1
    sweep "$case -o" output_judge "0 4 $(($(du -sk whole | cut -f 1) / 2)) $(($(du -sk whole | cut -f 1) * 2 + 64))" "$zerolab" "$@" -o disk/x
}

disk_cases() {
    if [ "$OWN_MOUNTS" = none ]; then echo "# full disks: no mounts for this user"; return; fi
    head_row "disk full: at each size from 0 up"
    mkdir -p disk
    local run="$zerolab train --headless --steps 3 $tiny"
    local saves="--set checkpoint.path=disk/ck --set checkpoint.every=1 --set checkpoint.keep=2 --set checkpoint.background"
    kept_of="what was written, readable" sweep "trace" trace_judge "$(seq -s ' ' 0 4 40)" $run --trace disk/t.zlt
    kept_of="nothing, or all of it" sweep "report" report_judge "$(seq -s ' ' 0 4 32)" $run --report disk/r.json
    kept_of="checkpoints before it" sweep "checkpoint, in the foreground" checkpoint_judge "$(seq -s ' ' 0 36 1500) $(seq -s ' ' 456 4 480)" $run $saves=off
    kept_of="checkpoints before it" sweep "checkpoint, in the background" checkpoint_judge "$(seq -s ' ' 0 60 1500)" $run $saves=on
    "$zerolab" train --headless --steps 1 $tiny --set checkpoint.path=first >/dev/null
    kept_of="the first, and runs go on" sweep "checkpoint beside another" goes_on_judge "$(seq -s ' ' 460 60 1420)" resumed
    kept_of="the run" sweep "log" log_judge "0 4 16 4096" env DNNL_VERBOSE=1 $run --log disk/log
    kept_of="-" sweep "last.zlt and last.json" last_judge "0 4 16 32 64 96 128 192 256 512 2048" without_terminal
    kept_of="report" sweep "folder of a detached run" detached_judge "0 8 16 32 64 128 256 4096" detached
    kept_of="nothing, or all of it"
    "$zerolab" train --headless --steps 3 $tiny --trace a.zlt >/dev/null
    outputs "checkpoint export" checkpoint export first --to safetensors
    outputs "checkpoint export, llm.c" checkpoint export first --to llmc
    outputs "checkpoint convert" checkpoint convert first --to checkpoint
    outputs "data encode" data encode "$root/data/default.txt"
    outputs "data encode, shards" data encode "$root/data/default.txt" --shard-tokens 100000
    outputs "replay --frame" replay a.zlt --frame 200x60 --as svg
    outputs "analyze" analyze a.zlt
    outputs "check" check a.zlt
    outputs "plan" plan --schedule --model nano
    outputs "checkpoint inspect" checkpoint inspect first
    outputs "data info" data info "$root/data/default.txt"
    outputs "lab metrics" lab metrics
    kept_of="-"
    sweep "standard output: plan" stream_judge "0 4 8" to_standard_output plan --schedule --model nano
    sweep "standard output: analyze" stream_judge "0 4" to_standard_output analyze a.zlt
}

# ---- the wall clock ----

# clock CASE BY ARGS...: a headless run that saves each step; the clock is set by BY seconds after its first step.
clock() {
    local case=$1 by=$2 name=clock status kept good before
    shift 2
    rm -rf $name.*
    echo +0 >now
    "${with_clock[@]}" "$zerolab" train --headless --steps 40 --report $name.json --trace $name.zlt --set checkpoint.path=$name.ck --set checkpoint.every=5 \
        --set checkpoint.keep=2 "$@" >$name.out 2>$name.err </dev/null &
    local front=$!
    eventually grep -q '^step 1/' $name.out
    eventually [ -e $name.ck/latest ]
    echo "$by" >now
    before=$SECONDS
    wait $front
    status=$?
    kept=$(state_kept $name plain)
    good=$?
    [ "$(ls $name.ck | tr '\n' ' ')" = "latest step-35 step-40 " ] || good=1
    row "$case" $((status | good)) "$(outcome $name)" $status "$(last_line $name.err)" "$kept; $(ls $name.ck | tr '\n' ' ')"
}

# A run is stopped just as the clock is set: its end must not wait for the clock.
clock_end() {
    local case=$1 by=$2 name=ended status before
    echo +0 >now
    "${with_clock[@]}" "$zerolab" train --headless --steps 100000 --report $name.json >$name.out 2>$name.err </dev/null &
    local front=$!
    eventually grep -q '^step 1/' $name.out
    before=$SECONDS
    kill -INT $front
    echo "$by" >now
    wait $front
    status=$?
    row "$case" $((status || SECONDS - before > 10)) "$(outcome $name)" $status "$(last_line $name.err)" "ended in $((SECONDS - before)) s"
}

# A detached run that is looked at, watched and ended after the clock was set.
clock_viewer() {
    local case=$1 by=$2 name=watched number seconds status good=1
    rm -f $name.json
    echo +0 >now
    number=$("${with_clock[@]}" "$zerolab" train --detach --report $name.json | sed 's/run \([0-9]*\) .*/\1/')
    echo "$by" >now
    seconds=$("${with_clock[@]}" "$zerolab" attach --json | sed -nE "s/.*\"run\":$number,\"seconds\":(-?[0-9]+).*/\1/p")
    in_terminal $name attach "$number"
    eventually shows $name RUNNING && good=0
    kill -TERM "$front"
    wait $terminal
    status=$?
    kill "$number"
    eventually [ -s $name.json ]
    [ -n "$seconds" ] && [ "$seconds" -ge 0 ] && [ "$seconds" -lt 60 ] || good=1
    row "$case" $((status | good)) "$(outcome $name)" $status "$(last_line $name.err)" "attach says it has gone on for $seconds s"
}

clock_cases() {
    faketime=$(ls /usr/lib/*/faketime/libfaketimeMT.so.1 2>/dev/null | head -n 1)
    if [ -z "$faketime" ]; then echo "# the wall clock: no libfaketime"; return; fi
    with_clock=(env "LD_PRELOAD=$faketime" "FAKETIME_TIMESTAMP_FILE=$PWD/now" FAKETIME_NO_CACHE=1 DONT_FAKE_MONOTONIC=1)
    head_row "wall clock set while a run goes on"
    train plain --steps 40
    for by in +3600 -3600; do
        clock "ranks are processes, $by s" $by --set topology.ranks_as=processes
        clock "ranks are threads, $by s" $by --set topology.ranks_as=threads
        clock "saves in the foreground, $by s" $by --set checkpoint.background=off
        clock_end "a run that is being stopped, $by s" $by
        clock_viewer "a detached run and its viewer, $by s" $by
    done
}

for section in ${@:-endings stop disk clock}; do "${section}_cases"; done
echo
echo "$(grep -vc '^NOT' table) passed, $(grep -c '^NOT' table) failed"
! grep -q '^NOT' table
