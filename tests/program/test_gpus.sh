#!/bin/bash
# Several GPUs, each a CUDA device emulated on the CPU (make fake): a rank on each, and the same bits as ranks that share one; by NCCL,
# which is emulated too, and in place. An emulated GPU reaches only the memory of another that it was given access to, and with NCCL
# none of it.
unset GPU # several are only emulated
. "$(dirname "$0")/../support/gpu.sh"
small="--steps 3 --set model.name=custom --set model.layers=2 --set model.hidden=32 --set model.heads=2 --set model.context=16
       --set model.vocabulary=256 --set data.sequence_length=16 --set train_micro_batch_size_per_gpu=1"
bf16="--set bf16.enabled=true"
stage="--set zero_optimization.stage"

# on GPUS NAME ARGS...: a run on so many
on() {
    FAKE_GPUS=$1 zerolab=$trainer train "$2" --set topology.backend=cuda $small "${@:3}"
}

same_as() { # REFERENCE GPUS NAME ARGS...
    on "${@:2}" && same_bits "$1" "$3"
}

same_as_each() { # NAME ARGS...: two ranks on one GPU, and on two
    on 1 "$1-one" -n 2 "${@:2}" && same_as "$1-one" 2 "$1-two" -n 2 "${@:2}"
}

refused() { # GPUS TEXT ARGS...
    ! on "$1" refused "${@:3}" && grep -q "$2" refused.err && [ "$(grep -c . refused.err)" -eq "${lines:-1}" ]
}

# Ends by itself, with one line, by the name of the rank.
fails_with() { # TEXT ARGS...
    FAKE_GPUS=2 timeout -k 5 $patience "$trainer" train --headless --set topology.backend=cuda $small -n 2 "${@:2}" >fails.out 2>fails.err
    [ $? -eq 4 ] && [ "$(grep -c "zerolab: rank [0-9]" fails.err)" -eq 1 ] && grep -q "$1" fails.err && return
    sed 's/^/# /' fails.err
    return 1
}

# The most that buckets took of the first rank's device, and what was planned: "PEAK PLANNED".
buckets() {
    tr -d ' \t\n' <"$1.json" | grep -o '"rank":0,"tier":"device","category":"buckets"[^}]*' |
        sed 's/.*"peak_bytes":\([0-9]*\).*"predicted_peak_bytes":\([0-9]*\).*/\1 \2/'
}

# What other ranks send has a buffer, which is planned.
has_room() { # REFERENCE NAME
    local without with planned
    read -r without _ < <(buckets "$1")
    read -r with planned < <(buckets "$2")
    [ "$with" -gt "${without:-0}" ] && [ "$with" -le "$planned" ] || { echo "# $without, $with, $planned"; return 1; }
}

says() { # NAME TEXT
    "$zerolab" replay "$1.zlt" --frame 140x30 --view overview --at step:3 | grep -q "$2"
}

check "two ranks on one GPU" on 1 one2 -n 2 $bf16 --trace one2.zlt
check "four ranks on one GPU" on 1 one4 -n 4 $bf16

# ---- by NCCL, where no GPU can reach another ----
export FAKE_PEERS=0
check "two ranks on two GPUs, by NCCL: the same bits" same_as one2 2 nccl2 -n 2 $bf16 --trace nccl2.zlt
check "... the configuration says so" grep -q '"collectives":.*"nccl"' nccl2.json
check "... and the screen" says nccl2 '2 ranks × 1 thread · cuda, 2 GPUs, NCCL'
check "... which says of one that it is shared" says one2 'cuda, 1 GPU, shared'
check "... what arrives has a buffer, which is planned" has_room one2 nccl2
FAKE_GPUS=2 check "... plan --fit counts what is free when it has connected" free_is_known nccl2 1 ${small#--steps 3} -n 2 $bf16
check "... at stage 1" same_as one2 2 nccl2-1 -n 2 $bf16 $stage=1
check "... at stage 3" same_as one2 2 nccl2-3 -n 2 $bf16 $stage=3
check "... four on four, switched while they train" same_as one4 4 nccl4 -n 4 $bf16 $stage=2 --at 2:stage=3 --at 3:stage=0
check "... and in fp16" same_as_each fp16 --set fp16.enabled=true --set fp16.initial_scale_power=8
check "... and in fp32, with a small bucket" same_as_each fp32 $stage=2 --set zero_optimization.reduce_bucket_size=5000
FAKE_BREAK=reduce@1 check "a rank whose GPU fails ends the others' waits" fails_with 'rank 1: .*GPU 1'
FAKE_BREAK=norm_forward@1 check "... in the midst of a step" fails_with 'rank 1: .*GPU 1' $stage=3
lines=1 FAKE_NCCL=0 check "without the library, asked for by name: refused" refused 2 'libnccl' -n 2 --set topology.collectives=nccl
lines=2 FAKE_NCCL=0 check "... and not asked for: refused with both reasons" refused 2 'cannot reach.*libnccl.*topology.gpus=1' -n 2
lines=1 check "NCCL for ranks that share a GPU: refused" refused 1 'a GPU for each of 2 ranks' -n 2 --set topology.collectives=nccl
unset FAKE_PEERS

# ---- in place ----
in_place="--set topology.collectives=direct"
check "two ranks on two GPUs that reach each other: the same bits" same_as one2 2 two -n 2 $bf16 $in_place
FAKE_BREAK=norm_forward@1 check "... a rank whose GPU fails ends the others' waits" fails_with 'rank 1: .*GPU 1' $in_place $stage=3
FAKE_BREAK=norm_forward@1 FAKE_STRANDS=1 check "... also where what awaits that GPU never ends" fails_with 'rank 1: .*GPU 1' $in_place $stage=3
check "... four on four, switched while they train" same_as one4 4 four-switch -n 4 $bf16 $in_place --at 2:stage=3 --at 3:stage=1
check "... sharing one of two, because it is asked for" same_as one4 2 share -n 4 $bf16 --set topology.gpus=1
check "fewer GPUs than ranks, and more than one: refused" refused 2 'topology.ranks=2 for one each, or topology.gpus=1' -n 4
check "more GPUs than there are: refused" refused 2 'there are 2 here' -n 4 --set topology.gpus=4
check "neither one nor as many as ranks: refused" refused 2 'as many as topology.ranks, which is 4' -n 4 --set topology.gpus=2
finish
