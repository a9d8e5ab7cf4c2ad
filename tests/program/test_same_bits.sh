#!/bin/bash
# A stage never changes the learning: every loss and the final state, bit by bit, over stages, live switches, knobs, and
# ranks as threads or processes. The model is small, with an odd vocabulary; FULL=1: nano. STEPS=N: so many steps (8). SHORT=1:
# ranks as threads only.
. "$(dirname "$0")/../support/tap.sh"
short=${SHORT:-}
steps=${STEPS:-8}
switches="--at 3:stage=1 --at 4:stage=2 --at 5:stage=3 --at 6:stage=0 --at 7:stage=3"
stage="--set zero_optimization.stage"
odd="--set model.name=custom --set model.layers=2 --set model.hidden=64 --set model.heads=4 --set model.context=32 \
--set data.sequence_length=32 --set model.vocabulary=257"
model=$odd
[ -z "${FULL:-}" ] || model=

# all_equal NAME STEPS ARGS...: stages 0 to 3 (with ARGS) against stage 0 as threads.
all_equal() {
    local name=$1 n=$2
    shift 2
    train "$name-0" --steps "$n" $threads "$@" || return 1
    for s in 1 2 3; do
        train "$name-$s" --steps "$n" $threads $stage=$s "$@" && same_bits "$name-0" "$name-$s" || { echo "# stage $s"; return 1; }
    done
}

both_skipped_and_not() {
    grep -q '"skipped":.*true' fp16-0.json && grep -q '"skipped":.*false' fp16-0.json
}

for precision in fp32 bf16 fp16; do
    flags=
    [ $precision = bf16 ] && flags="--set bf16.enabled=true"
    # The first four steps are skipped, until the scale has fallen.
    [ $precision = fp16 ] && flags="--set fp16.enabled=true --set fp16.initial_scale_power=20 --set fp16.hysteresis=1"
    check "$precision, four ranks, stages 0 to 3" all_equal $precision "$steps" $model $flags
    [ $precision != fp16 ] || check "... some of fp16 skipped, some not" both_skipped_and_not
    check "$precision, switching while it trains" train $precision-switch --steps "$steps" $threads $model $flags $switches
    check "... changes no bit" same_bits $precision-0 $precision-switch
    if [ -n "$short" ]; then skip "$precision, ranks as processes" "short"; else
        check "$precision, ranks as processes" train $precision-processes --steps "$steps" $stage=3 $model $flags
        check "... change no bit" same_bits $precision-0 $precision-processes
    fi
done

check "other buckets and prefetch" train knobs --steps 6 $threads $model $stage=3 --set zero_optimization.reduce_bucket_size=2e4 \
    --set zero_optimization.stage3_prefetch_bucket_size=1e5 --set zero_optimization.stage3_param_persistence_threshold=1000 \
    --set zero_optimization.overlap_comm=true
check "the plain run for it" train plain --steps 6 $threads $model
check "... change no bit" same_bits plain knobs
check "three ranks, which divide nothing" all_equal three 4 $model -n 3
check "two ranks" all_equal two 4 $model -n 2
check "an odd vocabulary" all_equal odd 4 $odd
check "nano" all_equal nano 2
check "Lion in fp16, gradients kept in fp32 and sent in bf16" all_equal lion 4 $model -n 3 --set fp16.enabled=true --set optimizer.type=Lion \
    --set data_types.grad_accum_dtype=fp32 --set communication_data_type=bf16
for s in 0 1 2 3; do
    check "accumulation 4, stage $s" train acc-$s --steps 4 $threads $model $stage=$s --set gradient_accumulation_steps=4 --set train_batch_size=64
done
check "... same bits at 0 and 1" same_bits acc-0 acc-1
check "... same bits at 2 and 3" same_bits acc-2 acc-3
finish
