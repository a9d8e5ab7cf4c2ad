#!/bin/bash
# One trace of a run on two hosts (tests/support/two_hosts.sh imitates them): complete steps, clocks aligned, a clock that is 5 s off;
# a view through a launch agent; what `check` says of a trace without the records of some ranks. The hosts need root, or user namespaces.
here=$(dirname "$(realpath "$0")") agent=$(dirname "$(realpath "$0")")/../support/two_hosts.sh
if [ -z "${TWO_HOSTS_STATE:-}" ]; then
    why=$(command -v mpirun ip unshare >/dev/null || echo "needs mpirun, ip and unshare")
    [ -n "$why" ] || why=$(TWO_HOSTS_SKEW_S=5 "$agent" true 2>&1 | head -n 1 | tr -d '\n')
    [ -z "$why" ] && exec timeout -s KILL 200 env TWO_HOSTS_SKEW_S=5 "$agent" "$0"
    TWO_HOSTS_STATE=none
fi
. "$here/../support/screen.sh"
has() { grep -qE -- "$2" "$1" || { echo "# $1 lacks $2: $(head -c 2000 "$1")"; return 1; }; }
tests=$(dirname "$zerolab")/tests

# ---- a view through a launch agent: here a shell of this machine ----
printf '#!/bin/sh\nshift\nexec sh -c "$*"\n' >agent && chmod +x agent
"$zerolab" train --detach $tiny $threads --report far.json >detached 2>&1
ok "a run" $?
run=$("$zerolab" attach --json | grep -o '"run":[0-9]*' | grep -o '[0-9]*')
at_end() { kill $run 2>/dev/null; end_screens; }
terminal() { server=$((server + 1)); start_another "$@"; }
ends() { # NAME STATUS PATTERN ARGS...: attach ends with this status and one line that matches
    local name=$1 status=$2 pattern=$3
    shift 3
    printf '%q ' "$zerolab" attach "$@" >try
    echo '2>err; echo "status $?"; exec sleep 1000' >>try
    terminal bash try
    check "$name" eval "comes 'status $status' && has err '$pattern' && [ \$(grep -c . err) -eq 1 ]"
}
ends "a host without that run" 3 '^zerolab: host b: no run 1 goes on' --launch-agent ./agent b:1
ends "an agent that fails" 3 'host b: the launch agent "false" ended with status 1 and said nothing' --launch-agent false b:$run
ends "an agent that says why" 3 'host b: the launch agent .* ended with status 255: no route' --launch-agent "sh -c 'echo no route >&2; exit 255'" b:$run
ends "an agent that is not there" 3 'host b: the launch agent "./none" ended with status 127' --launch-agent ./none b:$run
ends "a name that is no run's" 2 'b:x is not HOST:RUN' b:x
ends "an agent without a host" 2 'attach to HOST:RUN' --launch-agent ./agent $run
terminal "$zerolab" attach --readonly --launch-agent ./agent b:$run
waits_for "who watches through an agent takes no seat" 'WATCHING'
terminal "$zerolab" attach --launch-agent ./agent b:$run
waits_for "a viewer through an agent drives" 'LIVE'
keys Space
waits_for "... pauses" 'PAUSED'
keys , ,
waits_for "... takes an operation" 'before op 1 '
keys Space
waits_for "... and goes on" 'RUNNING'
kill $run
waits_for "... and sees the end" 'stopped|ENDED'
eventually has far.json '"outcome":.*"stopped"'

# ---- two hosts ----
if [ $TWO_HOSTS_STATE = none ]; then
    skip "a run on two hosts" "they cannot be imitated here (it needs root or user namespaces): $why"
    finish
fi
mkdir tmp && export TMPDIR=$work/tmp
two="$tiny --hosts a:2,b:2 --launch-agent $agent"
figure() { "$tests/overlap" two.zlt ${2-} | grep -o "$1 [0-9]*" | grep -o '[0-9]*'; }
within_ns() { sed -nE 's/^host b: ranks 2-3, clock \+5\.000 s, within ([0-9.]+) ms$/\1/p' analysis | awk '{ printf "%d", $1 * 1e6 + 5000 }'; }
check "two hosts, of which one has a clock 5 s ahead" train two $two --steps 400 --set zero_optimization.stage=3 --trace two.zlt
check "... which is noticed" has two.out '^clock of host b: \+5\.000 s, within [0-9.]+ ms'
check "... has a line of each step" [ "$(grep -c '^step [0-9]*/400 ' two.out)" -gt 1 ]
"$zerolab" check two.zlt >out
ok "the trace is whole" $?
check "... of all ranks" has out 'records of 4 ranks'
check "... says who is where" has out 'host a: ranks 0-1$'
check "... and what the clocks are" has out 'host b: ranks 2-3, clock \+5\.000 s, within [0-9.]+ ms'
check "... with every step on every rank" [ "$(awk '$1 == "step_end" { print $2 }' out)" = 1600 ]
"$zerolab" analyze two.zlt >analysis
check "an analysis has the same" has analysis '^host b: ranks 2-3, clock \+5\.000 s, within [0-9.]+ ms'
check "... and times of every rank" has analysis '^  rank 3 '
check "ranks are together in every collective, as exactly as the clocks are known" \
    holds "$(figure met) >= 2000 && $(figure worst_ns) <= $(within_ns) && $(figure backwards) == 0"
check "... and would not be without the correction" holds "$(figure worst_ns 5000000000) > 4000000000"
tr -d ' \t\n' <two.json >flat
check "the report has the hosts" has flat '"hosts":\[\{"name":"a","first_rank":0,"last_rank":1,"clock_offset_seconds":0,"clock_within_seconds":0\},\{"name":"b","first_rank":2,"last_rank":3,"clock_offset_seconds":(5|4\.9999|5\.0000)'
check "... and memory, traffic and processes of every rank" has flat '"sent_bytes":\[[0-9]+,[0-9]+,[0-9]+,[0-9]+\]'
check "... of every rank" has flat '"rss_peak_bytes":\[[0-9]+,[0-9]+,[0-9]+,[0-9]+\]'
check "... in every tier" has flat '"rank":3,"tier":"device","category":"parameters","live_bytes":[0-9]+'

# Records of a far rank come while it stands in the middle of a step: for three seconds, in a collective on a slow link.
"$zerolab" train --headless $two --steps 1 --set topology.links.inter.latency=3 --trace two.zlt >slow.out 2>&1 &
slow=$!
stands() { [ -s two.zlt ] && [ "$(figure open)" -gt 0 ] && sleep 0.5 && [ "$(figure open)" -gt 0 ]; }
check "what a far rank does is seen while it waits in a step" eventually stands
wait $slow
"$zerolab" check two.zlt >out
ok "... and the trace is whole in the end" $?
finish
