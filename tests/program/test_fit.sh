#!/bin/bash
# `zerolab plan --fit` tells the truth: the depth it says trains a step, and one layer more runs out of memory, at several setups
# and whichever tier is in the way. What it calls cheapest trains, and what it says is short by one byte is.
. "$(dirname "$0")/../support/tap.sh"
# A buffer that is given back early makes a peak lower than planned: budgets are such that the next layer lacks more than that.
common="--set topology.ranks_as=threads --set topology.ranks=2 --set data.validation_fraction=0 --set zero_optimization.overlap_comm=false"
# Where the tier in question is not in the way: without these, the search goes down to a thousand layers.
rest="--set memory.device_budget=100MB --set memory.host_budget=100MB"

# The depth of a setup: STAGE OPTIMIZER PARAM, and what to set.
depth_of() {
    local setup="$1 $2 $3"
    shift 3
    "$zerolab" plan --fit --model nano $common $rest "$@" | tr -d '>' |
        awk -v setup="$setup" '/^The deepest/ { table = 1 } table && $1 " " $2 " " $3 == setup { print $4 }'
}

# Whether a step can be trained: LAYERS STAGE OPTIMIZER PARAM, and what to set.
trains() {
    local layers=$1 stage=$2 optimizer=${3/-/none} param=${4/-/none}
    shift 4
    "$zerolab" train --headless --steps 1 --report run.json $common $rest --set model.name=nano --set model.layers=$layers \
        --set zero_optimization.stage=$stage --set zero_optimization.offload_optimizer.device=$optimizer \
        --set zero_optimization.offload_optimizer.nvme_path="$work" --set zero_optimization.offload_param.device=$param \
        --set zero_optimization.offload_param.max_in_cpu=0 "$@" >run.out 2>run.err
    grep -q '"outcome":[[:space:]]*"finished"' run.json
}

# What stopped the run, as its report says: "device", "host" or "nvme".
stopped_by() { tr -d ' \n\t' <run.json | grep -o '"tier":"[a-z]*","category":"[a-z]*","knob"' | head -1 | cut -d'"' -f4; }

# STAGE OPTIMIZER PARAM TIER, and what to set
hold() {
    local stage=$1 optimizer=$2 param=$3 tier=$4
    shift 4
    local depth name="stage $stage, optimizer $optimizer, param $param, short of $tier"
    depth=$(depth_of "$stage" "$optimizer" "$param" "$@")
    check "$name: ${depth:-no} layers train" trains "${depth:-0}" "$stage" "$optimizer" "$param" "$@"
    rm -f run.json
    trains $((depth + 1)) "$stage" "$optimizer" "$param" "$@"
    check "... and one more runs out of memory" grep -q out_of_memory run.json
    check "... of that tier" [ "$(stopped_by)" = "$tier" ]
}

bf16="--set bf16.enabled=true"
hold 0 - - device --set memory.device_budget=20MB
hold 3 cpu cpu host --set memory.host_budget=8MB $bf16
hold 3 nvme nvme nvme --set memory.nvme_budget=9MB --set schedule.update_tile=20000
if [ -z "${SHORT:-}" ]; then
    hold 1 cpu - host --set memory.host_budget=12MB
    hold 2 cpu - device --set memory.device_budget=13.9MB $bf16
    hold 3 - - device --set memory.device_budget=6.1MB --set model.recompute=full
    hold 3 nvme - nvme --set memory.nvme_budget=7MB $bf16
fi
if [ -n "${FULL:-}" ]; then # those above have every stage, every place of the optimizer and of parameters, and every tier
    hold 1 - - device --set memory.device_budget=17MB $bf16
    hold 2 - - device --set memory.device_budget=23456789
    hold 3 - - device --set memory.device_budget=7.1MB $bf16
    hold 3 cpu - host --set memory.host_budget=8MB $bf16
    hold 3 nvme cpu host --set memory.host_budget=9MB --set schedule.update_tile=20000 $bf16
    hold 3 cpu nvme host --set memory.host_budget=9MB
fi

# The cheapest setup: with what it says to set, the run ends well, also with a budget of just what it needs.
cheapest() { # BUDGETS...: writes what is to be set, and what the device needs
    "$zerolab" plan --fit "$root/configs/nano.json" --set model.name=micro $common "$@" >page
    sets=$(awk '/--set/ { print $(NF - 1), $NF }' page)
    needs=$(awk '/^The cheapest/ { here = 1 } here && $1 == "device" { gsub(",", "", $2); print $2; exit }' page)
}

micro() { # NAME DEVICE BUDGET
    train "$1" --steps 1 $common --set model.name=micro --set memory.device_budget="$2" $sets 2>/dev/null >&2
}

cheapest --set memory.device_budget=200MB # stage 1 gives nothing back early: the peak is always reached
check "200 MB: stage 1 is cheapest" [ "$sets" = "--set zero_optimization.stage=1" ]
check "... and trains in $needs bytes" micro exact "$needs"
check "... but not in one less" eval '! micro less $((needs - 1))'
check "a cheaper one is refused for bytes that it lacks" grep -q '^ *0 - .* device: ' page
cheapest --set memory.device_budget=80MB
check "80 MB: the optimizer is offloaded" grep -q 'offload_optimizer.device=cpu' <<<"$sets"
check "... which trains in $needs bytes" micro offloaded "$needs"

