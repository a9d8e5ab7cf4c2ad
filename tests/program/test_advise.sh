#!/bin/bash
# `zerolab plan --advise`: what it takes is the fastest of what fits, its figures are those of plan and simulate, and its DeepSpeed file
# leads to the same step.
. "$(dirname "$0")/../support/tap.sh"
if ! command -v jq >/dev/null; then
    skip "advice" "jq is needed"
    finish
fi
setup="--model gpt2-xl -n 8 --hardware t4 --set fp16.enabled=true --set train_micro_batch_size_per_gpu=1 --set gradient_accumulation_steps=4"
advise() { "$zerolab" plan --advise --json "$@" >advice.json 2>err; }
of() { jq -r "$1" advice.json; }

check "advice" advise $setup
sets="--set zero_optimization.stage=$(of .take.stage) --set zero_optimization.overlap_comm=true --set model.recompute=$(of .take.recompute)"
agrees() {
    "$zerolab" simulate $setup $sets --json >simulated.json &&
        [ "$(jq '.seconds_per_step, .peak_bytes' simulated.json)" = "$(of '.take.seconds_per_step, .take.device_bytes')" ]
}
check "... its time is what simulate says, its memory what plan says" agrees
in_order() { jq -e '.take.seconds_per_step <= .next.seconds_per_step and (.tuned | map(.seconds_per_step) | . == sort) and .fitting > 1 and .take.device_bytes <= .room_bytes' advice.json >/dev/null; }
check "... the fastest first" in_order
# Every other setup of the four stages without offload takes as long at least, or does not fit.
fastest() {
    local stage
    for stage in 0 1 2 3; do
        "$zerolab" simulate $setup --set zero_optimization.stage=$stage --set zero_optimization.overlap_comm=true --json >other.json || return 1
        jq -e --argjson take "$(of .take.seconds_per_step)" --argjson room "$(of .room_bytes)" '.peak_bytes > $room or .seconds_per_step >= $take' other.json >/dev/null || return 1
    done
}
check "... of all stages" fastest
tuned() {
    local first
    first=$(of '.tuned[0].command' | sed 's/^--set //; s/ --set /\n/g')
    "$zerolab" simulate $setup $sets $(sed 's/^/--set /' <<<"$first") --json >tuned.json && [ "$(jq .seconds_per_step tuned.json)" = "$(of '.tuned[0].seconds_per_step')" ]
}
check "a change that is offered takes what is said of it" tuned
round_trip() {
    jq .deepspeed advice.json >ds.json && "$zerolab" simulate ds.json --set model.name=gpt2-xl --set topology.ranks=8 --hardware t4 --json >again.json &&
        [ "$(jq .seconds_per_step again.json)" = "$(of .take.seconds_per_step)" ]
}
check "the DeepSpeed file leads to the same step" round_trip

# With offload the file names its device, without it none.
offloads() { advise $setup --set memory.device_budget=6GB && jq -e '.take.offload_optimizer == "cpu" and .deepspeed.zero_optimization.offload_optimizer.device == "cpu" and (.deepspeed.zero_optimization | has("offload_param") | not)' advice.json >/dev/null; }
check "less room: the optimizer is offloaded" offloads
# What --set gave is not given up.
kept() { advise $setup --set zero_optimization.stage=2 && [ "$(of '.take.stage, .next.stage' | sort -u)" = 2 ]; }
check "a stage that is set stays" kept
nothing() { advise $setup --set memory.device_budget=100MB; [ $? -eq 1 ] && [ "$(of .fitting)" = 0 ]; }
check "nothing fits: exit status 1" nothing
fsdp2() { "$zerolab" plan --advise $setup --set memory.device_budget=3GB --set model.recompute=full >page 2>err && sed -n '/^FSDP2/,$p' page | tail -n +2 >fsdp.py && grep -q fully_shard fsdp.py &&
    { ! command -v python3 >/dev/null || python3 -m py_compile fsdp.py; }; }
check "FSDP2's calls are Python" fsdp2
narrow() { [ "$(wc -L <page)" -le 80 ]; }
check "the page has 80 columns" narrow

refuses() { "$zerolab" plan "${@:2}" >out 2>err; [ $? -eq 2 ] && [ "$(wc -l <err)" -eq 1 ] && grep -qF -- "$1" err; }
check "refused: a type that the device does not have" refuses "lacks FLOP/s" --advise --model gpt2 --hardware t4 --set bf16.enabled=true
check "refused: no hardware" refuses "--hardware: give t4, " --advise --model gpt2
check "refused: no such hardware" refuses "h1000" --advise --model gpt2 --hardware h1000
check "refused: ranks that fill no nodes" refuses "do not fill nodes of 8" --advise --model gpt2 --hardware a100 -n 12
finish
