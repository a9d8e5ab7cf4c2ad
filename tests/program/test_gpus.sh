#!/bin/bash
# Several GPUs, each a CUDA device emulated on the CPU (make fake). A rank on each has the same bits as ranks that share one: by NCCL,
# which is emulated too; in place; as threads and as processes. An emulated GPU reaches only the memory of another that it was given
# access to, and with NCCL none of it.
unset GPU # several are only emulated
. "$(dirname "$0")/../support/gpu.sh"
export FAKE_FOLDER=$work
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

# The same for ranks that print for themselves.
fails_alone() { # TEXT ARGS...
    FAKE_GPUS=2 timeout -k 5 $patience "$trainer" train --headless --set topology.backend=cuda $small -n 2 "${@:2}" >fails.out 2>fails.err
    [ $? -eq 4 ] && grep -q "^zerolab: .*$1" fails.err && return
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

has_no_room() { # REFERENCE NAME
    local without with planned
    read -r without planned < <(buckets "$1")
    read -r with planned < <(buckets "$2")
    [ "$with" -le "$without" ] || { echo "# $without, $with, $planned"; return 1; }
}

other_bits() { # NAME NAME
    [ -n "$(bits "$1")" ] && [ -n "$(bits "$2")" ] && ! same_bits "$1" "$2" >/dev/null
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
sums="--set topology.collectives=nccl_sum"
check "NCCL adds, too" on 4 sum4 -n 4 $bf16 $sums
check "... losses within 0.02" losses_near one4 sum4
check "... other bits: its order is its own" other_bits one4 sum4
check "... no buffer for what arrives" has_no_room one4 sum4
check "... at stage 3, in processes" on 4 sum4-3 -n 4 $bf16 $sums $stage=3 --set topology.ranks_as=processes
check "... losses within 0.02" losses_near one4 sum4-3
lines=1 check "... after a scale of its own: refused" refused 4 'prescale_gradients' -n 4 $sums --set prescale_gradients=true
FAKE_BREAK=reduce@1 check "a rank whose GPU fails ends the others' waits" fails_with 'rank 1: .*GPU 1'
FAKE_BREAK=norm_forward@1 check "... in the midst of a step" fails_with 'rank 1: .*GPU 1' $stage=3
FAKE_ABORT_HANGS=1 FAKE_BREAK=norm_forward@1 check "... also where NCCL does not end" fails_alone 'NCCL does not end' $stage=3
lines=1 FAKE_NCCL=0 check "without the library, asked for by name: refused" refused 2 'libnccl' -n 2 --set topology.collectives=nccl
lines=1 FAKE_NCCL=0 check "... and not asked for: refused with both reasons" refused 2 'cannot reach.*libnccl.*topology.gpus=1' -n 2
lines=1 check "NCCL for ranks that share a GPU: refused" refused 1 'a GPU for each of 2 ranks' -n 2 --set topology.collectives=nccl
unset FAKE_PEERS

# ---- in place ----
in_place="--set topology.collectives=direct"
check "two ranks on two GPUs that reach each other: the same bits" same_as one2 2 two -n 2 $bf16 $in_place
FAKE_BREAK=norm_forward@1 check "... a rank whose GPU fails ends the others' waits" fails_with 'rank 1: .*GPU 1' $in_place $stage=3
FAKE_BREAK=norm_forward@1 FAKE_STRANDS=1 check "... also where what awaits that GPU never ends" fails_with 'rank 1: .*GPU 1' $in_place $stage=3
check "... four on four, switched while they train" same_as one4 4 four-switch -n 4 $bf16 $in_place --at 2:stage=3 --at 3:stage=1
check "... sharing one of two, because it is asked for" same_as one4 2 share -n 4 $bf16 --set topology.gpus=1
check "four on two, which share them by two: the same bits" same_as one4 2 four-two -n 4 $bf16 $in_place --trace four-two.zlt
check "... as the screen says" says four-two 'cuda, 2 GPUs, shared'
check "... of neighbours" [ "$(tr -d ' \t' <four-two.json | sed -n 's/^"first_rank":\([0-9]*\).*/\1/p' | tr -d '\n')" = 02 ]
check "... four on three" same_as one4 3 four-three -n 4 $bf16 $in_place $stage=3
check "... two of four: the same bits" same_as one2 4 two-four -n 2 $bf16 $in_place
check "more GPUs than there are: refused" refused 2 'there are 2 here' -n 4 --set topology.gpus=4
check "more GPUs than ranks: refused" refused 4 'at most one for each of topology.ranks, which is 2' -n 2 --set topology.gpus=4

# ---- ranks that are processes, by NCCL ----
export FAKE_PEERS=0
processes="--set topology.ranks_as=processes"
# external RANKS NAME ARGS...: under somebody else's mpirun; $wrapper stands before the program
external() {
    timeout -k 5 $patience mpirun $mpi_root --oversubscribe -n "$1" ${wrapper:-} "$trainer" train --headless --report "$2.json" \
        --set topology.backend=cuda $small "${@:3}" >"$2.out" 2>"$2.err" || { sed 's/^/# /' "$2.err"; return 1; }
}
external_as() { # REFERENCE RANKS NAME ARGS...
    external "${@:2}" && same_bits "$1" "$3"
}
no_external() { # RANKS TEXT ARGS...
    ! external "$1" no_external "${@:3}" >/dev/null && grep -q "$2" no_external.err
}
# Rank 1 is killed in a long run. Rank 0, whose threads all wait for its GPU, ends the trace by itself.
killed() {
    FAKE_GPUS=2 "$trainer" train --headless --set topology.backend=cuda $small --steps 100000 -n 2 $bf16 $stage=3 --trace killed.zlt \
        "$@" >killed.out 2>killed.err </dev/null &
    eventually grep -q '^step ' killed.out || return 1
    local ranks=($(children "$(children $! | tr -d ' ')"))
    kill -9 "${ranks[1]}"
    wait $!
    [ $? -eq 4 ] && grep -q 'rank 1 (process [0-9]*)' killed.err && "$zerolab" check killed.zlt | grep -q 'failed' && return
    sed 's/^/# /' killed.err
    "$zerolab" check killed.zlt | sed 's/^/# /'
    return 1
}
check "two processes on two GPUs: the same bits as threads" same_as one2 2 process2 -n 2 $bf16 $processes --trace process2.zlt
check "... the screen counts the GPUs of both" says process2 'cuda, 2 GPUs, NCCL'
check "... at stage 3" same_as one2 2 process2-3 -n 2 $bf16 $processes $stage=3
check "four on four, switched while they train" same_as one4 4 process4 -n 4 $bf16 $processes $stage=2 --at 2:stage=3 --at 3:stage=0
FAKE_BREAK=reduce@1 check "a rank whose GPU fails ends the others' waits" fails_alone 'GPU 1' $processes
FAKE_BREAK=norm_forward@1 check "... in the midst of a step" fails_alone 'GPU 1' $processes $stage=3
check "a rank is killed: the other ends by itself" killed $processes
if command -v mpirun >/dev/null; then
    mpi_root=$([ "$(id -u)" -ne 0 ] || echo --allow-run-as-root)
    printf '#!/bin/sh\nFAKE_GPUS=1 FAKE_FIRST_GPU=$OMPI_COMM_WORLD_LOCAL_RANK exec "$@"\n' >one_each
    chmod +x one_each
    check "two that mpirun starts for us: the same bits" same_as one2 2 mpirun2 -n 2 $bf16 --set topology.ranks_as=mpirun
    FAKE_GPUS=2 check "... by an mpirun of somebody else" external_as one2 2 external2 $bf16
    wrapper=$work/one_each check "... each of which sees its own GPU only" external_as one2 2 visible2 $bf16 $stage=3
    FAKE_GPUS=1 check "... all of which see the same one: refused" no_external 2 'ranks 0 and 1 share a GPU' $bf16
else skip "ranks that mpirun starts" "no mpirun"; fi

# ---- ranks that are processes, in place ----
check "two processes on one GPU: the same bits" same_as one2 1 shared2 -n 2 $bf16 $processes
check "... at stage 3, with a buffer that comes and goes" same_as one2 1 shared2-3 -n 2 $bf16 $processes $stage=3 \
    --set memory.device_budget=$(($(tr -d ' \t\n' <shared2.json | sed 's/.*"peak":\[{[^}]*"bytes":\([0-9]*\).*/\1/')))
unset FAKE_PEERS
check "four on two, switched while they train" same_as one4 2 shared4 -n 4 $bf16 $processes $in_place $stage=2 --at 2:stage=3 --at 3:stage=0
FAKE_BREAK=norm_forward@1 check "a rank whose GPU fails ends the others' waits" fails_alone 'GPU 1' $processes $in_place $stage=3
if command -v mpirun >/dev/null; then
    check "two that mpirun starts, on one: the same bits" same_as one2 1 mpirun-shared -n 2 $bf16 --set topology.ranks_as=mpirun $in_place
    lines=1 check "... as two nodes: refused" refused 1 'several nodes need NCCL' -n 2 --set topology.ranks_as=mpirun $in_place \
        --set topology.ranks_per_node=1
else skip "processes of mpirun, in place" "no mpirun"; fi

# ---- what watches the GPUs ----

line() { # NAME PATTERN: the head of the screen
    "$zerolab" replay "$1.zlt" --frame 200x30 --view overview --at end | grep -q "$2" || { "$zerolab" replay "$1.zlt" --frame 200x30 --view overview --at end | head -n 2 | sed 's/^/# /'; return 1; }
}
reports() { # NAME TEXT: of the GPUs in the report, without blanks
    tr -d ' \t\n' <"$1.json" | grep -o '"gpus":\[[^]]*\]' | grep -q "$2" || { tr -d ' \t\n' <"$1.json" | grep -o '"gpus":\[[^]]*\]' | sed 's/^/# /'; return 1; }
}
FAKE_NVML="412345 1755 0x44" check "power, clock and what lowers it are read" on 2 sensors -n 2 $bf16 --trace sensors.zlt
check "... of each GPU, into the report" reports sensors '"power_w":412.345,"clock_mhz":1755,"slowed_by":"powercap,heat(hardware)".*"clock_mhz":1756'
check "... into the trace, by each first rank" [ "$("$zerolab" check sensors.zlt --json | tr -d " \t" | sed -n "s/.*\"sensors\":\([0-9]*\).*/\1/p")" -ge 2 ]
check "... and onto the screen, for all together" line sensors 'cuda, 2 GPUs.* · 825 W, 1755 MHz, slowed by power cap, heat (hardware)'
FAKE_NVML="none 1755 0" check "a GPU that does not say its power" on 1 dumb -n 2 $bf16 --trace dumb.zlt
check "... has null in the report, once for both ranks" reports dumb '"power_w":null,"clock_mhz":1755,"slowed_by":"nothing"}\]'
check "... and n/a on the screen" line dumb ' · n/a W, 1755 MHz '
check "without NVML nothing is known" line nccl2 ' · sensors n/a '
check "... and the report has null" reports nccl2 '"power_w":null,"clock_mhz":null,"slowed_by":null'
FAKE_NVTX=$work/ranges check "a profiler listens" same_as one2 2 ranges -n 2 $bf16 $stage=3
hears() { grep -qE "^[0-9]+ 1 $1\$" ranges; }
check "... what is sent has a name, with unit and step" hears 'forward block 1, step 2, rank 1'
check "... backward, too" hears 'backward block 0, step 3, rank 0'
check "... between steps, too" hears 'forward block 0, before step 4, rank 1'
check "... and collectives" hears 'gather block 0.*, step 1, rank 0'
check "... of every lane a thread" [ "$(cut -d ' ' -f 1 ranges | sort -u | wc -l)" -ge 4 ]
finish
