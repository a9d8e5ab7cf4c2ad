#!/bin/bash
# The hierarchy at length: nano and micro, four ranks, thirty steps, every combination of tiers and live switches between them,
# against stage 0 without offload. Takes six minutes or more, so it is not among the tests of `make test`: run it after changes
# below the schedule. MODELS=nano STEPS=30: less of it.
. "$(dirname "$0")/../support/tap.sh"
steps=${STEPS:-30}
zero="--set zero_optimization"
mkdir disk

# 3 PLACE PLACE: stage 3 with the optimizer and the parameters there.
tiers() {
    echo "$zero.stage=$1 $zero.offload_optimizer.device=$2 $zero.offload_param.device=$3" \
        "$zero.offload_optimizer.nvme_path=disk $zero.offload_param.nvme_path=disk $zero.offload_param.max_in_cpu=0"
}
place() { echo "set zero_optimization.offload_$1.device=$2"; }

for model in ${MODELS:-nano micro}; do
    for precision in fp32 bf16; do
        base="--steps $steps --set topology.ranks_as=threads --set model.name=$model"
        [ $precision = bf16 ] && base="$base --set bf16.enabled=true"
        check "$model, $precision, stage 0, nothing offloaded" train plain $base
        while read -r stage optimizer param; do
            check "$model, $precision, stage $stage, optimizer $optimizer, parameters $param" train there $base $(tiers $stage $optimizer $param)
            check "... the same bits" same_bits plain there
        done <<END
1 cpu none
2 cpu none
3 cpu none
3 nvme none
3 none cpu
3 none nvme
3 cpu cpu
3 cpu nvme
3 nvme cpu
3 nvme nvme
END
        check "$model, $precision, from tier to tier while it trains" train switched $base $(tiers 0 none none) \
            --at 3:stage=2 --at 6:"$(place optimizer cpu)" --at 9:stage=3 --at 12:"$(place optimizer nvme)" --at 15:"$(place param nvme)" \
            --at 18:"$(place param cpu)" --at 20:"$(place optimizer none)" --at 22:"$(place param nvme)" --at 24:"$(place optimizer nvme)" \
            --at 26:"$(place optimizer cpu)" --at 27:"$(place optimizer none)" --at 28:"$(place param none)" --at 29:stage=0
        check "... the same bits" same_bits plain switched
    done
done
check "nothing is left on the disk" [ -z "$(ls -A disk)" ]
finish
