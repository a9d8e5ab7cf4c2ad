#!/bin/bash
# The whole engine on a GPU. Ranks are threads that share it. Stages agree bit by bit, also through live switches and with offload.
# The losses are those of the CPU, as far as the order of sums lets them be. Memory is as planned. Without GPU=build/release/zerolab
# the GPU is a CUDA device emulated on the CPU (make fake).
. "$(dirname "$0")/../support/gpu.sh"
# Two sequences of half the context in a micro-batch, so that neither number is the model's or 1; "wide" has whole sequences.
# An odd vocabulary, so that rows of logits are wider than it, and a rest of it is past the whole eights.
small="--steps 3 -n 2 --set model.name=custom --set model.layers=2 --set model.hidden=64 --set model.heads=4 --set model.context=32
       --set model.vocabulary=261 --set data.sequence_length=16 --set train_micro_batch_size_per_gpu=2"
stage="--set zero_optimization.stage"
offload="--set zero_optimization.offload"

# on_gpu NAME ARGS...
on_gpu() {
    zerolab=$trainer train "$1" --set topology.backend=cuda $small "${@:2}"
}

same_as_first() { # of $flags
    on_gpu "$2" $flags "${@:3}" && same_bits "$1" "$2"
}

# Without somebody to change the setup the run ends, with exit status 4.
runs_out() {
    "$trainer" train --headless --set topology.backend=cuda $small "$@" >out 2>err
    [ $? -eq 4 ] && grep -q 'out of .*memory' out err
}

same_as() { # REFERENCE NAME ARGS...
    on_gpu "${@:2}" && same_bits "$1" "$2"
}

# Of each precision with which stages: three of them have one path each to every rule of rounding.
whole() {
    local precision=$1 flags=$2 s
    shift 2
    check "$precision on the GPU" on_gpu $precision-0 $flags
    for s in "$@"; do check "... stage $s: the same bits" same_as_first $precision-0 $precision-$s $stage=$s; done
    check "... on the processor" train $precision-cpu $small $flags
    check "... losses within 0.02" losses_near $precision-0 $precision-cpu
    check "... memory is as planned" as_planned $precision-3
}

flags="--set bf16.enabled=true"
whole bf16 "$flags" 1 2 3
check "... it can be asked for tokens" on_gpu sample $flags --sample 8 --set model.context=32
check "... again: the same bits" same_as_first bf16-0 bf16-again
check "... switched while it trains: the same bits" same_as_first bf16-0 bf16-switch --at 2:stage=3 --at 3:stage=1
tiles="$flags --set model.mlp_tiles=4"
check "... with MLPs in tiles" on_gpu bf16-tiles $tiles
check "... stage 3 in tiles, made again: the same bits" same_as bf16-tiles bf16-tiles-3 $tiles $stage=3 --set model.recompute=full
check "... losses within 0.02 of whole MLPs" losses_near bf16-0 bf16-tiles
# Heads of 64, which Hopper's warpgroups do: so does the emulated one.
wide="$flags --set model.heads=1 --set data.sequence_length=32"
check "... with heads of 64" on_gpu bf16-wide $wide
check "... on the processor" train bf16-wide-cpu $small $wide
check "... losses within 0.02" losses_near bf16-wide bf16-wide-cpu
check "... stage 3, made again: the same bits" same_as bf16-wide bf16-wide-3 $wide $stage=3 --set model.recompute=attention
check "... where there is a GPU for each, sharing one all the same: the same bits" same_as_first bf16-0 bf16-share --set topology.gpus=1
check "... by four ranks" on_gpu bf16-four -n 4 $flags
check "... at stage 3, and switched: the same bits" same_as bf16-four bf16-four-3 -n 4 $flags $stage=3 --at 2:stage=1 --at 3:stage=2
check "... by processes that share it: the same bits" same_as_first bf16-0 bf16-processes $stage=3 --set topology.ranks_as=processes
whole fp32 "" 3
whole fp16 "--set fp16.enabled=true --set fp16.initial_scale_power=8" 3
# Weights so large that the next forward pass is not finite: it comes to the loss scaler, and ends no kernel of the warpgroups.
overflows() {
    ! on_gpu overflow --steps 4 --set fp16.enabled=true --set fp16.initial_scale_power=4 --set model.heads=1 --set data.sequence_length=32 \
        --set optimizer.type=SGD --set optimizer.params.lr=1000 >/dev/null &&
        grep -q '"skipped":.*true' overflow.json && grep -q 'the validation loss is not finite' overflow.err || { sed 's/^/# /' overflow.err; return 1; }
}
check "... what overflows, with heads of 64, is skipped" overflows
check "the optimizer offloaded to the host" on_gpu host $flags $stage=2 ${offload}_optimizer.device=cpu
check "... losses within 0.02" losses_near host bf16-cpu
check "arrays across pieces of pinned memory" on_gpu pieces -n 1 $stage=3 ${offload}_optimizer.device=cpu ${offload}_param.device=cpu \
    --set model.hidden=256 --set data.sequence_length=16 --set train_micro_batch_size_per_gpu=1
