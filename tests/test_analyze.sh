#!/bin/bash
# `zerolab analyze`: a trace's figures as text and JSON, a window of steps, a section for each stage, the difference of two
# traces; each held against the report that the run itself wrote, or against what the plan says.
. "$(dirname "$0")/tap.sh"

run() { # NAME ARGS...: a run with NAME.zlt and NAME.json
    local name=$1
    shift
    train "$name" "$root/configs/nano-stage3.json" -n 2 --trace "$name.zlt" "$@"
}
run one --steps 6 --at 4:stage=2 || exit 1
run two --steps 6 --at 4:stage=2 || exit 1
run other --steps 6 --at 4:stage=2 --set zero_optimization.stage3_prefetch_bucket_size=0 || exit 1

analyze() { "$zerolab" analyze "$@"; }
# value FILE KEY [N]: the N-th number of that key in a JSON file
value() { grep -E "\"$2\":" "$1" | sed -n "${3:-1}s/.*:[[:space:]]*\([^,]*\),\{0,1\}$/\1/p"; }

text() {
    analyze one.zlt >text || return 1
    grep -q '^ZeRO stage 3, steps 1 to 3$' text && grep -q '^ZeRO stage 2, steps 4 to 6$' text &&
        grep -q '^  mean ' text && grep -q '^  all_gather ' text && grep -q 'peak of the device tier' text &&
        [ "$(awk 'length($0) > 80' text | wc -l)" = 0 ]
}
check "text has a section for each stage and fits 80 columns" text

json() {
    analyze one.zlt --json >figures || return 1
    [ "$(value figures steps)" = 3 ] && [ "$(value figures stage 2)" = 2 ] && [ "$(value figures timed_steps)" = 3 ] &&
        [ "$(value figures gathers)" = 12 ] && [ "$(value figures prefetched)" -gt 0 ] &&
        [ "$(value figures gathers 2)" = 0 ] && [ "$(value figures hidden_share 2)" = null ]
}
check "JSON has the same sections, with how gathers went" json

# What was sent: the same as planned, and the same as the report's sum of tensor collectives.
sent() {
    analyze one.zlt --to 3 --json >figures || return 1
    local sent planned
    sent=$(grep '"sent_bytes_per_step"' figures | head -2 | tr -dc '0-9\n' | awk '{ sum += $1 } END { print sum }')
    planned=$(grep '"planned_sent_bytes_per_step"' figures | head -2 | tr -dc '0-9\n' | awk '{ sum += $1 } END { print sum }')
    [ "$sent" = "$planned" ] && [ "$sent" = "$(value figures theory_bytes_per_step)" ] && [ "$sent" -gt 1000000 ]
}
check "bytes sent are those planned and those of the paper" sent

peak() {
    analyze one.zlt --json >figures || return 1
    local peak planned
    peak=$(grep '"peak_bytes"' figures | tr -dc '0-9\n' | sort -n | tail -1)
    planned=$(grep '"predicted_peak_bytes"' figures | tr -dc '0-9\n' | sort -n | tail -1)
    # The report's highest peak of a tier, over the ranks.
    [ "$peak" = "$(sed -n '/"peak":/,/]/p' one.json | grep '"bytes"' | tr -dc '0-9\n' | sort -n | tail -1)" ] && [ "$peak" -le "$planned" ]
}
check "the memory peak is that of the report, at most the planned one" peak

window() {
    analyze one.zlt --from 2 --to 3 --json >figures || return 1
    [ "$(value figures first_step)" = 2 ] && [ "$(value figures last_step)" = 3 ] && [ "$(grep -c '"stage"' figures)" = 1 ] || return 1
    analyze one.zlt --from 90 2>err
    [ $? = 3 ] && grep -q 'no whole step in that window' err || return 1
    analyze one.zlt --from 5 --to 4 2>err
    [ $? = 2 ]
}
check "--from and --to take the steps between" window

same() {
    analyze one.zlt --diff two.zlt >text && grep -q '^all bytes and counts are equal$' text && ! grep -q '!' <(sed 1,3d text) &&
        analyze one.zlt --diff two.zlt --json | grep -q '"equal":.*true'
}
check "--diff of the same run twice finds equal bytes and counts" same

differ() {
    analyze one.zlt --diff other.zlt >text
    [ $? = 1 ] && grep -q '^  gathers ahead of need .*!' text && ! grep -q '^  all_gather: sent .*!' text || return 1
    analyze one.zlt --diff one.zlt --from 1 --to 3 >/dev/null || return 1
    analyze one.zlt --diff missing.zlt 2>err
    [ $? = 3 ]
}
check "--diff of another prefetch finds what differs, and exits with 1" differ

cut() {
    head -c $(($(stat -c %s one.zlt) * 2 / 3)) one.zlt >cut.zlt
    analyze cut.zlt >text && grep -q 'cut off inside a chunk' text && grep -q '^ZeRO stage 3' text || return 1
    analyze "$root/README.md" 2>err
    [ $? = 3 ] || return 1
    analyze 2>err
    [ $? = 2 ]
}
check "a cut trace is analyzed as far as it goes; what is no trace is refused" cut

output() {
    analyze one.zlt -o out.txt && analyze one.zlt | cmp - out.txt && ! analyze one.zlt -o /no/such/place 2>err && grep -q 'cannot write' err
}
check "-o writes the same to a file" output

finish
