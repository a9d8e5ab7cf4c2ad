#!/bin/bash
# Slow motion, a straggler and paced links, changed while the run goes on: steps take as long as they say, and learn the same;
# and delayed updates of the host leave the critical path.
. "$(dirname "$0")/../support/tap.sh"
config=$root/configs/nano-stage3.json

# What a pace makes long takes hardly any processor time: these train at once, each in the background. begin NAME ARGS..., then ended NAME.
declare -A training=()
begin() {
    train "$@" &
    training[$1]=$!
}
ended() { wait "${training[$1]}"; }

# seconds NAME STEP: of that step
seconds() { grep -o '"total":[^,]*' "$1.json" | sed -n "$2p" | cut -d: -f2; }
# quickest NAME FROM TO: of those steps, because a busy machine makes some longer
quickest() { grep -o '"total":[^,]*' "$1.json" | sed -n "$2,$3p" | cut -d: -f2 | sort -g | head -n 1; }
# paced NAME STEP: seconds of that step's collectives that pacing has added, by its trace
paced() { "$zerolab" analyze --json --from $2 --to $2 "$1.zlt" | grep -o '"paced_seconds_per_step":[^,]*' | awk -F: '{ sum += $2 } END { print NR ? sum : -1 }'; }

# Of each operation of a straggler at least 100 ms, far more than the machine adds.
if [ -n "${FULL:-}" ]; then few="--steps 6" slow_from=4 end=6; else few="--steps 4 --set model.layers=2" slow_from=3 end=4; fi
begin straggler "$config" $few $threads --trace straggler.zlt --set topology.slow_motion=10 --at "$slow_from:set topology.slow_rank=2"
begin far "$config" --steps 2 $threads -n 4 --set model.layers=2 --set topology.ranks_per_node=2 \
    --set topology.slow_motion=10 --set topology.slow_rank=3 --trace far.zlt
begin slow "$config" --steps 5 $threads --trace slow.zlt --at "3:set topology.slow_motion=20" --at "4:set topology.slow_motion=1"
begin link "$config" --steps 4 $threads --trace link.zlt --at "3:set topology.links.intra.bandwidth=8MB"

check "a plain run" train plain "$config" --steps 5 $threads
check "slow motion from one step to the next and back" ended slow
check "... the same bits" same_bits plain slow
# 20 x 10 ms for each of the 16 operations in a row that the compute lane has at stage 3, and their gathers
check "... stretches the step" holds "$(seconds slow 3) > 14 * 20 * 0.01"
covered() { # nothing was waited for longer than it took
    tr -d ' \t\n' <slow.json | grep -o '"seconds_per_step":[0-9.e-]*,"exposed_seconds_per_step":[0-9.e-]*' | tr ':,' '  ' |
        awk '{ seen++; if ($4 > $2) bad = 1 } END { exit bad || seen < 3 }'
}
check "... and what is said of its collectives" covered
check "... and only this one" holds "$(paced slow 2) == 0 && $(paced slow 3) > 0 && $(paced slow 4) == 0"
check "what was set is said" grep -q '"key":.*"topology.slow_motion"' slow.json

bytes=$((3 * 4 * 834304 * 3 / 4)) # that a rank sends in a step: 3 Psi (N-1)/N elements
check "a link, paced while it trains" ended link
check "... the same bits as far as it goes" grep -q "$(grep -o '"loss_bits":[^,]*' plain.json | sed -n 4p)" link.json
check "... is as slow as it says" holds "$(seconds link 3) > 0.8 * $bytes / 8e6"
check "... and was not before" holds "$(paced link 2) == 0 && $(paced link 3) > 0"
# Two nodes: the link between them is in use for its latency and its bytes, the one in a node for far less; each has its own exposed time.
if command -v jq >/dev/null; then
    check "a slow link between nodes" train nodes "$config" --steps 3 $threads -n 4 --set topology.ranks_per_node=2 \
        --set topology.links.inter.bandwidth=2MB --set topology.links.inter.latency=1e-3 --set zero_optimization.mics_shard_size=2 --trace nodes.zlt
    link_of() { jq ".links[] | select(.link == \"$1\") | .$2" nodes.json; }
    operations() { jq "[.traffic[] | select(.link == \"inter\") | .count] | add / 3" nodes.json; }
    planned() { jq -n "$(operations) * 1e-3 + $(link_of inter sent_bytes_per_step) / 2e6"; }
    check "... is in use for what it is paced to" holds "$(link_of inter busy_seconds_per_step) > 0.97 * $(planned) && $(link_of inter busy_seconds_per_step) < 1.03 * $(planned)"
    check "... the link in a node is in use for less" holds "$(link_of intra busy_seconds_per_step) > 0 && $(link_of intra busy_seconds_per_step) < 0.3 * $(planned)"
    each_is_covered() { jq -e '[.links[] | .exposed_seconds_per_step > 0 and .exposed_seconds_per_step <= .busy_seconds_per_step * 1.000001] | length == 2 and all' nodes.json >/dev/null; }
    check "... neither was waited for longer than it was in use" each_is_covered
    sums() { jq -e '.traffic as $t | [.links[] | . as $l | (.sent_bytes_per_step - ([$t[] | select(.link == $l.link) | .sent_bytes_per_step] | add)) | fabs < 1] | all' nodes.json >/dev/null; }
    check "... and its bytes are the sum of its kinds" sums
    shown() { "$zerolab" replay nodes.zlt --frame 120x40 --view collectives --at step:3 | grep -E '^ inter, total +[0-9.]+ [KM]iB +[0-9.]+ ms +[0-9.]+ [mu]s *$'; }
    check "... as the view of collectives shows" shown
