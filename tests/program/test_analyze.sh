#!/bin/bash
# `zerolab analyze`: a trace's figures as text and JSON, a window of steps, a section for each stage, the difference of two
# traces; each held against the report that the run itself wrote, or against what the plan says.
. "$(dirname "$0")/../support/tap.sh"

run() { # NAME ARGS...: a run with NAME.zlt and NAME.json
    local name=$1
    shift
    train "$name" "$root/configs/nano-stage3.json" -n 2 --trace "$name.zlt" "$@"
}
run one --steps 6 --at 4:stage=2 || exit 1
run two --steps 6 --at 4:stage=2 || exit 1
run other --steps 6 --at 4:stage=2 --set zero_optimization.stage3_prefetch_bucket_size=0 || exit 1

analyze() { "$zerolab" analyze "$@"; }
figures() { analyze "$@" --json | sed '/^\t"why":/,$d'; } # the sections alone
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
    figures one.zlt >figures || return 1
    [ "$(value figures steps)" = 3 ] && [ "$(value figures stage 2)" = 2 ] && [ "$(value figures timed_steps)" = 3 ] &&
        [ "$(value figures gathers)" = 12 ] && [ "$(value figures prefetched)" -gt 0 ] &&
        [ "$(value figures gathers 2)" = 0 ] && [ "$(value figures hidden_share 2)" = null ]
}
check "JSON has the same sections, with how gathers went" json

# With the optimizer on the host: the rows, to which the host's update belongs, add up to all that compute stood still.
still() {
    train still "$root/configs/nano-offload.json" -n 2 --steps 3 --trace still.zlt || return 1
    analyze still.zlt >text || return 1
    grep -q '^    done ' text && [ "$(awk 'length($0) > 80' text | wc -l)" = 0 ] &&
        awk '/why compute stood still/ { on = 1 } on && $1 == "all" { all = $2; exit }
             on && /%/ { for (f = 2; f <= NF; f++) if ($f == "%") { sum += $(f - 2); break } }
             END { exit !(all > 0 && sum - all < 0.01 && all - sum < 0.01) }' text
}
check "the reasons why compute stood still add up" still

# What was sent: the same as planned, and the same as the report's sum of tensor collectives.
sent() {
    figures one.zlt --to 3 >figures || return 1
    local sent planned
    sent=$(grep '"sent_bytes_per_step"' figures | head -2 | tr -dc '0-9\n' | awk '{ sum += $1 } END { print sum }')
    planned=$(grep '"planned_sent_bytes_per_step"' figures | head -2 | tr -dc '0-9\n' | awk '{ sum += $1 } END { print sum }')
    [ "$sent" = "$planned" ] && [ "$sent" = "$(value figures theory_bytes_per_step)" ] && [ "$sent" -gt 1000000 ]
}
check "bytes sent are those planned and those of the paper" sent

# On two nodes, the view of collectives: one row for each kind, with all its bytes, and below it what each link took.
nodes() {
    train nodes "$root/configs/nano-stage3.json" -n 4 --set topology.ranks_per_node=2 --steps 2 --trace nodes.zlt || return 1
    "$zerolab" replay nodes.zlt --frame 80x24 --view collectives --units bytes >nodes.frame || return 1
    awk '$1 == "all_gather" && !kind++ { ops = $2; gsub(",", ""); sent = $3; planned = $5 }
         $1 == "intra," && !intra { gsub(",", ""); intra = $4 }
         $1 == "inter," && !inter { gsub(",", ""); inter = $4 }
         END { exit !(ops > 0 && sent > 0 && sent == planned && sent == intra + inter && inter == 2 * intra) }' nodes.frame
}
check "... on two nodes, with the bytes of each link" nodes

peak() {
    figures one.zlt >figures || return 1
    local peak planned
    peak=$(grep '"peak_bytes"' figures | tr -dc '0-9\n' | sort -n | tail -1)
    planned=$(grep '"predicted_peak_bytes"' figures | tr -dc '0-9\n' | sort -n | tail -1)
    # The report's highest peak of a tier, over the ranks.
    [ "$peak" = "$(sed -n '/"peak":/,/]/p' one.json | grep '"bytes"' | tr -dc '0-9\n' | sort -n | tail -1)" ] && [ "$peak" -le "$planned" ]
}
check "the memory peak is that of the report, at most the planned one" peak

window() {
    figures one.zlt --from 2 --to 3 >figures || return 1
    [ "$(value figures first_step)" = 2 ] && [ "$(value figures last_step)" = 3 ] && [ "$(grep -c '"stage"' figures)" = 1 ] || return 1
    analyze one.zlt --from 90 2>err
    [ $? = 3 ] && grep -q 'no whole step in that window' err || return 1
    analyze one.zlt --from 5 --to 4 2>err
    [ $? = 2 ]
}
check "--from and --to take the steps between" window

