#!/usr/bin/env bash
# The logs of DeepSpeed's keys, as the program prints them: the same lines from a run and from its trace, and figures held
# against the report and the analysis, which count for themselves.
. "$(dirname "$0")/../support/tap.sh"

cat >logs.json <<'END'
{ "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 2,
  "zero_optimization": {"stage": 3, "reduce_bucket_size": 200000, "stage3_prefetch_bucket_size": 200000,
                        "stage3_max_reuse_distance": 0, "stage3_param_persistence_threshold": 0},
  "steps_per_print": 2, "wall_clock_breakdown": true, "memory_breakdown": true, "comms_logger": {"enabled": true},
  "flops_profiler": {"enabled": true, "profile_step": 3, "peak_flops": 1e11} }
END
train run logs.json -n 2 --steps 5 --trace run.zlt
"$zerolab" analyze run.zlt --logs >from_trace

same_lines() {
    [ -s from_trace ] && diff <(grep -vE '^(step [0-9]|finished|trace:|report:)' run.out) from_trace
}
check "a run and its trace give the same lines" same_lines
check "a line every so many steps, and at the end" \
    test "$(sed -n 's/^step=\([0-9]*\),.*/\1/p' run.out | tr '\n' ' ')" = "2 4 5 "

# name VALUE...: the sum of a column of the table of collectives
column() { awk -v op="$1" -v at="$2" '/^Breakdown/ {exit} / ranks\)$/ {now = $1} NF > 5 && now == op {sum += $at} END {print sum + 0}' from_trace; }
analyzed() { "$zerolab" analyze run.zlt | awk -v op="$1" '$1 == op && $3 !~ /%/ {print $2; exit}'; }
counts() {
    local op
    for op in all_gather reduce_scatter; do
        awk -v a="$(column $op 3)" -v b="$(analyzed $op)" 'BEGIN {exit !(a > 0 && a == b * 5)}' || return 1
    done
}
check "collectives are counted as the analysis counts them" counts

latencies() { # the analysis: ms of a rank and step
    local op
    for op in all_gather reduce_scatter; do
        awk -v a="$(column $op 4)" -v b="$("$zerolab" analyze run.zlt | awk -v op=$op '$1 == op && $3 !~ /%/ {n++; if (n == 2) print $2}')" \
            'BEGIN {d = a - b * 5; exit !(a > 0 && d * d < 0.04 * 0.04)}' || return 1
    done
}
check "their time is that of the analysis" latencies

clock() { # fwd + bwd + step of every printed mean, against the steps' own times
    awk -F'[:|]' '/^time .* fwd:/ {n++; w = n < 3 ? 2 : 1; sum += w * ($3 + $5 + $11)} END {print sum}' run.out
}
own_time() { sed -n 's/.*"total":[^0-9]*\([0-9.e-]*\),.*/\1/p' run.json | awk '{sum += $1 * 1e3} END {print sum}'; }
# A rank's window is from the first one's beginning to the last one's end, so a little longer than its own step.
close_to() { awk -v a="$1" -v b="$2" 'BEGIN {exit !(b > 0 && a > b * 0.97 && a < b * 1.1)}'; }
check "forward, backward and step are the whole step" close_to "$(clock)" "$(own_time)"

peak() { sed -n 's/.*MaxMemAllocated=\(.*\) MiB/\1/p' run.out | tail -1; }
reported_peak() { tr -d '\n\t' <run.json | sed 's/.*"peak": *\[//' | grep -o '"bytes":[0-9]*' | tr : ' ' | head -1 | awk '{printf "%.2f", $2 / 1048576}'; }
check "the peak is the report's" test "$(peak)" = "$(reported_peak)"
most() { sed -n 's/.*Max_MA *\([0-9.]*\) MiB.*/\1/p' run.out | sort -n | tail -1; }
check "the highest of the memory lines is that peak" test "$(most)" = "$(peak)"

macs() { sed -n 's/^fwd MACs per rank: *\(.*\)MACs/\1/p' run.out; }
# 2 micro-steps of 2 x 64 tokens: 4 blocks of 12 C^2 + causal attention T + 1 keys times C, and the head
check "MACs are those of the shape" test "$(macs)" = \
    "$(awk 'BEGIN {N = 128; C = 128; T = 64; V = 256; printf "%.3g M", 2 * (4 * N * (12 * C * C + (T + 1) * C) + N * V * C) / 1e6}')"
check "MFU is against the stated peak" grep -qE '^MFU = FLOPS per rank / stated peak: +[0-9.]+ %$' run.out
check "without a stated peak there is none" \
    sh -c "'$zerolab' analyze run.zlt --logs --set flops_profiler.peak_flops=0 | grep -q '^MFU: *n/a'"

train file logs.json -n 2 --steps 3 --set flops_profiler.output_file=profile.txt
check "the profile goes to its file" sh -c "grep -q '^Profile Summary at step 3' profile.txt && ! grep -q Profile file.out"
refused() { "$zerolab" "$@" >/dev/null 2>err; [ $? -eq 2 ] && [ "$(wc -l <err)" -eq 1 ]; }
check "a profile that cannot be written is refused at the start" \
    refused train --headless --set flops_profiler.enabled=true --set flops_profiler.output_file=none/profile
train quiet --steps 2 --trace quiet.zlt
check "a trace that asked for no logs says how to ask" refused analyze quiet.zlt --logs
check "and prints those that are asked for then" \
    sh -c "'$zerolab' analyze quiet.zlt --logs --set wall_clock_breakdown=true | grep -c '^time (ms) | fwd:' | grep -qx 2"
check "--set belongs to --logs" refused analyze quiet.zlt --set wall_clock_breakdown=true
finish