else skip "links between nodes" "jq is needed"; fi

check "slow motion slows the link as well" train both "$config" --steps 3 $threads \
    --set topology.links.intra.bandwidth=1GB --at "3:set topology.slow_motion=5"
check "... by as much" holds "$(seconds both 3) > 0.8 * 5 * $bytes / 1e9"

check "a straggler" ended straggler
check "... makes all wait" holds "$(quickest straggler $slow_from $end) > 1.3 * $(quickest straggler 1 $((slow_from - 1)))"

# The row of the state has it all the while.
state_row() { "$zerolab" replay "$1.zlt" --frame 80x24 --at "step:$2" --as text | sed -n 4p; }
named() { "$zerolab" replay straggler.zlt --frame 120x40 --view timeline --at "step:4" | grep -qE "slowest rank [0-9.]+ m?s; rank 2 came last in [0-9]+ of [0-9]+"; }
check "... and is named" named
check "a straggler in a node" ended far
of_node() { "$zerolab" replay far.zlt --frame 120x40 --view timeline --at step:2 | grep -qE "slowest rank [0-9.]+ m?s; rank 3 of node 1 came last in "; }
check "... is named with it" of_node
check "a screen says so" grep -q ' slow x10  rank 2 slow ' <<<"$(state_row straggler 4)"
check "... of a link, too" grep -q ' link 8.00 MB/s ' <<<"$(state_row link 3)"
not_yet() { state_row link 1 | grep -q RUNNING && ! state_row link 1 | grep -qE 'link|paced|slow'; }
check "... once it is paced" not_yet
check "paced in more than one way" train ways "$config" --steps 2 $threads --trace ways.zlt --set topology.device_flops=1e10 \
    --set topology.links.intra.latency=1e-5 --set topology.links.pcie.bandwidth=1GB
check "... all of them are said" grep -q ' device paced  links paced ' <<<"$(state_row ways 1)"

# With one step of delay the update leaves the critical path: compute hides most of the host's work.
slow="--steps 7 -n 1 $threads --set topology.slow_motion=9 --set model.layers=8 \
    --set zero_optimization.stage=2 --set zero_optimization.offload_optimizer.device=cpu"
# share NAME N: of all host work, what no compute hid, in percent: of the last four steps the Nth from below
share() {
    tr -d ' \t\n' <"$1.json" | grep -o '"host_update":[0-9.e-]*,"host_exposed":[0-9.e-]*' | tail -4 |
        awk -F '[:,]' '{ print 100 * $4 / $2 } END { if (NR != 4) print "fewer than four steps" }' | sort -g | sed -n "$2p"
}
check "updates after the step" train now $slow
check "updates delayed by one" train late $slow --set schedule.delayed_update=true --set schedule.delayed_update_after=2 --trace late.zlt
check "without delay nothing hides the host's work" holds "$(share now 1) >= 80"
check "with it, most is hidden" holds "$(share late 3) <= 40" # a busy machine may delay one
check "... as the timeline shows" bash -c "'$zerolab' replay late.zlt --frame 120x40 --view timeline --at step:6 | grep -q '^    host  *U'"
finish
