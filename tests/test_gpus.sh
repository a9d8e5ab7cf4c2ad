#!/bin/bash
# Several GPUs, which the processor plays (make fake): a rank on each, and the same bits as ranks that share one.
build=$(dirname "${ZEROLAB:-build/release/zerolab}")
played=$(realpath -m build/fake/zerolab)
. "$(dirname "$0")/tap.sh"
case $build in *release*) ;; *) echo "1..0 # SKIP it is the same program in every build"; exit 0 ;; esac
[ -x "$played" ] || { echo "1..0 # SKIP $played is not built"; exit 0; }
small="--steps 3 --set model.name=custom --set model.layers=2 --set model.hidden=64 --set model.heads=4 --set model.context=32
       --set model.vocabulary=256 --set data.sequence_length=32 --set train_micro_batch_size_per_gpu=2"
bf16="--set bf16.enabled=true"
stage="--set zero_optimization.stage"

# on GPUS NAME ARGS...: a run on so many
on() {
    FAKE_GPUS=$1 zerolab=$played train "$2" --set topology.backend=cuda $small "${@:3}"
}

same_as() { # REFERENCE GPUS NAME ARGS...
    on "${@:2}" && same_bits "$1" "$3"
}

refused() { # GPUS TEXT ARGS...
    ! on "$1" refused "${@:3}" && grep -q "$2" refused.err && [ "$(grep -c . refused.err)" -eq "${lines:-1}" ]
}

check "two ranks on one GPU" on 1 one2 -n 2 $bf16
check "four ranks on one GPU" on 1 one4 -n 4 $bf16

# ---- ranks that read each other's GPU in place ----
check "two ranks on two GPUs: the same bits" same_as one2 2 two -n 2 $bf16
check "... at stage 3" same_as one2 2 two-3 -n 2 $bf16 $stage=3
check "... four on four, switched while they train" same_as one4 4 four-switch -n 4 $bf16 --at 2:stage=3 --at 3:stage=1
check "... more GPUs than ranks" same_as one2 4 spare -n 2 $bf16
check "... sharing one of two, because it is asked for" same_as one4 2 share -n 4 $bf16 --set topology.gpus=1
check "fewer GPUs than ranks, and more than one: refused" refused 2 'topology.ranks=2 for one each, or topology.gpus=1' -n 4
check "more GPUs than there are: refused" refused 2 'there are 2 here' -n 4 --set topology.gpus=4
check "neither one nor as many as ranks: refused" refused 2 'as many as topology.ranks, which is 4' -n 4 --set topology.gpus=2
export FAKE_PEERS=0
lines=2 check "GPUs that cannot reach each other: refused" refused 2 'cannot reach.*with topology.gpus=1' -n 2
unset FAKE_PEERS
finish
