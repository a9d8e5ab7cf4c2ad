#!/bin/bash
# A checkpoint changes shape: saved at stage 3 by 4 ranks, then loaded and saved again at other stages, by other numbers of ranks,
# with other arrays offloaded, in other tiles, in other shard groups, by ranks that are processes and by ranks that are threads. The state is
# the same at every hop,
# and back where it began it goes on as if nothing had happened.
#
# Every row of the table in every precision; the kinds of ranks take turns, so that each row sees both. FULL=1: each time both.
. "$(dirname "$0")/../support/tap.sh"
zero="--set zero_optimization"

# stage, ranks, where the optimizer's states go, where the parameters go, tiles of an MLP, ranks of a shard group
shapes="1 2 cpu  none 4 -1
3 3 nvme cpu  2 1
0 1 none none 8 -1
2 4 cpu  none 1 2
3 4 nvme nvme 4 2
1 4 none none 1 1
3 4 none none 1 -1"

# hop NAME FOLDER AS STAGE RANKS OPTIMIZER PARAMETERS TILES GROUP: loads, trains nothing, saves again in its own shape.
hop() {
    train "$1" --resume "$2" --at 7:stop -n "$5" --set topology.ranks_as="$3" --set checkpoint.path="$2" $zero.stage="$4" \
        $zero.offload_optimizer.device="$6" $zero.offload_optimizer.nvme_path="$work" \
        --set model.mlp_tiles="$8" $zero.mics_shard_size="$9" $zero.offload_param.device="$7" $zero.offload_param.nvme_path="$work" &&
        grep -q "\"shards\":.*$5" <("$zerolab" checkpoint inspect --json "$2") && same_hash "${2%.ck}" "$1"
}

both="processes threads" turn=0
for precision in fp32 bf16 fp16; do
    flags=
    [ $precision = bf16 ] && flags="--set bf16.enabled=true"
    [ $precision = fp16 ] && flags="--set fp16.enabled=true --set fp16.initial_scale_power=32 --set fp16.hysteresis=1"
    begin="-n 4 $tiny $flags $zero.stage=3 --set topology.ranks_as=threads"
    check "$precision: saved at stage 3 by 4 ranks" train $precision --steps 6 $begin --set checkpoint.path=$precision.ck
    check "... and gone on there" train $precision-12 --steps 12 $begin
    while read -r shape; do
        set -- $both
        as=$both
        [ -n "${FULL:-}" ] || { shift $((turn % $#)); as=$1; }
        turn=$((turn + 1))
        for kind in $as; do check "... to stage, ranks, offload, tiles, group: $shape, as $kind" hop hop $precision.ck "$kind" $shape; done
    done <<<"$shapes"
    turn=$((turn + 1)) # the next precision begins with the other kind
    check "... and back, trained on" train $precision-back "$root/configs/nano.json" --resume $precision.ck --steps 12 $begin
    check "... as if it had never stopped" ends_like $precision-12 $precision-back
done
finish
