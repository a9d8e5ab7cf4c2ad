#!/bin/bash
# What the capstone's best is worth: every setup that fits its budgets is run for real, and its steps are held against its pace
# (engine/plan/setup.h). No step is shorter; and whoever is best by pace is among the fastest that were measured. Takes some minutes.
. "$(dirname "$0")/../support/tap.sh"
given="bf16.enabled=true train_batch_size=16 gradient_accumulation_steps=null memory.device_budget=5MB memory.host_budget=8MB
topology.device_flops=4e9 topology.links.intra.bandwidth=10MB topology.links.intra.latency=2ms topology.links.pcie.bandwidth=20MB
topology.links.pcie.latency=1ms topology.ranks_as=threads"
number() { sed -n "s/.*\"$1\":\([0-9.e+-]*\).*/\1/p"; }

for stage in 1 2 3; do for offload in none cpu; do for batch in 1 2 4; do for overlap in false true; do
for prefetch in 0 198272; do for bucket in 49568 198272 5e8; do
    [ $stage -lt 3 ] && [ $prefetch != 0 ] && continue # no gathers there
    sets=()
    for set in $given zero_optimization.stage=$stage zero_optimization.offload_optimizer.device=$offload \
        train_micro_batch_size_per_gpu=$batch zero_optimization.overlap_comm=$overlap \
        zero_optimization.stage3_prefetch_bucket_size=$prefetch zero_optimization.reduce_bucket_size=$bucket; do
        sets+=(--set "$set")
    done
    "$zerolab" plan --model nano --json "${sets[@]}" >plan
    [ "$(tr ',{' '\n\n' <plan | sed -n 's/^"peak_bytes"://p' | tail -n 1)" -le 5000000 ] || continue # the device tier's
    "$zerolab" train --headless --steps 3 --report report "${sets[@]}" >/dev/null 2>errors || { cat errors; continue; }
    least=$(tr -d ' \n\t' <report | grep -o '"total":[0-9.e+-]*' | cut -d: -f2 | sort -g | head -n 1)
    echo "$(number paced_seconds <plan) $least stage=$stage offload=$offload batch=$batch overlap=$overlap prefetch=$prefetch bucket=$bucket"
done; done; done; done; done; done >measured

sort -g measured | awk '{printf "# %.3f s by pace, %.3f s measured: %s %s %s %s %s %s\n", $1, $2, $3, $4, $5, $6, $7, $8}'
check "setups were run" [ "$(wc -l <measured)" -gt 30 ]
check "no step is shorter than its pace" awk '$2 < $1 * 0.999 {bad = 1} END {exit bad}' measured
check "who is best by pace is within 10 % of the fastest that was measured" \
    awk 'NR == 1 || $2 < least {least = $2} NR == 1 || $1 < pace {pace = $1; of = $2} END {exit !(of <= least * 1.1)}' measured
finish
