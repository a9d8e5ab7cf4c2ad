#!/bin/bash
# `zerolab plan --fit` tells the truth: the depth it says trains a step, and one layer more runs out of memory, at several setups
# and whichever tier is in the way. What it calls cheapest trains, and what it says is short by one byte is.
. "$(dirname "$0")/tap.sh"
# A buffer that is given back early makes a peak lower than planned: budgets are such that the next layer lacks more than that.
common="--set topology.ranks_as=threads --set topology.ranks=2 --set data.validation_fraction=0 --set zero_optimization.overlap_comm=false"

# The depth of a setup: STAGE OPTIMIZER PARAM, and what to set.
depth_of() {
    local setup="$1 $2 $3"
    shift 3
    "$zerolab" plan --fit --model nano $common "$@" | tr -d '>' |
        awk -v setup="$setup" '/^The deepest/ { table = 1 } table && $1 " " $2 " " $3 == setup { print $4 }'
}

# Whether a step can be trained: LAYERS STAGE OPTIMIZER PARAM, and what to set.
trains() {
    local layers=$1 stage=$2 optimizer=${3/-/none} param=${4/-/none}
    shift 4
    "$zerolab" train --headless --steps 1 --report run.json $common --set model.name=nano --set model.layers=$layers \
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
hold 1 - - device --set memory.device_budget=17MB $bf16
hold 2 - - device --set memory.device_budget=23456789
hold 3 - - device --set memory.device_budget=7.1MB $bf16
hold 3 - - device --set memory.device_budget=6.1MB --set model.recompute=full
hold 1 cpu - host --set memory.host_budget=12MB
hold 2 cpu - device --set memory.device_budget=13.9MB --set memory.host_budget=1GB $bf16
hold 3 cpu - host --set memory.host_budget=8MB $bf16
hold 3 cpu cpu host --set memory.host_budget=8MB $bf16
hold 3 nvme - nvme --set memory.nvme_budget=7MB --set memory.host_budget=1GB $bf16
hold 3 nvme cpu host --set memory.host_budget=9MB --set schedule.update_tile=20000 $bf16
hold 3 nvme nvme nvme --set memory.nvme_budget=9MB --set schedule.update_tile=20000
hold 3 cpu nvme host --set memory.host_budget=9MB

# The cheapest setup: with what it says to set, the run ends well, also with a budget of just what it needs.
cheapest() { # BUDGETS...: writes what is to be set, and what the device needs
    "$zerolab" plan --fit --model micro $common "$@" >page
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

"$zerolab" plan --fit --model micro --set memory.device_budget=1MB >page
check "exit status 1 where nothing fits" [ $? -eq 1 ]
check "... which is said" grep -q '^Nothing here trains micro as it is' page
"$zerolab" plan --fit >page
check "without a model: GPT-2's family" grep -q "^GPT-2's family: bf16" page
check "... of which something fits here" awk '$1 == 3 && $2 == "-" && $4 > 0 { found = 1 } END { exit !found }' page
"$zerolab" plan --fit --model gpt2-xl --set memory.device_budget=1.5GiB --set memory.host_budget=3GiB >>page
check "at most 80 columns" [ "$(wc -L <page)" -le 80 ]
"$zerolab" plan --fit --json --model nano --set memory.device_budget=15MB >json
check "--json: what is cheapest" grep -q '"cheapest":{"stage":3,"offload_optimizer":"none"' json
check "--json: what the next layer lacks" grep -q '"next_lacks":{"limit":"device","tier":"device","category":' json
check "--fit and --schedule are two questions" eval '! "$zerolab" plan --fit --schedule --model nano >/dev/null 2>&1'
finish
