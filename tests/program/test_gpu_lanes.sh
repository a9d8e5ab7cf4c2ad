#!/bin/bash
# Lanes that run ahead of a GPU, in the real program: the bits, the memory and the trace of lanes that are waited for, on streams
# that take their time; hardly a wait of the host in a step. On a CUDA device emulated on the CPU also that the comparison can
# fail, and how an error comes back. GPU=PROGRAM: as in test_gpu.sh.
. "$(dirname "$0")/../support/gpu.sh"
counted=$build/tests/truth
[ -x "$counted" ] || counted=$build/truth # in a folder of make program
small="--set topology.backend=cuda --set bf16.enabled=true --set gradient_accumulation_steps=2 --set model.name=custom --set model.layers=2
       --set model.hidden=64 --set model.heads=4 --set model.context=16 --set model.vocabulary=256 --set data.sequence_length=16
       --set train_micro_batch_size_per_gpu=1"
stage="--set zero_optimization.stage"
offload="--set zero_optimization.offload"
checkpoints="--set model.recompute=full --set activation_checkpointing.cpu_checkpointing=true"
waited_for="--set topology.slow_motion=1.000001" # what is slowed is waited for
export FAKE_DELAY_US=100

# on_gpu NAME ARGS...
on_gpu() {
    zerolab=$trainer train "$1" --steps 2 -n 2 $small "${@:2}"
}

same_as() { # REFERENCE NAME ARGS...
    on_gpu "${@:2}" && same_bits "$1" "$2"
}

either_way() { # NAME ARGS...
    check "$1: runs ahead" on_gpu ahead "${@:2}" --trace ahead.zlt
    check "... memory is as planned" as_planned ahead
    check "... waited for" on_gpu waits "${@:2}" $waited_for
    check "... the same bits" same_bits ahead waits
}

either_way "stage 0" $stage=0
either_way "stage 3" $stage=3
cp ahead.zlt stage3.zlt
cp ahead.json stage3.json
either_way "checkpoints on the host" $stage=1 $checkpoints
cp ahead.json checkpoints.json
either_way "everything offloaded, updates delayed" $stage=3 ${offload}_optimizer.device=cpu ${offload}_param.device=cpu \
    --set schedule.delayed_update=true

check "a step by operations among others: the same bits" same_as stage3 stepped $stage=3 --at 2:pause --at 2:op --at 2:op=5 --at 2:op=9 --at 2:resume

# Of a budget that holds the step but not, beside each other, all pages that it uses; and of one in which those of two schedules
# (a step's and the evaluation's) push each other out.
peak=$(tr -d ' \t\n' <stage3.json | sed 's/.*"peak":\[{[^}]*"bytes":\([0-9]*\).*/\1/')
for more in 0 65536 131072 262144 524288; do
    check "a budget of the peak and $((more / 1024)) KiB: the same bits" same_as stage3 tight $stage=3 --set memory.device_budget=$((peak + more))
done

# ---- the trace ----

# figure STEP NAME: by tests/support/truth.c, which shares no code with the analysis; mean STEP KEY: by the analysis
figure() { "$counted" stage3.zlt "$1" | sed -n "s/^$2 //p"; }
mean() {
    "$trainer" analyze stage3.zlt --from "$1" --to "$1" --json |
        sed -n "/\"mean\":/,\$ s/.*\"$2\":[[:space:]]*\([^,]*\),\{0,1\}$/\1/p" | head -n 1
}
same_figure() { # STEP KEY NAME: seconds there, nanoseconds here
    awk -v a="$(mean "$1" "$2")" -v b="$(figure "$1" "$3")" \
        'BEGIN { d = a * 1e9 - b; exit !(b != "" && (d < 0 ? -d : d) < 2) }' || { echo "# $(mean "$1" "$2") s, $(figure "$1" "$3") ns"; return 1; }
}
# A lane that comes late makes it less, never more.
near_peak() {
    local name=memory.rank1.device
    echo "$(figure 2 $name.fullest_bytes) $(figure 2 $name.planned_bytes)" |
        awk '{ good = NF == 2 && $1 <= $2 && $1 >= 0.9 * $2; if (!good) print "# " $0; exit !good }'
}
if [ -x "$counted" ]; then
    check "the trace of lanes that run ahead: time computing" same_figure 2 compute_seconds mean.compute_ns
    check "... idle" same_figure 2 idle_seconds mean.idle_ns
    check "... communication beside nothing" same_figure 2 exposed_seconds mean.exposed_ns
    check "... its fullest instant is within the planned peak" near_peak
else skip "the trace of lanes that run ahead" "no $counted"; fi

# ---- what only an emulated device can show ----

[ -n "${GPU:-}" ] && finish

waits() { # STEPS RANKS ARGS...: of the host, for a stream that had something to do; of the process that waited most
    rm -f waits
    FAKE_REPORT=$work/waits "$trainer" train --headless --steps "$1" -n "$2" $small "${@:3}" >/dev/null 2>&1 || return 1
    sed -n 's/host waits //p' waits | sort -n | tail -n 1
}
waits_a_step() { # RANKS ARGS...
    local few many
    few=$(waits 2 "$@") && many=$(waits 5 "$@") && [ -n "$few" ] && [ -n "$many" ] || return 1
    awk -v few="$few" -v many="$many" 'BEGIN { print (many - few) / 3 }'
}
check "a step of one rank has hardly a host wait" \
    awk -v n="$(waits_a_step 1 $stage=3)" 'BEGIN { print "# " n " a step"; exit n == "" || n > 1 }'
check "... of two that share a GPU as few" awk -v n="$(waits_a_step 2 $stage=3)" 'BEGIN { print "# " n " a step"; exit n == "" || n > 1 }'
check "... of lanes that are waited for, many" \
    awk -v n="$(waits_a_step 2 $stage=3 $waited_for)" 'BEGIN { print "# " n " a step"; exit n < 20 }'

# A sanitizer reports each call that fails, also one that was to fail.
no_failed_calls() {
    waits 2 2 $stage=3 --set zero_optimization.offload_optimizer.device=cpu >/dev/null && ! grep 'failed calls [1-9]' waits
}
check "no call to CUDA fails" no_failed_calls

is_seen() { # OF REFERENCE ARGS...: other bits, or what ranks hold differs so much that the run ends
    [ -n "$(bits "$2")" ] || return 1
    if FAKE_FORGETS=$1 on_gpu forgets "${@:3}" >forgets.why; then
        [ -n "$(bits forgets)" ] && ! same_bits "$2" forgets >/dev/null
    else grep -q 'differs from what the owners hold' forgets.err; fi
}
check "streams of a rank that forget to await each other are seen" is_seen lanes checkpoints $stage=1 $checkpoints
check "... and ranks whose streams forget it" is_seen ranks stage3 $stage=3

breaks() { # on a busy machine the GPU may break before the next kernel is sent, which then says it
    FAKE_BREAK=norm_forward "$trainer" train --headless --steps 2 -n 1 $small >out 2>&1
    [ $? -eq 4 ] && grep -qE "lane compute, (operation [0-9]+ \([a-z']*\) or what was sent after it: |[a-z_]+: CUDA says )" out && grep -q 'illegal memory access' out
}
check "an error of the GPU is told by lane and operation" breaks
finish
