#!/bin/bash
# Offload to host memory in the real program: bits, traffic and memory against the plan, live switches of tier, what a host
# budget or a limit of locked memory that does not suffice leads to.
# The model of the first part is small; FULL=1: nano and micro too.
. "$(dirname "$0")/../support/tap.sh"
zero="--set zero_optimization"
optimizer="$zero.offload_optimizer.device=cpu" param="$zero.offload_param.device=cpu"

# All planned bytes of a kind of traffic over the ranks, and those that moved.
moved() { # KIND NAME
    tr -d ' \t\n' <"$2.json" | grep -o "{\"kind\":\"$1\",\"link\":\"pcie\"[^}]*}" | sed 's/.*"sent_bytes_per_step":\([0-9]*\).*/\1/'
}
planned() { # KIND ARGS...
    local kind=$1
    shift
    "$zerolab" plan "$root/configs/nano.json" "$@" | awk -v kind="$kind" '$1 == kind && $3 == "operations" { gsub(",", "", $4); print $4 }'
}
traffic_is_planned() { # NAME ARGS...
    local name=$1 kind
    shift
    for kind in d2h h2d; do
        [ "$(moved $kind "$name")" = "$(planned $kind "$@")" ] || { echo "# $kind: $(moved $kind "$name"), planned $(planned $kind "$@")"; return 1; }
    done
}
peaks_within_plan() { # NAME: every row of "peak", both tiers
    tr -d ' \t\n' <"$1.json" | grep -o '"peak":\[[^]]*\]' | grep -o '{[^}]*}' | sed 's/.*"tier":"\([a-z]*\)","bytes":\([0-9]*\),"predicted_bytes":\([0-9]*\).*/\1 \2 \3/' |
        awk '{ tiers[$1]++; if ($2 > $3) { print "# " $0; bad = 1 } } END { exit bad || !tiers["host"] || !tiers["device"] }'
}

small="--set model.name=custom --set model.layers=2 --set model.hidden=64 --set model.heads=4 --set model.context=32 \
--set data.sequence_length=32 --set model.vocabulary=257"
for model in small ${FULL:+nano micro}; do
    for precision in fp32 bf16; do
        shape="--set model.name=$model"
        [ $model = small ] && shape=$small
        [ $precision = bf16 ] && shape="$shape --set bf16.enabled=true"
        base="--steps 6 $threads $shape"
        check "$model, $precision, stage 0 on the device" train plain $base
        while read -r stage where; do
            set -- $zero.stage=$stage
            case $where in *optimizer*) set -- "$@" $optimizer ;; esac
            case $where in *param*) set -- "$@" $param ;; esac
            check "$model, $precision, stage $stage, $where on the host" train host $base "$@"
            check "... the same bits" same_bits plain host
            check "... no peak above the plan" peaks_within_plan host
            check "... traffic equals the plan to the byte" traffic_is_planned host $shape "$@"
        done <<END
1 optimizer
2 optimizer
3 optimizer
3 param
3 optimizer and param
END
    done
    check "$model, live switches of tier" train tiers $base --at 2:stage=2 --at 3:"set zero_optimization.offload_optimizer.device=cpu" \
        --at 4:stage=3 --at 4:"set zero_optimization.offload_param.device=cpu" --at 5:"set zero_optimization.offload_optimizer.device=none" \
        --at 6:"set zero_optimization.offload_param.device=none" --at 6:stage=0
    check "... the same bits" same_bits plain tiers
done

check "ranks as processes, everything on the host" train processes --steps 4 $zero.stage=3 $optimizer $param
check "ranks as threads, nothing" train plain --steps 4 $threads
check "... the same bits" same_bits plain processes
check "delayed updates as processes" train late-3 --steps 4 $zero.stage=3 $optimizer --set schedule.delayed_update=true --set schedule.delayed_update_after=2
check "... at stage 1, as threads" train late-1 --steps 4 $threads $zero.stage=1 $optimizer --set schedule.delayed_update=true --set schedule.delayed_update_after=2
check "... the same bits" same_bits late-1 late-3
check "... which are not those of updates that are not delayed" bash -c "! diff -q <(grep loss_bits plain.json) <(grep loss_bits late-1.json) >/dev/null"

# A host budget that does not suffice is an outcome.
"$zerolab" train --headless --steps 4 $threads $zero.stage=2 $optimizer --set memory.host_budget=3MiB --report out.json >out 2>err
check "a host budget that is too small: exit status 4" [ $? -eq 4 ]
check "... outcome" grep -q '"outcome":.*"out_of_memory"' out.json
check "... it was the host tier" grep -q 'out of host memory' out
check "then with the optimizer back on the device" train back --steps 4 $threads $zero.stage=2 $optimizer --set memory.host_budget=3MiB \
    --at oom:"set zero_optimization.offload_optimizer.device=none"
check "... the bits of a run that never failed" same_bits plain back
check "a switch to a tier without room is refused" train refused --steps 4 $threads $zero.stage=2 --set memory.host_budget=3MiB \
    --at 3:"set zero_optimization.offload_optimizer.device=cpu"
check "... and says so" grep -q 'refused: .*host tier' refused.out
check "... and changes no bit" same_bits plain refused

# What cannot be offloaded is refused by name.
refuses() { ! "$zerolab" train --headless --steps 1 "$@" >/dev/null 2>err && grep -q 'use stage' err; }
check "offload_optimizer at stage 0 is refused" refuses $optimizer
check "offload_param at stage 2 is refused" refuses $zero.stage=2 $param

# Locked memory.
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
    few() { (ulimit -l 256 && setpriv --inh-caps=-ipc_lock --bounding-set=-ipc_lock "$zerolab" train --headless --steps 2 $threads $zero.stage=2 $optimizer "$@" >out 2>err); }
    check "a limit of locked memory" few
    if grep -q __asan_init "$zerolab"; then skip "... is told of once" "AddressSanitizer locks nothing"
    else check "... is told of once, with the remedy" bash -c "[ \$(grep -c 'pin_memory: .* ulimit -l' out) = 1 ]"
    fi
    check "... not without pin_memory" bash -c "$(declare -f few); zerolab=$zerolab threads='$threads' zero='$zero' optimizer='$optimizer'; few $zero.offload_optimizer.pin_memory=false && ! grep -q 'pin_memory: ' out"
else skip "a limit of locked memory" "only root can drop the right to pass it"; fi

finish
