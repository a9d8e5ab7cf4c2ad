#!/bin/bash
# zerolab simulate: traces that every reader opens and that have the plan's bytes, equal files for equal seeds, and figures of time and cost.
. "$(dirname "$0")/../support/tap.sh"
nano=$root/configs/nano.json
simulate() { "$zerolab" simulate "$@" 2>err; }
member() { tr -d ' ' <"$2" | grep -o "\"$1\":[^,}]*" | head -n 1 | cut -d: -f2; } # NAME FILE

three="--set zero_optimization.stage=3 --set topology.ranks_per_node=4"
check "a trace of nano on eight ranks" eval 'simulate "$nano" $three -n 8 --hardware a100 --steps 2 -o s.zlt >out'
check "... is whole" eval '"$zerolab" check s.zlt >check.txt'
check "... says what it is, and that it knows no loss" eval 'grep -q "^  SIMULATED" check.txt && grep -q "^  learning *no" check.txt && grep -q "^  timeline *yes" check.txt'
screens() { # every view draws, says SIMULATED and shows no loss
    local view
    for view in overview whiteboard timeline memory tiers buckets shards schedule why knobs collectives loss steps text events moments help; do
        "$zerolab" replay s.zlt --frame 100x30 --view $view --at step:2 >frame.txt 2>err || { cat err; return 1; }
        grep -q SIMULATED frame.txt || [ $view = help ] || { cat frame.txt; return 1; }
        ! grep -qi '\bnan\b' frame.txt || { cat frame.txt; return 1; }
    done
}
check "... and every screen says it" screens
check "... analyze, too" eval '"$zerolab" analyze s.zlt >analysis.txt && grep -q "^SIMULATED on A100" analysis.txt && ! grep -qi "\bnan\b" analysis.txt'

check "... and compare with itself finds no difference" "$zerolab" compare s.zlt s.zlt --json -o both.json

# as_planned STAGE [KEY=VALUE]...: bytes of rank 0 by kind, and peaks of its tiers, as the plan has them (by link, of all ranks: test_simulate.c)
as_planned() {
    local sets=(--set topology.ranks_per_node=4 --set "zero_optimization.stage=$1") set
    shift
    for set; do sets+=(--set "$set"); done
    simulate "$nano" -n 16 --hardware a100 --record-ranks 0-0 "${sets[@]}" -o b.zlt >/dev/null || return 1
    "$zerolab" plan "$nano" -n 16 --json "${sets[@]}" | jq -r '(.traffic[] | select(.kind | test("^(all|reduce)")) | "\(.kind) \(.sent_bytes)"), (.tiers[] | "\(.tier) \(.peak_bytes) \(.peak_bytes)")' | sort >plan.txt
    "$zerolab" analyze b.zlt --json | jq -r '.sections[0] | (.collectives[] | select(.kind | test("^(all|reduce)")) | "\(.kind) \(.sent_bytes_per_step)"), (.memory[] | "\(.tier) \(.peak_bytes) \(.predicted_peak_bytes)")' | sort >simulated.txt
    [ -s plan.txt ] && diff plan.txt simulated.txt
}
if command -v jq >/dev/null; then
    for stage in 0 1 2 3; do check "stage $stage has the plan's bytes and peaks" as_planned $stage; done
    check "... from host memory, too" as_planned 3 zero_optimization.offload_optimizer.device=cpu
fi

same() { # a trace is the same, byte for byte
    simulate "$nano" $three -n 16 --hardware v100 --steps 3 "$@" -o one.zlt >one.txt && simulate "$nano" $three -n 16 --hardware v100 --steps 3 "$@" -o two.zlt >two.txt &&
        cmp -s one.zlt two.zlt && cmp -s one.txt two.txt
}
check "without jitter, the same trace each time" same
check "with a seed, too" same --seed 7 --slow 3:1.5
cp one.zlt seven.zlt
check "another seed gives another" eval 'same --seed 8 --slow 3:1.5 && ! cmp -s one.zlt seven.zlt'
check "... which is whole" eval '"$zerolab" check one.zlt >check.txt && ! grep -q "later in the file" check.txt'

