#!/bin/bash
# The largest GPT that this machine trains from its disk, found by running, against what `zerolab plan --fit` says: at gpt2-xl's
# width, two ranks, states and parameters on NVMe. The depth it says must train a step, and a deeper one run out of memory, both
# within one layer. BIG=1: with 1.5 GiB of device and 3 GiB of host memory a rank, which takes many minutes, 8 GiB of memory and
# 45 GiB of disk under TMPDIR (or /tmp); else with a tenth of that host memory. Arguments are further --set KEY=VALUE.
zerolab=$(realpath "${ZEROLAB:-build/release/zerolab}")
folder=$(mktemp -d "${TMPDIR:-/tmp}/zerolab-fit-XXXXXX")
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1

host=$([ -n "${BIG:-}" ] && echo 3GiB || echo 400MiB)
block=30740800 # elements of a block at this width
setup=(--set train_micro_batch_size_per_gpu=1 --set data.sequence_length=64 --set data.synthetic=true
    --set data.validation_fraction=0 --set bf16.enabled=true --set topology.ranks=2 --set model.recompute=full
    --set zero_optimization.stage=3
    --set zero_optimization.offload_optimizer.device=nvme --set "zero_optimization.offload_optimizer.nvme_path=$folder"
    --set zero_optimization.offload_optimizer.pipeline_read=true
    --set zero_optimization.offload_optimizer.pipeline_write=true
    --set zero_optimization.offload_param.device=nvme --set zero_optimization.offload_param.max_in_cpu=0
    --set zero_optimization.reduce_bucket_size=$block --set zero_optimization.allgather_bucket_size=$block
    --set zero_optimization.stage3_prefetch_bucket_size=$block
    --set memory.device_budget=1.5GiB --set memory.host_budget=$host --set memory.nvme_budget=30GiB "$@")

said() { "$zerolab" plan --fit --model gpt2-xl "${setup[@]}" | tr -d '>' | awk '/^The deepest/ { t = 1 } t && $1 " " $2 " " $3 == "3 nvme nvme" { print $4; exit }'; }

# Outcome of one step at a depth, and its seconds.
try() {
    local began=$SECONDS
    "$zerolab" train --headless --steps 1 --report "$1.json" --set model.name=gpt2-xl "${setup[@]}" --set "model.layers=$1" >"$1.out" 2>&1
    outcome=$(grep -o '"outcome":[[:space:]]*"[a-z_]*"' "$1.json" | cut -d'"' -f4)
    echo "$1 layers: ${outcome:-no report}, $((SECONDS - began)) s"
    [ "$outcome" = finished ] || [ "$outcome" = out_of_memory ] || tail -3 "$1.out"
}

depth=$(said)
echo "plan --fit says $depth layers"
try "$depth"
[ "$outcome" = finished ] || { try $((depth - 1)) && [ "$outcome" = finished ] || exit 1; }
try $((depth + 1))
[ "$outcome" = out_of_memory ] || { try $((depth + 2)) && [ "$outcome" = out_of_memory ]; }