same() {
    analyze one.zlt --diff two.zlt >text && grep -q '^all bytes and counts are equal$' text && grep -q '^configured alike$' text && ! grep -q '!' <(sed '1,/^of a mean/d' text) &&
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

sections() { # stages 0 and 3, in other precision stages 0, 1 and 3
    train long --steps 10 --at 4:stage=3 --set topology.ranks_as=threads --trace long.zlt || return 1
    train short --steps 6 --at 2:stage=1 --at 4:stage=3 --set topology.ranks_as=threads --set bf16.enabled=true --trace short.zlt || return 1
    analyze long.zlt --diff short.zlt >text
    [ $? = 1 ] && grep -q '^B: short.zlt: nano, [0-9,]* parameters, bf16, 4 ranks$' text || return 1
    grep -q '^  bf16.enabled  *false  *true$' text || return 1
    grep -q '^  device: peak  *22,430,720  *17,908,736  ~' text || return 1
    [ "$(sed -n 's/^  ZeRO stage *\([^ ]*\) *\([^ ]*\) .*/\1-\2/p' text | tr '\n' ' ')" = "0-0 3-3 n/a-1 " ] || return 1
    grep -q '^  loss of step 1 ' text && grep -q '^  loss of step 6 ' text && ! grep -q 'last loss' text
}
check "--diff says what was configured differently, and holds stage against stage and step against step" sections

cut() {
    head -c $(($(stat -c %s one.zlt) * 2 / 3)) one.zlt >cut.zlt
    analyze cut.zlt >text && grep -q 'cut off inside a chunk' text && grep -q '^ZeRO stage 3' text || return 1
    analyze "$root/README.md" 2>err
    [ $? = 3 ] || return 1
    analyze 2>err
    [ $? = 2 ]
}
check "a cut trace is analyzed as far as it goes; what is no trace is refused" cut

why() {
    analyze one.zlt >text && grep -q '^Why the device tier is as full as it is at stage 2: rank' text && grep -q 'stage=2 (as it is)' text || return 1
    local sum peak
    peak=$(sed -n 's/^Why .*rank [0-9]*, \([0-9,]*\) bytes$/\1/p' text | tr -d ,)
    sum=$(sed '1,/^Why/d; /^$/,$d' text | sed -n 's/^  [A-Z] [a-z]* *\([0-9,]*\) .*/\1/p' | tr -d , | awk '{ sum += $1 } END { print sum }')
    [ "$sum" = "$peak" ] && analyze one.zlt --json | sed -n '/^\t"why":/,$p' | grep -q "\"peak_bytes\":[[:space:]]*$peak,"
}
check "why the peak is as high as it is: its tenants add up to it" why

output() {
    analyze one.zlt -o out.txt && analyze one.zlt | cmp - out.txt && ! analyze one.zlt -o /no/such/place 2>err && grep -q 'cannot write' err
}
check "-o writes the same to a file" output

# The same figures, counted by a program that shares no code with the analysis.
truth() {
    figures one.zlt --from 2 --to 2 >figures && "$(dirname "$zerolab")/tests/truth" one.zlt 2 >truth || return 1
    local key name factor wrong=0
    while read -r name key factor at; do
        awk -v name="$name" -v truth="$(sed -n "s/^$name //p" truth)" -v value="$(value figures "$key" "$at")" -v factor="$factor" '
            BEGIN { if (truth == "" || value == "") exit 1
                    off = value * factor - truth; if (off < 0) off = -off
                    if (off > 1 + truth / 1e6) exit 1 }' || { echo "# $name: $(sed -n "s/^$name //p" truth), $key: $(value figures "$key" "$at")"; wrong=1; }
    done <<END
step.loss last_loss 1 1
rank0.window_ns window_seconds 1e9 1
rank1.compute_ns compute_seconds 1e9 2
mean.compute_ns compute_seconds 1e9 3
mean.communication_ns communication_seconds 1e9 3
mean.overlapped_ns overlapped_seconds 1e9 3
mean.exposed_ns exposed_seconds 1e9 3
mean.idle_ns idle_seconds 1e9 3
mean.forward_ns forward_seconds 1e9 3
mean.backward_ns backward_seconds 1e9 3
mean.optimizer_ns optimizer_seconds 1e9 3
mean.waited.gather_ns stalled_seconds_per_step 1e9 1
traffic.all_gather.count count 1 16
traffic.all_gather.payload_bytes bytes_per_step 1 1
traffic.all_gather.sent_bytes sent_bytes_per_step 1 1
traffic.all_gather.busbw busbw_bytes_per_second 1 1
traffic.reduce_scatter.sent_bytes sent_bytes_per_step 1 2
traffic.reduce_scatter.busy_ns seconds_per_step 1e9 18
gathers gathers 1 1
gathers.prefetched prefetched 1 1
memory.rank0.device.fullest_bytes peak_bytes 1 1
memory.rank1.device.fullest_bytes peak_bytes 1 2
END
    return $wrong
}
check "22 figures are those of an independent count" truth

finish