# A wide model, of which one block at once is what does not fit.
wide="--set model.layers=2 --set model.hidden=512 --set zero_optimization.stage3_prefetch_bucket_size=0
  --set zero_optimization.reduce_bucket_size=100000"
"$zerolab" plan --fit --model nano $common $wide --set memory.device_budget=26MB >page
sets=$(awk '/--set/ { print $(NF - 1), $NF }' page)
check "a wide model: MLPs are cut into tiles" grep -q 'model.mlp_tiles=' <<<"$sets"
check "... on lines of at most 80 columns" [ "$(wc -L <page)" -le 80 ]
check "... which trains" train tiled --steps 1 $common --set model.name=nano $wide --set memory.device_budget=26MB $sets
check "... and does not in one piece" eval '! train whole --steps 1 $common --set model.name=nano $wide \
    --set memory.device_budget=26MB ${sets/model.mlp_tiles=*/model.mlp_tiles=1} 2>/dev/null >&2'

# A file from elsewhere, at DeepSpeed's own sizes: everything stays gathered, and a bucket holds all gradients, unless it is changed.
echo '{"train_micro_batch_size_per_gpu": 4, "model": {"name": "micro"}, "zero_optimization": {"stage": 2}}' >foreign.json
for budget in 40MB ${FULL:+60MB}; do
    fits=1
    "$zerolab" plan --fit foreign.json $common --set memory.device_budget=$budget >page && fits=0
    sets=$(awk '/--set/ { print $(NF - 1), $NF }' page)
    check "a foreign file, $budget: something fits" [ $fits -eq 0 ]
    check "... with smaller buckets" grep -q 'reduce_bucket_size=' <<<"$sets"
    check "... on lines of at most 80 columns" [ "$(wc -L <page)" -le 80 ]
    check "... which trains" eval '"$zerolab" train foreign.json --headless --steps 1 $common --report run.json \
        --set memory.device_budget=$budget $sets >run.out 2>run.err && grep -q "\"outcome\":[[:space:]]*\"finished\"" run.json'
done
"$zerolab" plan foreign.json --set memory.device_budget=1000 >page
check "a plan over its budget says so, and where to look" grep -q 'does not fit: .* see --fit$' page
"$zerolab" plan foreign.json --set memory.device_budget=1GB >page
check "... and one within it does not" eval '! grep -q "does not fit" page'

"$zerolab" plan --fit --model micro --set memory.device_budget=1MB >page
check "exit status 1 where nothing fits" [ $? -eq 1 ]
check "... which is said" grep -q '^Nothing here trains micro as it is' page
# A model by name, in no file: its own context, and sizes of its own blocks, which nobody gave.
"$zerolab" plan --model gpt2 --explain >page
check "--model: only its name is given" [ "$(awk '/^GIVEN/ { on = 1 } /^NOT GIVEN/ { exit } on && / (file|--set|auto) / { n++ } END { print n + 0 }' page)" -eq 1 ]
check "... a bucket is a block of it" grep -qE '^  reduce_bucket_size +7,087,872 elements derived' page
check "... and its context is whole" grep -qE '^  sequence_length +1,024 tokens +derived' page
check "... as our own configuration has it" eval '"$zerolab" plan --model nano >one && "$zerolab" plan "$root/configs/nano.json" >other && cmp one other'
"$zerolab" plan --model gpt2 --set zero_optimization.reduce_bucket_size=5e8 >page
check "... what is given stays" grep -q '^reduce_bucket_size 500000000, allgather_bucket_size 7087872,' page
check "an unknown one is refused, in no file's name" eval '! "$zerolab" plan --model gpt3 2>error && grep -q "^zerolab: model.name = .gpt3.: no such model" error'
check "... nor is a key's" eval '! "$zerolab" train --set model.name=gpt3 2>error && ! grep -q nano.json error'

"$zerolab" plan --fit >page
check "without a model: GPT-2's family" grep -q "^GPT-2's family: bf16" page
check "... of which something fits here" awk '$1 == 3 && $2 == "-" && $4 > 0 { found = 1 } END { exit !found }' page
"$zerolab" plan --fit --model gpt2-xl --set memory.device_budget=1.5GiB --set memory.host_budget=3GiB >>page
check "at most 80 columns" [ "$(wc -L <page)" -le 80 ]
"$zerolab" plan --fit --json --model nano --set memory.device_budget=15MB >json
check "--json: what is cheapest" grep -q '"cheapest":{"stage":3,"offload_optimizer":"none"' json
check "--json: what the next layer lacks" grep -q '"next_lacks":{"limit":"device","tier":"device","category":' json
check "--json: how deep with less held" grep -qE '"smaller":\{"stage":[0-3],.*"recompute":"full"' json
check "--fit and --schedule are two questions" eval '! "$zerolab" plan --fit --schedule --model nano >/dev/null 2>&1'
finish
