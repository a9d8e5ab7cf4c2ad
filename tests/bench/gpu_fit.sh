#!/bin/bash
# The largest GPT of a width that trains on one GPU within a device budget: all of it there, offloaded to the host, offloaded to NVMe.
# `zerolab plan --fit` says how deep, and running finds out: that depth must train, and one layer more run out of memory. The depths
# are compared, and what of the transfers no compute hid is held against what cannot be hidden: the busier direction's time
# less forward and backward, of the step after the first.
#
#     tests/bench/gpu_fit.sh PROGRAM [DEVICE_BUDGET HIDDEN HEADS SEQUENCE HOST_BUDGET NVME_BUDGET]
program=$(realpath "${1:?usage: tests/bench/gpu_fit.sh PROGRAM}")
budget=${2:-2GiB} hidden=${3:-1600} heads=${4:-25} sequence=${5:-1024} host=${6:-16GiB} nvme=${7:-24GiB}
place=$(mktemp -d "${TMPDIR:-/tmp}/zerolab-gpu-fit-XXXXXX")
trap 'rm -rf "$place"' EXIT
cd "$place" || exit 1
block=$((12 * hidden * hidden + 13 * hidden))
setup=(-n 1 --set topology.backend=cuda --set bf16.enabled=true --set model.name=custom --set model.hidden="$hidden" --set model.heads="$heads"
    --set model.context="$sequence" --set data.sequence_length="$sequence" --set model.vocabulary=256 --set data.synthetic=true
    --set data.validation_fraction=0 --set train_micro_batch_size_per_gpu=1 --set model.recompute=full
    --set zero_optimization.reduce_bucket_size=$block --set zero_optimization.allgather_bucket_size=$block
    --set zero_optimization.stage3_prefetch_bucket_size=$block --set memory.device_budget="$budget"
    --set memory.host_budget="$host" --set memory.nvme_budget="$nvme")
offload=zero_optimization.offload

ways=(device host nvme)
declare -A stage=([device]=0 [host]=3 [nvme]=3) named=([device]="0 - -" [host]="3 cpu cpu" [nvme]="3 nvme nvme") sets=(
    [device]="" [host]="--set ${offload}_optimizer.device=cpu --set ${offload}_param.device=cpu"
    [nvme]="--set ${offload}_optimizer.device=nvme --set ${offload}_optimizer.nvme_path=$place --set ${offload}_optimizer.pipeline_read=true
            --set ${offload}_optimizer.pipeline_write=true --set ${offload}_param.device=nvme --set ${offload}_param.max_in_cpu=0")

said() { # WAY: depth and parameters
    # shellcheck disable=SC2086
    "$program" plan --fit --model custom "${setup[@]}" --set model.layers=2 ${sets[$1]} --set zero_optimization.stage=${stage[$1]} | tr -d '>,' |
        awk -v way="${named[$1]}" '/^The deepest/ { deep = 1 } deep && $1 " " $2 " " $3 == way { print $4, $5; exit }'
}

# Outcome of two steps at a depth.
try() { # WAY LAYERS
    # shellcheck disable=SC2086
    "$program" train --headless --steps 2 --report "$1-$2.json" "${setup[@]}" ${sets[$1]} --set zero_optimization.stage=${stage[$1]} \
        --set model.layers="$2" >said 2>&1
    grep -o '"outcome":[[:space:]]*"[a-z_]*"' "$1-$2.json" 2>/dev/null | cut -d'"' -f4
}

# Of the last step and of the flows, in the report: what was exposed, and what the bound leaves.
transfers() { # REPORT
    tr -d ' \t' <"$1" | awk -F: '
        function value() { sub(/,$/, "", $2); return $2 + 0 }
        /"forward":/ { forward = value() }
        /"backward":/ { backward = value() }
        /"total":/ { total = value() }
        /"offload_exposed":/ { offload = value() }
        /"io_exposed":/ { io = value() }
        /"traffic":/ { flows = 0 }
        /"flows":/ { flows = 1 }
        flows && /"bytes_per_step":/ { bytes = value() }
        flows && /"bytes_per_second":/ && value() > 0 && bytes / value() > busiest { busiest = bytes / value() }
        /_exposed":null/ && !flows { unknown = 1 }
        END {
            if (unknown) { print "its records were lost, so its times are unknown"; exit 1 }
            bound = busiest - forward - backward
            printf "a step %.3f s; exposed %.3f s, bound %.3f s", total, offload + io, (bound > 0 ? bound : 0)
        }'
}

failed=0 plain=0
for way in "${ways[@]}"; do
    read -r depth parameters < <(said "$way")
    [ "${depth:-0}" -gt 0 ] || { echo "$way: not one layer fits into $budget"; failed=1; continue; }
    outcome=$(try "$way" "$depth")
    [ "$way" != device ] || plain=$parameters
    ratio=$(awk -v a="$parameters" -v b="$plain" 'BEGIN { if (b) printf "%.1f", a / b; else printf "n/a" }')
    echo "$way: plan --fit says $depth layers, $parameters parameters, $ratio times those of the device alone"
    if [ "$outcome" = finished ]; then
        times=$(transfers "$way-$depth.json") || failed=1
        echo "  trained: $times"
    else
        echo "  $depth layers did not train: ${outcome:-no outcome}; $(tail -n 1 said)"
        failed=1
    fi
    outcome=$(try "$way" $((depth + 1)))
    echo "  one layer more: ${outcome:-$(tail -n 1 said)}"
    [ "$outcome" = out_of_memory ] || failed=1
done
exit $failed
