#!/bin/bash
# A trace says how fast it grows, and stops where --trace-limit says: the run goes on, the report and the last lines say it, and the
# file is a whole trace of the steps before. Records of any size get into it.
. "$(dirname "$0")/../support/tap.sh"
run="train --headless --set topology.ranks_as=threads $tiny --set train_micro_batch_size_per_gpu=1 \
--set gradient_accumulation_steps=16 --set zero_optimization.stage=3"
limit=1500000

# On a machine that is busy with other things the trace's writer may come too late, and then says which records it lost: up to three runs.
whole() {
    for attempt in 1 2 3; do
        "$zerolab" $run --steps 60 --trace t.zlt --trace-limit $limit --report t.json >out 2>err || return 1
        "$zerolab" check t.zlt | grep -q '^ *gap ' || return 0
    done
}
check "a run with a limit" whole
check "... finishes all its steps" [ "$(grep -c loss_bits t.json)" = 60 ]
check "... its file is within the limit" [ "$(stat -c %s t.zlt)" -le $limit ]
check "... and uses most of it" [ "$(stat -c %s t.zlt)" -ge $((limit / 2)) ]
last=$(sed -n 's/^trace recorded until step \([0-9]*\), where it reached its limit.*/\1/p' out)
check "... its last lines say where recording stopped" [ "${last:-0}" -gt 0 -a "${last:-0}" -lt 60 ]
check "... the report says it" eval 'tr -d "\n\t " <t.json | grep -q "\"kind\":\"trace_limit\".*\"recorded_until_step\":$last"'
check "... and knows no error" grep -q '"error":[[:space:]]*null' t.json
check "check finds it whole" eval '"$zerolab" check t.zlt >checked || { sed "s/^/# /" checked; false; }'
check "... names the step" grep -q "recording stopped after step $last, at the size of --trace-limit" checked
check "... has no step begun and not ended" eval '! grep -q "not ended" checked'
check "... and the run's end" grep -q "steps 1 to $last; the run ended: finished" checked
check "replay shows the last step that was recorded" eval '"$zerolab" replay t.zlt --frame 100x30 --view loss --at end | grep -q "step *$last"'
check "analyze reads it" eval '"$zerolab" analyze t.zlt >analyzed && [ -s analyzed ]'

# Told after three seconds of training.
"$zerolab" $run --set gradient_accumulation_steps=1 --trace g.zlt --steps 100000 >grown 2>&1 &
pid=$!
check "a trace says how fast it grows" eventually grep -q "^trace: grows by .* a step, .* an hour; --trace-limit SIZE bounds it" grown
kill $pid
wait $pid
# "grows by 9.5 KB a step" against the whole file. Compression makes an open chunk smaller, so it must not be counted.
grown_as_told() {
    local steps; steps=$(sed -nE 's/^stopped after step ([0-9]+).*/\1/p' grown)
    awk -v bytes="$(stat -c %s g.zlt)" -v steps="${steps:-0}" '/^trace: grows by/ {
        told = $4 * ($5 == "kB" ? 1e3 : $5 == "MB" ? 1e6 : $5 == "bytes" ? 1 : 0)
        print "# told", told, "bytes a step, the file has", steps ? bytes / steps : 0
        good = steps && told > 0.7 * bytes / steps && told < 1.4 * bytes / steps
    } END { exit !good }' grown
}
check "... as it does" grown_as_told

refused() { "$zerolab" $run --steps 1 "$@" >out 2>err; [ $? -eq 2 ] && grep -q "^zerolab: --trace-limit" err && [ "$(wc -l <err)" = 1 ]; }
check "a limit without a trace is refused" refused --trace-limit 5MB
check "... one that is no size" refused --trace r.zlt --trace-limit lots
check "... one that is too small" refused --trace r.zlt --trace-limit 10

# The record of its schedule has 800 kB.
deep() { "$zerolab" $run --steps 1 --set model.layers=48 --report deep.json >out 2>err; }
check "a deep model with accumulation" deep
check "... no record of it is lost" grep -q '"lost_records":[[:space:]]*0' deep.json
check "... times of its operations are known" eval '! grep -q "\"forward\":[[:space:]]*null" deep.json'
finish
