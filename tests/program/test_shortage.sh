#!/bin/bash
# Out of memory teaches: at the start, in a step, and while switching; what it says, and how a run goes on.
. "$(dirname "$0")/../support/tap.sh"
budget="--set memory.device_budget"

"$zerolab" train --headless --steps 4 $threads $budget=16MiB --report out.json >out 2>err
check "without a command left: exit status 4" [ $? -eq 4 ]
check "... outcome" grep -q '"outcome":.*"out_of_memory"' out.json
check "... who held what" grep -q 'held parameters .* MiB, gradients .* MiB, optimizer .* MiB' out
check "... in one unit system, with all refused ranks" grep -q 'asks for [0-9.]* MiB, [0-9.]* MiB of the budget of 16.00 MiB are left; refused on ranks 0-3' out
check "... what would fit" grep -q 'would fit: stage=2 .*, stage=3 .*, budget=' out
"$zerolab" train --headless --steps 4 $threads $budget=12MiB --set zero_optimization.stage=2 >out 2>err
check "where no stage would do: making activations again" grep -qE 'would fit: set model.recompute=full \(9.72 MiB\), ' out
"$zerolab" train --headless --steps 4 $threads $budget=5MB --trace first.zlt >/dev/null
"$zerolab" replay first.zlt --frame 80x24 --at oom >frame
check "at set-up: every rank has given back what it took" [ "$(grep -c ' [0-3] \[·.* 0 B$' frame)" -eq 4 ]
"$zerolab" check first.zlt >checked
check "... and what there is can be replayed" grep -q 'replay *yes' checked
check "... nothing on standard error" [ ! -s err ]

# The state fits, but not the shard from which arrays that are held whole are filled.
"$zerolab" train --headless --steps 2 $threads --set train_micro_batch_size_per_gpu=1 $budget=13360000 --at oom:stage=3 >out 2>err
check "at set-up, while the state is filled: a stage that fits goes on" grep -q '^finished after step 2' out

# At DeepSpeed's sizes: what they keep gathered is let go of by the commands that are offered, one after the other.
echo '{"train_micro_batch_size_per_gpu": 4, "model": {"name": "micro"}, "zero_optimization": {"stage": 3}}' >foreign.json
foreign() { "$zerolab" train foreign.json --headless --steps 1 -n 2 $threads $budget=190MB --report foreign.out.json "$@" >out 2>err; }
foreign
sets=$(grep 'would fit:' out | grep -o 'set zero_optimization.stage3_prefetch.*' | sed 's/ (.*//; s/; /\n/g')
check "smaller sizes are offered together" [ "$(grep -c '^set zero_optimization.stage3_' <<<"$sets")" -eq 3 ]
at=()
while read -r line; do at+=(--at "oom:$line"); done <<<"$sets"
foreign "${at[@]}"
check "... and with them it goes on" grep -q '"outcome":.*"finished"' foreign.out.json

train plain --steps 4 $threads
check "after stage=3 it goes on" train resumed --steps 4 $threads $budget=16MiB --at oom:stage=3
check "... with the bits of a run that never failed" same_bits plain resumed
check "after a larger budget too" train larger --steps 4 $threads $budget=16MiB --at oom:budget=64MiB
check "... same bits" same_bits plain larger
check "in the middle of a run" train middle --steps 4 $threads --at 3:budget=16MiB --at oom:stage=2
check "... same bits" same_bits plain middle
small="--set train_micro_batch_size_per_gpu=1 --set train_batch_size=4 --set data.sequence_length=16"
train small --steps 4 $threads $small
check "a switch that would not fit is refused" train refused --steps 4 $threads $small --set zero_optimization.stage=3 $budget=8MiB --at 3:stage=0
check "... and says so" grep -q 'command stage=0 refused: ' refused.out
check "... and changes no bit" same_bits small refused
check "a budget below what is held is refused" train held --steps 4 $threads --at 3:budget=1MiB
check "... and says so" grep -q 'command budget=1MiB refused: ' held.out
check "... and changes no bit" same_bits plain held
check "below what stage 3 needs at the start, then enough" train start --steps 4 $threads $budget=2MiB --at oom:budget=64MiB
check "... same bits" same_bits plain start
finish
