#!/bin/bash
# The lesson of configs/nano-paced.json: without prefetch every block waits for its gather; a prefetch of one block hides at
# least 80 % of that, and the rest is where nothing can be hidden. Figures by zerolab analyze, from the traces.
. "$(dirname "$0")/../support/tap.sh"
config=$root/configs/nano-paced.json
knob=zero_optimization.stage3_prefetch_bucket_size

# run NAME ELEMENTS: one trace with this much prefetch, and its analysis
run() {
    "$zerolab" train "$config" --headless --steps 8 --set $knob="$2" --trace "$1.zlt" >/dev/null 2>&1 &&
        "$zerolab" analyze --json "$1.zlt" >"$1.json"
}
# figure NAME KEY: under "prefetch"
figure() { sed -n '/"prefetch":.*{/,/}/p' "$1.json" | grep -o "\"$2\":[^,]*" | cut -d: -f2 | tr -d " \t"; }

check "without prefetch" run none 0
gathers=$(figure none gathers)
check "... no gather is ahead of need" holds "$(figure none prefetched) == 0"
# 8 gathers of a block at 0.61 ms, eight times slower. On a machine that is busy with other things compute comes late, and then waits
# less, never more: the best of three.
waited_for() {
    for attempt in 1 2 3; do
        [ $attempt -eq 1 ] || run none 0 || return 1
        holds "$(figure none stalls) > 0.95 * $gathers && $(figure none stalled_seconds_per_step) > 8 * 0.00061 * 8" && return
    done
    return 1
}
check "... and each is waited for, for as long as the link takes" waited_for

check "with a prefetch of one block" run block 198272
check "... all but the first are ahead of need" holds "$(figure block prefetched) == $(figure block gathers) - 1"
step() { grep -o '"seconds_per_step":[^,]*' "$1.json" | head -1 | cut -d: -f2; }
# A machine that is busy with other things makes lanes wake late, so that less is hidden, never more: the best of three.
hides() {
    for attempt in 1 2 3; do
        [ $attempt -eq 1 ] || { run none 0 && run block 198272; } || return 1
        none=$(figure none stalled_seconds_per_step) block=$(figure block stalled_seconds_per_step)
        echo "# waited for gathers in a step: $none s without prefetch, $block s with one block"
        echo "# a step: $(step none) s without, $(step block) s with"
        awk "BEGIN { exit !($block <= 0.2 * $none && $(step none) - $(step block) > 0.6 * ($none - $block)) }" && return
    done
    return 1
}
check "... which hides at least 80 % of the waiting, and shortens the step by it" hides
finish
