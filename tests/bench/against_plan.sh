#!/bin/bash
# Planned, simulated and measured, side by side: trains more than sixty setups and holds memory, traffic and time of each against
# `zerolab plan` and `zerolab simulate` on a profile that is measured here, again before every sixth setup. Traffic must be the plan's to
# the byte, and so must peaks, but for the host's where a transfer may be early: they may be 2 % lower. Times are held against the simulation
# where every thread has a core of its own; the profile has one machine, so more ranks than its cores have none (n/a). Needs jq.
# A machine that others share is fast and slow in turns: those setups run ROUNDS times, some minutes apart, and the medians count.
# STEPS=N: steps a run (20). ROUNDS=N: 5.
zerolab=$(realpath "${ZEROLAB:-build/release/zerolab}")
root=$(realpath "$(dirname "$0")/../..")
folder=$(mktemp -d "${TMPDIR:-/tmp}/zerolab-against-XXXXXX")
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
steps=${STEPS:-20}
rounds=${ROUNDS:-5}
z=zero_optimization

setups() { # a line each: CONFIG, ranks, settings
    local stage ranks
    for stage in 0 1 2 3; do
        for ranks in 1 2 4; do
            echo "nano $ranks $z.stage=$stage"
            echo "nano $ranks $z.stage=$stage bf16.enabled=true"
            echo "nano $ranks $z.stage=$stage model.recompute=full"
            [ $ranks -eq 1 ] || echo "nano $ranks $z.stage=$stage $z.reduce_bucket_size=50000000 $z.stage3_prefetch_bucket_size=1"
        done
        echo "micro 1 $z.stage=$stage"
        echo "micro 2 $z.stage=$stage"
        echo "nano 4 $z.stage=$stage topology.ranks_per_node=2"
        [ $stage -eq 0 ] || echo "nano 2 $z.stage=$stage $z.offload_optimizer.device=cpu"
        [ $stage -eq 0 ] || echo "nano 2 $z.stage=$stage bf16.enabled=true $z.offload_optimizer.device=cpu gradient_accumulation_steps=2"
    done
    echo "nano 2 $z.stage=3 $z.offload_param.device=cpu"
    echo "nano 2 $z.stage=3 $z.offload_optimizer.device=nvme $z.offload_optimizer.nvme_path=$folder"
    echo "nano 2 $z.stage=3 $z.offload_optimizer.device=nvme $z.offload_optimizer.nvme_path=$folder $z.offload_param.device=nvme $z.offload_param.max_in_cpu=0"
    echo "nano 4 $z.stage=3 topology.ranks_per_node=2 $z.mics_shard_size=2"
    echo "nano 4 $z.stage=3 topology.ranks_per_node=2 $z.zero_hpz_partition_size=2"
    echo "nano 4 $z.stage=3 topology.ranks_per_node=2 $z.mics_hierarchical_params_gather=true"
}

# of one run: bytes of peaks by tier, and of traffic by kind
planned='(.tiers[] | select(.peak_bytes > 0) | "\(.tier) \(.peak_bytes)"), (.traffic[] | select(.kind | test("^(all|reduce|d2h|h2d|nvme)")) | select(.sent_bytes > 0) | "\(.kind) \(.sent_bytes)")'
measured='([.peak[] | select(.bytes > 0)] | group_by(.tier)[] | "\(.[0].tier) \(map(.bytes) | max)"),
    ([.traffic[] | select(.kind | test("^(all|reduce|d2h|h2d|nvme)")) | select(.sent_bytes_per_step > 0)] | group_by(.kind)[] | "\(.[0].kind) \(map(.sent_bytes_per_step) | add | round)")'

median() { sort -n | awk '{ of[NR] = $1 } END { if (NR) print of[int((NR + 1) / 2)] }'; }

train() { # CONFIG, settings...: into run.json
    "$zerolab" train "$root/configs/$1.json" "${@:2}" --headless --steps "$steps" --set data.validation_fraction=0 --report run.json >log 2>&1 || { tail -1 log; return 1; }
}

bytes() { # CONFIG, settings...: of the run in run.json, "exact", how much lower the host's peak was, or DIFFER
    "$zerolab" plan "$root/configs/$1.json" "${@:2}" --json 2>/dev/null | jq -r "$planned" | sort >plan.txt
    jq -r "$measured" run.json | sort >run.txt
    join -a 1 -a 2 plan.txt run.txt | awk '$2 == $3 { next }
        $1 == "host" && $3 < $2 { less = 100 * (1 - $3 / $2); next }
        { differ = 1 }
        END { if (differ) print "DIFFER"; else if (less) printf "-%.1f%%\n", less; else print "exact" }'
}

# The plan is the highest peak that any timing gives, so the highest of all rounds counts.
of_rounds() { grep -m1 DIFFER "$1" || grep -m1 exact "$1" || sort -t- -k2 -n "$1" | head -1; }

runs=0 setup=0
mkdir took said
for round in $(seq "$rounds"); do
    setup=0
    while read -r config ranks settings; do
        setup=$((setup + 1))
        [ "$round" -eq 1 ] || [ "$ranks" -le "$(nproc)" ] || continue
        sets=(-n "$ranks")
        for set in $settings; do sets+=(--set "$set"); done
        if [ $((runs % 6)) -eq 0 ]; then "$zerolab" simulate --calibrate --disk "$folder" -o here.json || exit 1; fi
        runs=$((runs + 1))
        train "$config" "${sets[@]}" || continue
        bytes "$config" "${sets[@]}" >>"bytes.$setup"
        [ "$(tail -1 "bytes.$setup")" != DIFFER ] || { echo "$config ${sets[*]}: planned <, measured >"; diff plan.txt run.txt; }
        jq '[.steps[1:][].seconds.total] | sort | .[length / 2 | floor]' run.json >>"took/$setup"
        "$zerolab" simulate "$root/configs/$config.json" "${sets[@]}" --hardware here.json --json 2>/dev/null | jq .seconds_per_step >>"said/$setup"
    done < <(setups)
done

printf '%-9s %5s %12s %12s %7s  %s\n' bytes ranks measured simulated ratio setup
setup=0
while read -r config ranks settings; do
    setup=$((setup + 1))
    awk -v same="$(of_rounds "bytes.$setup")" -v ranks="$ranks" -v took="$(median <"took/$setup")" -v said="$(median <"said/$setup")" -v setup="$config $settings" \
        'BEGIN { printf "%-9s %5d %10.2f ms ", same, ranks, 1e3 * took
                 if (said == "") printf "%13s %7s", "n/a", "n/a"; else printf "%10.2f ms %7.3f", 1e3 * said, said / took
                 printf "  %s\n", setup }' | tee -a rows
done < <(setups)

awk '{ of[$1 == "exact" ? 1 : $1 == "DIFFER" ? 3 : 2]++ }
     END { printf "%d of %d setups: peaks of all tiers and traffic of all kinds as planned, to the byte; a lower peak of host memory: %d\n", of[1], NR, of[2] }' rows
awk -v cores="$(nproc)" '$2 <= cores && $5 != "n/a" { print ($7 > 1 ? $7 - 1 : 1 - $7) }' rows | sort -n |
    awk '{ off[NR] = $1 } END { printf "%d setups with a core for every thread: simulated time off by %.0f %% at the median, %.0f %% at worst\n", NR, 100 * off[int((NR + 1) / 2)], 100 * off[NR] }'
awk '/^DIFFER/ || (/^-/ && substr($1, 2) + 0 > 2) { bad = 1 } END { exit bad }' rows