check "everything offloaded to NVMe" on_gpu nvme $flags $stage=3 ${offload}_optimizer.device=nvme ${offload}_param.device=nvme \
    ${offload}_optimizer.nvme_path="$work" ${offload}_param.nvme_path="$work"
check "... the same bits as on the host" same_bits host nvme
peak=$(tr -d ' \t\n' <bf16-0.json | sed 's/.*"peak":\[{[^}]*"bytes":\([0-9]*\).*/\1/')
less="--set memory.device_budget=$((peak - 1000))"
check "out of memory at stage 0 with a little less than the peak" runs_out $flags $less
check "... and on at stage 3" on_gpu oom $flags $less --at oom:stage=3
check "... the same bits" same_bits bf16-0 oom

if [ -z "${GPU:-}" ]; then
    # GELU within products, or not: other bits.
    other_bits() { ! same_bits "$1" "$2" >/dev/null; }
    check "GELU in kernels of its own" on_gpu gelu-split $flags --set topology.fused_gelu=false
    check "... has other bits than in products" other_bits bf16-0 gelu-split
    FAKE_REFUSES_GELU=1 check "a library that refuses GELU in a product, when it is to run" same_as gelu-split gelu-refused $flags
    check "... is in the log, once" [ "$(grep -c 'topology.fused_gelu: .* has no GELU after all' gelu-refused.out)" = 1 ]
    check "plan --fit counts what is free when libraries are loaded" free_is_known bf16-0 2 ${small#--steps 3 -n 2} -n 2 $flags
    # Of 512 MiB 490 are free then: two ranks of 250 are refused before they make their state.
    refused_when_loaded() {
        FAKE_MEMORY_MIB=512 "$trainer" train --headless --set topology.backend=cuda $small --set model.layers=303 --set memory.device_budget=250MiB >out 2>err
        [ $? -eq 2 ] && grep -q 'do not fit into the 0.48 GiB that are free on the GPU' err || { sed 's/^/# /' err; return 1; }
    }
    check "... and so does the check before a run" refused_when_loaded
    # Pages of the size that GPUs have, on a device as large as one.
    export FAKE_PAGE_KIB=2048 FAKE_MEMORY_MIB=81920
    check "pages of 2 MiB: switched while it trains, the same bits" same_as bf16-0 pages-switch $flags --at 2:stage=3 --at 3:stage=1
    check "... out of memory and on at stage 3" same_as bf16-0 pages-oom $flags $less --at oom:stage=3
    unset FAKE_PAGE_KIB FAKE_MEMORY_MIB
fi

# NCCL takes a GPU for each rank, so one alone is what can always be had.
nccl="--set topology.collectives=nccl"
if on_gpu nccl-1 -n 1 $flags $stage=1 $nccl >nccl.why; then
    check "one rank, which reads in place" on_gpu one-1 -n 1 $flags $stage=1 --set topology.collectives=direct
    check "... by NCCL: the same bits" same_bits one-1 nccl-1
    check "... at stage 3" same_as one-1 nccl-3 -n 1 $flags $stage=3 $nccl
elif grep -qE 'libnccl|without NCCL' nccl.why; then skip "one rank, by NCCL" "$(tail -n 1 nccl.why)"
else check "one rank, by NCCL: $(tail -n 1 nccl.why)" false; fi
check "what lies outside of all tiers is in the report" grep -q '"outside_bytes":[[:space:]]*[1-9]' bf16-0.json
check "... and said once" [ "$(grep -c '^GPU 0: outside of all tiers .* measured' bf16-0.out)" = 1 ]
# The bench of what fits, as small as it goes.
fits() {
    "$root/tests/bench/gpu_fit.sh" "$trainer" 2MiB 64 4 32 8MiB 16MiB >fit.out 2>&1 && [ "$(grep -c 'trained: a step .* exposed' fit.out)" = 3 ] ||
        { sed 's/^/# /' fit.out; return 1; }
}
check "what fits by plan trains, on the GPU, offloaded to the host and to NVMe; a layer more does not" fits
# Whoever is told of a rank changes between steps, lanes running ahead or not.
costs() {
    "$trainer" bench -n 1 --rounds 1 --set topology.backend=cuda --set bf16.enabled=true $tiny --set train_micro_batch_size_per_gpu=1 >bench.out 2>&1 && grep -qE '^  a trace file +[0-9.]+ ms' bench.out ||
        { sed 's/^/# /' bench.out; return 1; }
}
check "what telemetry costs is measured on a GPU" costs
# Lanes do not run ahead in a step with a held rank, so that those who wait for it are seen.
held() {
    "$trainer" train --headless --set topology.backend=cuda $small $stage=3 --at "2:fault=held 1" >out 2>err </dev/null &
    eventually grep -q 'rank 1 has not come to gather embed; 1 rank waits there in step 2' out
    kill -TERM $!
    wait $! && grep -q '^stopped after step 2' out || { sed 's/^/# /' out err; return 1; }
}
[ -n "${TRAIN_LIMIT:-}" ] || limit_runs 300
check "a held rank, and a signal" held
finish
