#!/bin/bash
# Runs that diverge: how they end, what they say, and what stands in the folder of checkpoints. (The state that is left, and
# accumulation: test_divergence.c.)
. "$(dirname "$0")/../support/tap.sh"
small="$tiny --set checkpoint.background=off"
absurd="--set optimizer.type=SGD --set optimizer.params.lr=1000"

# diverges NAME "line" ARGS...: saves every step, keeps two; ends with status 4, one line and the outcome "failed".
diverges() {
    local name=$1 line=$2 status
    shift 2
    "$zerolab" train --headless --steps 60 --report "$name.json" $small $absurd --set checkpoint.path="$name.ck" \
        --set checkpoint.every=1 --set checkpoint.keep=2 "$@" >"$name.out" 2>"$name.err"
    status=$?
    [ $status -eq 4 ] || { echo "# exit status $status"; sed 's/^/# /' "$name.err"; return 1; }
    grep -qE "^zerolab: step [0-9]* diverged: $line" "$name.err" || { sed 's/^/# /' "$name.err"; return 1; }
    [ "$(grep -c '^zerolab: ' "$name.err")" -eq 1 ] || { sed 's/^/# /' "$name.err"; return 1; }
    grep -q '"outcome":.*"failed"' "$name.json" && grep -qE '"kind":.*"diverged"' "$name.json" &&
        grep -q '"tensor":.*"embed wte"' "$name.json" && grep -qE "^step [0-9]*: diverged: " "$name.out"
}
# the step that diverged
step_of() {
    sed -n 's/^zerolab: step \([0-9]*\) diverged:.*/\1/p' "$1.err"
}
# Steps before the one that diverged, and no other, stand; latest names the newest.
stands() {
    local name=$1 last=$2
    [ "$(ls "$name.ck" | tr '\n' ' ')" = "latest step-$((last - 1)) step-$last " ] &&
        [ "$(cat "$name.ck/latest")" = "step-$last" ] || { echo "# $(ls "$name.ck")"; return 1; }
}
finite="the loss is [a-z0-9.+-]*, the gradient norm is [a-z0-9.+-]*; first tensor that is not finite: gradient of embed wte; lower the learning rate"

for stage in 0 1 2 3; do
    check "fp32 at stage $stage" diverges "fp32-$stage" "$finite" $threads --set zero_optimization.stage=$stage
done
step=$(step_of fp32-0)
check "... in the same step everywhere" [ "$(for s in 1 2 3; do step_of fp32-$s; done | sort -u)" = "$step" ]
check "... keeps what was saved before, and saves nothing at the end" stands fp32-0 $((step - 1))
check "... and says what to go on with" grep -q "go on with: zerolab train --resume fp32-0.ck/step-$((step - 2))\$" fp32-0.err
"$zerolab" train --headless --steps $((step - 1)) --report before.json $small $absurd $threads >before.out 2>before.err
check "a run that ends before it: its validation loss says it" grep -q "step $((step - 1)) diverged: the validation loss is not finite" before.err
check "... has the state that was left" same_hash before fp32-0

precision="--set bf16.enabled=true --set bf16.check_grad_overflow=false"
check "bf16 that skips nothing" diverges bf16 "$finite" $threads $precision --set zero_optimization.stage=3
check "... keeps what was saved before" stands bf16 $(($(step_of bf16) - 1))

skipped="3 steps in a row were skipped \(schedule.max_skips\); first tensor that is not finite: gradient of embed wte; lower"
check "bf16 that skips" diverges skips "$skipped" $threads --set bf16.enabled=true --set schedule.max_skips=3 --set zero_optimization.stage=2
step=$(step_of skips)
check "... ends after three skips" [ "$(grep -c '"skipped":.*true' skips.json)" -eq 3 ]
check "... removes no state of before them" [ -e skips.ck/step-$((step - 3)) -a -e skips.ck/step-$((step - 4)) ]
check "... and says which to go on with" grep -q -- "--resume skips.ck/step-$((step - 4))\$" skips.err
check "a live change of the limit" diverges live "$skipped" $threads --set bf16.enabled=true --set schedule.max_skips=0 --at "2:set schedule.max_skips=3"
check "accumulation, in bf16" diverges accumulates "$skipped" $threads --set bf16.enabled=true --set schedule.max_skips=3 \
    --set gradient_accumulation_steps=2 --set train_batch_size=32 --set zero_optimization.stage=3

scale="--set fp16.enabled=true --set fp16.initial_scale_power=4"
check "fp16 at its smallest scale" diverges fp16 "gradients overflow fp16 at the smallest loss scale, 1 " $threads $scale
check "fp16 with a static scale" diverges static "$skipped" $threads --set fp16.enabled=true --set fp16.loss_scale=8 --set schedule.max_skips=3

delayed="--set zero_optimization.stage=2 --set zero_optimization.offload_optimizer.device=cpu --set schedule.delayed_update=true \
--set schedule.delayed_update_after=2"
check "delayed updates" diverges delayed "$finite" $threads $delayed

# Step 2 has a finite gradient, and its update weights that are not.
spoiled="--set checkpoint.every=1 --set checkpoint.keep=1 --at 2:checkpoint=mine --at 3:checkpoint=mine"
spoils() {
    local name=$1 line=$2 status
    shift 2
    "$zerolab" train --headless $small $threads --set checkpoint.path="$name.ck" $spoiled --set optimizer.params.lr=1000 \
        --at "2:set optimizer.params.weight_decay=1e38" "$@" >"$name.out" 2>"$name.err"
    status=$?
    [ $status -eq 4 ] && grep -q "^zerolab: $line; first tensor that is not finite: weights of embed wte; lower" "$name.err" ||
        { sed 's/^/# /' "$name.err"; return 1; }
    [ "$(ls "$name.ck" | tr '\n' ' ')" = "latest mine step-1 " ] || { echo "# $(ls "$name.ck")"; return 1; }
}
for stage in 0 3; do
    check "a state that is not finite, stage $stage" spoils state-$stage "step 3 diverged: the loss is nan, the gradient norm is nan" \
        --steps 9 --set zero_optimization.stage=$stage
done
check "... is not saved when it is due" grep -q "step-2 was not saved: the state is not finite; first tensor that is not finite: weights of embed wte" state-0.out
check "... nor when it is asked for" grep -q "mine was not saved: the state is not finite" state-0.out
check "... and latest names one that is finite" [ "$(cat state-0.ck/latest)" != step-2 ]
spoiled="--set checkpoint.every=1 --set checkpoint.keep=1 --at 2:checkpoint=mine"
check "... nor at the end, which it fails" spoils end "step 2 diverged: the state is not finite" --steps 2

if command -v mpirun >/dev/null; then
    check "ranks as processes" diverges process "$finite" --set zero_optimization.stage=3
    check "... keep what was saved before" stands process $(($(step_of process) - 1))
    check "... skip" diverges process-skips "$skipped" --set bf16.enabled=true --set schedule.max_skips=3
else
    skip "ranks as processes" "no mpirun"
fi
check "an engine that was started again" diverges again "$finite" $threads -n 2 --at 3:ranks=4
finish