figures() { simulate "$nano" $three -n 16 --hardware h100 --json "$@" >figures.json; }
check "days and cost of a budget of tokens" figures --tokens 300B --price 2.5
tokens=$((16 * 4 * 64))
check "... follow from the time of a step" awk -v s="$(member seconds_per_step figures.json)" -v days="$(member days figures.json)" -v cost="$(member cost figures.json)" -v t=$tokens \
    'BEGIN { of = 300e9 / t * s / 86400; exit !(days > 0.999999 * of && days < 1.000001 * of && cost > 2.499 * days * 24 * 16 && cost < 2.501 * days * 24 * 16) }'
mfu=$(member mfu figures.json) seconds=$(member seconds_per_step figures.json)
check "back from a measured time" figures --iteration-seconds "$seconds"
check "... to the same MFU" awk -v a="$mfu" -v b="$(member mfu figures.json)" 'BEGIN { exit !(a > 0 && a > 0.99999 * b && b > 0.99999 * a) }'
check "... which is not simulated" eval '[ "$(member simulated figures.json)" = false ]'

shape="--set model.hidden=256 --set model.layers=2"
check "a model by some of its sizes" eval 'simulate $shape --hardware a100 >sizes.txt && grep -q "^not given, so as nano has it: model.heads 4" sizes.txt'
check "... takes the time of that model" eval 'simulate $shape --hardware a100 --json >sizes.json && simulate --model nano $shape --hardware a100 --json >nano.json && [ "$(member seconds_per_step sizes.json)" = "$(member seconds_per_step nano.json)" ]'
check "... which is needed" eval '! simulate --hardware a100 && grep -qx "zerolab: give a CONFIG, --model NAME or --set model.KEY=VALUE" err'
few() { ! simulate --model nano --hardware a100 "$@" && grep -q "give a number from 1e-09 to 1e+30" err; }
check "refused: numbers whose figures would be endless" eval 'few --tokens 1e31 && few --tokens 1 --price -1 && few --iteration-seconds 1e-320 && few --tokens nan'
check "... while those that are only long have an exponent" eval 'simulate --model nano --hardware a100 --tokens 1e30 --price 1e20 | tail -n 1 | grep -qE "[0-9]e\+[0-9]+ device-hours, [0-9.]+e\+[0-9]+ at 1e\+20 an hour"'
check "a paced configuration is told that pace has no effect" eval 'simulate "$root/configs/nano-paced.json" --hardware a100 -o s.zlt >out && grep -q "have no effect" err && ! "$zerolab" replay s.zlt --frame 100x30 | grep -q " paced  "'
check "a profile of this machine" simulate --calibrate -o cpu.json
check "... simulates a step here" eval 'simulate "$nano" -n 2 --hardware cpu.json --json >figures.json && awk -v s="$(member seconds_per_step figures.json)" "BEGIN { exit !(s > 1e-4 && s < 10) }"'

refused() { local text=$1; shift; simulate "$@"; [ $? -eq 2 ] && grep -q -- "$text" err || { cat err; return 1; }; }
check "hardware has to be given" refused "--hardware: give t4, " "$nano"
check "... and known" refused "t4, v100, a100" "$nano" --hardware gtx
check "... and have what the step needs" refused "lacks FLOP/s" "$nano" --hardware t4 --set bf16.enabled=true
check "ranks are recorded from 0 on" refused "give 0-N" "$nano" --hardware a100 --record-ranks 4-7
check "a straggler is one of the ranks" refused "there is no rank 9" "$nano" --hardware a100 --slow 9:2
echo '{"name": "mine", "flops.fp32": 1e12}' >mine.json
check "a figure needs its source" refused 'flops.fp32: give \[value, "source"\]' "$nano" --hardware ./mine.json
echo '{"name": "mine", "flops.fp32": [1e12, "a test"]}' >mine.json
check "a profile has what every step needs" refused 'efficiency.products: is missing' "$nano" --hardware ./mine.json
finish
