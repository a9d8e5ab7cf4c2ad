#!/bin/bash
# Truth: figures are read off printed screens, as a person would, and must be those that truth.c counts from the same
# trace with no code in common; to the last digit that is shown, bytes and counts exactly. Two traces: the committed one, and
# one that is made here, with a switch of stage. Then the same figures in reports and in `zerolab analyze`.
. "$(dirname "$0")/../support/tap.sh"
counted=$(dirname "$zerolab")/tests/truth
example=$root/docs/example.zlt

# screen FILE AT VIEW SIZE: the name of a file with it, as ASCII, in bytes; each is made once
screen() {
    local made=${1##*/}.$2.$3.$4
    [ -f "$made" ] || "$zerolab" replay "$1" --frame "$4" --view "$3" --at "step:$2" --units bytes -U >"$made"
    echo "$made"
}

declare -A figures=() # by "FILE AT NAME", of each FILE AT that was asked for
know() { # FILE AT NAME: sets $true, which stays empty where there is no such figure
    local name value
    if [ -z "${figures[$1 $2]:-}" ]; then
        while read -r name value; do figures[$1 $2 $name]=$value; done < <("$counted" "$1" "$2")
        figures[$1 $2]=known
    fi
    true=${figures[$1 $2 $3]:-}
}
figure() { # FILE AT NAME
    local true
    know "$@"
    echo "$true"
}

# equal SHOWN TRUE: within half a unit of the last digit shown; bytes and counts are exact
equal() {
    awk -v shown="$1" -v true="$2" 'BEGIN {
        text = shown
        gsub(",", "", text)
        if (true == "" || !match(text, /^-?[0-9]+(\.[0-9]+)?(e[-+][0-9]+)?/)) exit 1
        value = substr(text, 1, RLENGTH)
        unit = substr(text, RLENGTH + 1)
        gsub(" ", "", unit)
        factor = unit == "kB/s" ? 1e3 : unit == "MB/s" ? 1e6 : unit == "GB/s" ? 1e9 : unit == "us" ? 1e3 : unit == "ms" ? 1e6 : unit == "s" ? 1e9 : 1
        decimals = match(value, /\.[0-9]+/) ? RLENGTH - 1 : 0
        if (match(value, /e[-+][0-9]+/)) factor *= 10 ^ substr(value, RSTART + 1)
        sub(/e.*/, "", value)
        least = (unit == "" || unit == "B") && !decimals && true == int(true) ? 0 : 0.5 * 10 ^ -decimals * factor
        off = value * factor - true
        exit !((off < 0 ? -off : off) <= least * 1.000001 + (unit ~ /s$/)) # times are whole nanoseconds, rounded down
    }'
}

# reads FILE AT VIEW SIZE PATTERN FIGURE: what the pattern finds in brackets on the first line that it matches. There are hundreds, so
# the shell does it itself.
reads() {
    local shown= true line pattern="^(.*[^0-9,.])?$5.*$"
    while IFS= read -r line; do
        [[ ! $line =~ $pattern ]] || { shown=${BASH_REMATCH[2]}; break; }
    done <"$(screen "$1" "$2" "$3" "$4")"
    know "$1" "$2" "$6"
    [[ $6 = *.waited.*_ns && $true = 0 && -z $shown ]] && return # waits that there were none of are not told
    equal "$shown" "$true" || { echo "# $3 shows ${shown:-nothing} for $5; $6 is ${true:-not known}"; return 1; }
}

# table FILE AT: rows "VIEW SIZE FIGURE PATTERN" from standard input; # begins a remark
table() {
    local view size name pattern
    while read -r view size name pattern; do
        [ -z "$view" ] || [ "$view" = '#' ] ||
            check "${1##*/}, step $2, $view: $name" reads "$1" "$2" "$view" "$size" "$pattern" "$name"
    done
}

time='([0-9.]+ [num]?s)'
bytes='([0-9,]+ B)'
columns="  +[0-9,]+ B" # to be skipped in a table

# The whiteboard's figures: board PREFIX
board() {
    cat <<END
whiteboard 120x40 $1board.parameters ^ P ([0-9.]+)
whiteboard 120x40 $1board.gradients  ^ P .* G ([0-9.]+)
whiteboard 120x40 $1board.optimizer  ^ P .* O ([0-9.]+)
whiteboard 120x40 $1board.sum        = ([0-9.]+) of
END
}

every_stage() {
    cat <<END
overview 80x24 step.number              step ([0-9,]+)
overview 80x24 step.loss                loss ([0-9.]+)
overview 80x24 recent.tokens_per_second ([0-9,]+) tokens\/s
overview 80x24 recent.step_ns           mean step $time
overview 80x24 recent.forward_percent   Fwd +([0-9]+%)
overview 80x24 recent.backward_percent  bwd +([0-9]+%)
overview 80x24 recent.optimizer_percent Upd +([0-9]+%)
overview 80x24 recent.exposed_percent   exposed +([0-9]+%)
overview 80x24 memory.rank0.device.fullest_bytes ^ +0 \[.*\] +$bytes
overview 80x24 memory.rank1.device.fullest_bytes ^ +1 \[.*\] +$bytes
overview 80x24 memory.rank0.device.planned_bytes plan $bytes
memory 200x60 memory.rank0.device.live_bytes      total +$bytes
memory 200x60 memory.rank0.device.peak_bytes      total$columns +$bytes
memory 200x60 memory.rank0.device.planned_bytes   total$columns$columns +$bytes
memory 200x60 memory.rank0.device.reserved_bytes  total$columns$columns$columns$columns +$bytes
memory 200x60 memory.rank0.device.free_bytes      free in pool +$bytes
memory 200x60 memory.rank1.device.fullest_bytes    1 \[[^]]*\] +$bytes
memory 200x60 memory.rank0.device.fullest_bytes   fullest $bytes
END
    board ''
    for category in parameters gradients optimizer activations buckets workspace; do
        [ $category = buckets ] && [ "${1:-}" = whole ] && continue # reduced in place: no such memory
        cat <<END
memory 200x60 memory.rank0.device.$category.live_bytes      $category +$bytes
memory 200x60 memory.rank0.device.$category.peak_bytes      $category$columns +$bytes
memory 200x60 memory.rank0.device.$category.planned_bytes   $category$columns$columns +$bytes
memory 200x60 memory.rank0.device.$category.at_peak_bytes   $category$columns$columns$columns +$bytes
memory 200x60 memory.rank0.device.$category.reserved_bytes  $category$columns$columns$columns$columns +$bytes
END
        [ $category = buckets ] || cat <<END
why 120x40 memory.rank0.device.$category.at_peak_bytes         $category +$bytes
why 120x40 memory.rank0.device.$category.planned_at_peak_bytes $category$columns +$bytes
END
    done
    cat <<END
why 120x40 memory.rank0.device.peak_bytes            measured peak $bytes
why 120x40 memory.rank0.device.planned_bytes         [0-3] +now +$bytes
why 120x40 memory.rank0.device.planned_resting_bytes [0-3] +now$columns +$bytes
why 120x40 traffic.planned_bytes                     [0-3] +now$columns$columns +$bytes
timeline 120x40 rank0.compute_percent        compute ([0-9]+ %)
timeline 120x40 rank0.exposed_percent        other lanes busy ([0-9]+ %)
timeline 120x40 rank0.idle_percent           idle ([0-9]+ %)
timeline 120x40 rank0.overlap_percent        communication hidden ([0-9.]+ %) - exposed
timeline 120x40 rank0.exposed_ns             communication hidden [0-9.]+ % - exposed $time
timeline 120x40 rank0.waited.peers_ns        [^ ]+ slowest rank $time
timeline 120x40 memory.rank0.device.fullest_bytes fullest $bytes
timeline 120x40 memory.rank0.device.planned_bytes plan $bytes
buckets 120x40 bucket.0.bytes                ^ +0 .* $bytes +\[
buckets 120x40 bucket.4.bytes                ^ +4 .* $bytes +\[
buckets 120x40 bucket.0.mean_ns              ^ +0 .* flushed +$time
buckets 120x40 bucket.3.mean_ns              ^ +3 .* flushed +$time
buckets 120x40 bucket.3.peers_ns             ^ +3 .* flushed +[0-9.]+ [num]?s +$time
buckets 120x40 bucket.4.longest_ns           longest on rank [0-9]+: $time
buckets 120x40 bucket.4.slowest              longest on rank ([0-9]+)
buckets 120x40 flushes                       ([0-9]+) buckets, 
buckets 120x40 flushes.full                  ([0-9]+) during backward
buckets 120x40 flushes.end_of_backward       ([0-9]+) at its end
schedule 200x60 op.0.mean_ns                 ^ +0 compute load +done +$time
schedule 200x60 op.0.longest_ns              ^ +0 compute load .* $time r[0-9]+
schedule 200x60 op.0.slowest                 ^ +0 compute load .* [num]?s r([0-9]+)
schedule 200x60 op.5.mean_ns                 ^ +5 .* done +$time
schedule 200x60 op.6.mean_ns                 ^ +6 .* done +$time
collectives 120x40 traffic.control.count        control +([0-9]+)
collectives 120x40 traffic.control.sent_bytes   control +[0-9]+ +$bytes
collectives 120x40 traffic.control.reported_ns  control .*n\/a +$time
collectives 120x40 traffic.control.exposed_ns   control .*n\/a +[0-9.]+ [num]?s +$time
collectives 120x40 traffic.theory_bytes         theory: .* = $bytes
steps 80x24 step.number             ^ +([0-9,]+) +[0-3] +[0-9]+\.
steps 80x24 step.stage              ^ +[0-9,]+ +([0-3]) +[0-9]+\.
steps 80x24 step.loss               ^ +[0-9,]+ +[0-3] +([0-9.]+)
steps 80x24 step.grad_norm          ^ +[0-9,]+ +[0-3] +[0-9.]+ +([0-9.]+)
steps 80x24 step.total_ns           ^ +[0-9,]+ +[0-3] +[0-9.]+ +[0-9.]+ +$time
steps 80x24 step.exposed_percent    ^ +[0-9,]+ +[0-3] +.*s +([0-9.]+%)
steps 80x24 step.forward_percent    ^ +[0-9,]+ +[0-3] +.*s +[0-9.]+% +([0-9.]+%)
steps 80x24 step.backward_percent   ^ +[0-9,]+ +[0-3] +.*s +[0-9.]+% +[0-9.]+% +([0-9.]+%)
steps 80x24 step.optimizer_percent  ^ +[0-9,]+ +[0-3] +.*s +[0-9.]+% +[0-9.]+% +[0-9.]+% +([0-9.]+%)
steps 80x24 step.learning_rate      ^ +[0-9,]+ +[0-3] .* ([0-9.]+e[-+][0-9]+)$
END
}

# A collective's row in the views that have one: collective NAME
collective() {
    cat <<END
timeline 120x40 traffic.$1.count            ([0-9]+) $1, sent
timeline 120x40 traffic.$1.sent_bytes       $1, sent $bytes
collectives 120x40 traffic.$1.count         $1 +([0-9]+)
collectives 120x40 traffic.$1.sent_bytes    $1 +[0-9]+ +$bytes
collectives 120x40 traffic.$1.planned_bytes $1 +[0-9]+$columns +$bytes
collectives 120x40 traffic.$1.reported_ns   $1 .* B +$time
collectives 120x40 traffic.$1.exposed_ns    $1 .* B +[0-9.]+ [num]?s +$time
END
}

gathered() {
    cat <<END
overview 80x24 rank0.gathers.hidden_percent  prefetch hid ([0-9]+ %)
overview 80x24 rank0.waited.gather_times     ([0-9]+) waits? for gathers, [0-9]
overview 80x24 rank0.waited.gather_ns        [0-9]+ waits? for gathers, $time
timeline 120x40 rank0.gathers.hidden_percent prefetch hid ([0-9]+ %)
timeline 120x40 rank0.waited.gather_times    ([0-9]+) waits? for gathers
timeline 120x40 rank0.waited.gather_ns       waits? for gathers, $time
timeline 120x40 rank0.waited.gather_ns       n gather $time
memory 200x60 memory.rank0.device.gathered.peak_bytes    L gathered$columns +$bytes
memory 200x60 memory.rank0.device.gathered.planned_bytes L gathered$columns$columns +$bytes
why 120x40 memory.rank0.device.gathered.at_peak_bytes    gathered +$bytes
why 120x40 memory.rank0.device.buckets.at_peak_bytes     buckets +$bytes
shards 80x24 unit.0.lasting_bytes            a shard is [0-9,]+ \($bytes\)
END
}

# Within a step, when an operation has ended on rank 0.
within_step() {
    board now.
    cat <<END
whiteboard 200x60 now.live_bytes           rank 0 +device +$bytes
shards 80x24 now.gathered                  ([0-9]+) units? gathered
shards 80x24 now.gathered.in_flight        gathered, ([0-9]+) of them
shards 80x24 now.gathered.bytes            in flight: [0-9,]+ elements; L now $bytes
shards 80x24 now.gathered.live_bytes       in flight: [0-9,]+ elements; L now $bytes
buckets 120x40 now.buckets.live_bytes      unreduced gradients now $bytes
schedule 80x24 now.operations              rank [0-9]+: [0-9]+ of ([0-9]+) done
schedule 80x24 now.operations.ended        rank [0-9]+: ([0-9]+) of
memory 120x40 now.live_bytes               total +$bytes
memory 120x40 now.parameters.live_bytes    parameters +$bytes
memory 120x40 now.activations.live_bytes   activations +$bytes
memory 120x40 now.buckets.live_bytes       buckets +$bytes
memory 120x40 now.gathered.live_bytes      gathered +$bytes
END
}

# ---- the committed trace: stage 3, in the middle of it, stage 0

table "$example" 7 < <(every_stage; collective all_gather; collective reduce_scatter; gathered)
table "$example" 7.22 < <(within_step)
table "$example" 6.9 < <(within_step)
table "$example" 3 < <(every_stage whole; collective all_reduce)

# The curve's axis is from the highest loss to the lowest; this run learns in every step.
loss_axis() {
    local ends
    ends=($(sed -nE 's/^ +([0-9]+\.[0-9]{4}) .*/\1/p' "$(screen "$example" 7 loss 80x24)"))
    equal "${ends[0]}" "$(figure "$example" 1 step.loss)" && equal "${ends[-1]}" "$(figure "$example" 7 step.loss)"
}
check "example.zlt, step 7, loss: the axis is from the first loss to the last" loss_axis

# ---- a trace of now, with a switch; its report and its analysis

check "a run is made" train fresh "$root/configs/nano-stage3.json" -n 2 --steps 5 --at 4:stage=1 --trace fresh.zlt
table fresh.zlt 2 < <(every_stage; collective all_gather; collective reduce_scatter; gathered)
table fresh.zlt 2.20 < <(within_step | grep -v now.gathered.bytes) # a gather may just have taken its room, and not begun
table fresh.zlt 5 < <(every_stage whole; collective all_gather; collective reduce_scatter)
table fresh.zlt 3 < <(collective all_gather | grep collectives) # switched already, but the bytes are those of step 3

# after FILE PATTERN KEY: the first number of that key after a line of JSON that matches
after() { sed -n "/$2/,\$ s/.*\"$3\":[[:space:]]*\([^,]*\),\{0,1\}$/\1/p" "$1" | head -n 1; }

# in_report STEP KEY FIGURE: of one step of the report; seconds are ns there
in_report() {
    local shown true
    shown=$(after fresh.json "\"step\":[[:space:]]*$1," "$2")
    true=$(figure fresh.zlt "$1" "$3")
    case $3 in *_ns) shown=$(awk -v s="$shown" 'BEGIN { printf "%.0f ns", s * 1e9 }') ;; esac
    case $3 in *.loss | *.grad_norm) shown=$(awk -v s="$shown" 'BEGIN { printf "%.6f", s }') ;; esac
    equal "$shown" "$true" || { echo "# the report has ${shown:-nothing} as $2 of step $1; $3 is $true"; return 1; }
}
for step in 1 3 4 5; do
    while read -r key name; do
        check "report, step $step: $key is $name" in_report $step "$key" "$name"
    done <<END
stage step.stage
loss step.loss
grad_norm step.grad_norm
tokens step.tokens
total step.total_ns
forward mean.forward_ns
backward mean.backward_ns
optimizer mean.optimizer_ns
communication_exposed mean.exposed_ns
END
done

# ---- checkpoints in the host tier: copies of them are no communication, and exposed where compute waits

check "a run with checkpoints on the host is made" train offload "$root/configs/nano-stage3.json" -n 2 --steps 3 --trace offload.zlt \
    --set model.recompute=full --set activation_checkpointing.cpu_checkpointing=true --set model.checkpoint_every=1
table offload.zlt 2 <<END
overview 80x24 recent.exposed_percent   exposed +([0-9]+%)
collectives 120x40 traffic.d2h.sent_bytes     d2h +[0-9]+ +$bytes
collectives 120x40 traffic.d2h.planned_bytes  d2h +[0-9]+$columns +$bytes
collectives 120x40 traffic.d2h.exposed_ns    d2h .*s +$time
collectives 120x40 traffic.h2d.exposed_ns    h2d .*s +$time
END
offload_exposed() {
    local shown
    shown=$(after offload.json '"step":[[:space:]]*2,' offload_exposed)
    awk -v s="$shown" -v d="$(figure offload.zlt 2 traffic.d2h.exposed_ns)" -v h="$(figure offload.zlt 2 traffic.h2d.exposed_ns)" \
        'BEGIN { off = s * 1e9 - d - h; exit !(d + h > 0 && off <= 2 && off >= -2) }' || { echo "# the report has $shown"; return 1; }
}
check "report: offload_exposed is the copies that nothing hid" offload_exposed

# ---- device, host and NVMe: a run that sends states away, to NVMe from step 5 on, over paced links from step 7 on

tiers=$root/tests/reference/tiers.zlt
rate='([0-9.]+ [kMG]?B\/s)'
some_rate='[0-9.]+ [kMG]?B\/s'

# A direction's row of the table of flows: flow NAME KIND
flow() {
    cat <<END
tiers 200x60 flow.rank0.$2.bytes      $1 +$bytes
tiers 200x60 flow.rank0.$2.rate       $1 $columns +$rate
tiers 200x60 flow.rank0.$2.exposed_ns $1 .* % [a-z]+ +[0-9.-]+ +[0-9.-]+ *[um]?s? +$time
tiers 200x60 flow.rank0.$2.count      $1 .* ([0-9]+) *$
END
}

requests() {
    cat <<END
tiers 200x60 flow.rank0.$2.depth      $1 .* % [a-z]+ +([0-9.]+)
tiers 200x60 flow.rank0.$2.latency_ns $1 .* % [a-z]+ +[0-9.]+ +$time
tiers 200x60 flow.rank0.$2.deepest    $1 .*s +$some_rate +([0-9]+) +[0-9.]+ [um]s
tiers 200x60 flow.rank0.$2.longest_ns $1 .*s +$some_rate +[0-9]+ +$time
tiers 200x60 flow.rank0.$2.requests   $1 .*s +$some_rate +[0-9]+ +[0-9.]+ [um]s +([0-9]+)
END
}

# What the fastest step did is the limit of a link that nobody paces.
best() {
    cat <<END
tiers 200x60 flow.rank0.$2.best_percent $1 .*s +([0-9]+ %) best
tiers 200x60 flow.rank0.$2.best         $1 .*s +$rate
END
}

# A figure of the three boxes, which stand side by side: box FIGURE NAME
box() {
    cat <<END
tiers 200x60 memory.rank0.device.$2 ^ $1 +$bytes
tiers 200x60 memory.rank0.host.$2   ^ $1 .*$1 +$bytes.*$1 
tiers 200x60 memory.rank0.nvme.$2   ^ $1 .*$1 +$bytes
END
}

boxes() {
    box now live_bytes; box "step max" fullest_bytes; box "run max" peak_bytes; box planned planned_bytes; box reserved reserved_bytes
    cat <<END
tiers 200x60 memory.rank0.host.gradients.fullest_bytes  G gradients +$bytes
tiers 200x60 memory.rank0.host.staging.fullest_bytes    S staging +$bytes
tiers 200x60 memory.rank0.nvme.optimizer.fullest_bytes  O optimizer +$bytes
tiers 200x60 memory.rank0.nvme.parameters.fullest_bytes P parameters +$bytes
tiers 200x60 memory.rank1.device.fullest_bytes ^ +1 \[[^]]*\] +$bytes
tiers 200x60 memory.rank1.host.fullest_bytes   ^ +1 \[[^]]*\] +[0-9,]+ B \[[^]]*\] +$bytes
tiers 200x60 memory.rank1.nvme.fullest_bytes   ^ +1 .*\] +$bytes
memory 200x60 memory.rank0.host.gradients.peak_bytes     G gradients$columns +$bytes
memory 200x60 memory.rank0.nvme.optimizer.planned_bytes  O optimizer$columns$columns +$bytes
END
}

for step in 6 8; do
    table "$tiers" $step < <(
        boxes
        flow 'device -> host' d2h; flow 'host -> device' h2d; flow 'NVMe -> host' nvme_read; flow 'host -> NVMe' nvme_write
        requests 'NVMe -> host' nvme_read; requests 'host -> NVMe' nvme_write
    )
done
table "$tiers" 6 < <(best 'device -> host' d2h; best 'host -> device' h2d; best 'NVMe -> host' nvme_read; best 'host -> NVMe' nvme_write)

# ---- packets on the whiteboard, when their operation begins on rank 0: within a node and between nodes, up and down

# packets FILE STEP LEAST: all that the truth knows of
packets() {
    local name true shown number=0
    while read -r name true; do
        case $name in
        link.*) shown='^link .*plan [a-z ]*([0-9,]+ B)' ;;
        within.*) shown='^in node[+][^+]*plan [a-z ]*([0-9,]+ B)' ;;
        between.*) shown='^between .*plan [a-z ]*([0-9,]+ B)' ;;
        lane2.*) shown='^v\^ copy v[^v^]* ([0-9,]+ B)' ;;
        lane3.*) shown='^v\^ copy *\^[^v^]* ([0-9,]+ B)' ;;
        lane5.*) shown='^>< copy *<[^<>]* ([0-9,]+ B)' ;;
        *) shown='^>< copy >[^<>]* ([0-9,]+ B)' ;;
        esac
        shown=$("$zerolab" replay "$1" --frame 200x30 --view whiteboard --at "step:$2.${name##*.}.begin" --units bytes -U |
            sed -nE "s/$shown.*/\1/; T; p; q")
        equal "$shown" "$true" || { echo "# the whiteboard shows ${shown:-nothing} for $name; it is $true"; return 1; }
        number=$((number + 1))
    done < <("$counted" "$1" "$2" | grep -E '^[a-z0-9]+\.moved\.')
    [ $number -ge "$3" ] || { echo "# only $number packets"; return 1; }
}
check "a run on two nodes is made" train nodes "$root/configs/nano-nodes.json" --steps 2 --trace nodes.zlt
check "two nodes: bytes of each packet, within a node and between nodes" packets nodes.zlt 2 30
check "tiers: bytes of each packet that goes down and comes up" packets "$tiers" 8 20
padded() { "$zerolab" replay "$tiers" --frame 120x40 --view buckets --at step:8 | grep -q '^ *0 norm, block 3:67% '; }
check "a bucket with all elements of a unit that is padded has the whole unit" padded

# in_tiers PART KEY FIGURE: of step 6 analyzed alone, after PART
in_tiers() {
    local shown true
    [ -f analysis.tiers ] || "$zerolab" analyze "$tiers" --from 6 --to 6 --json >analysis.tiers
    shown=$(after analysis.tiers "$1" "$2")
    true=$(awk -v a="$(figure "$tiers" 6 "flow.rank0.$3")" -v b="$(figure "$tiers" 6 "flow.rank1.$3")" 'BEGIN { printf "%.3f", (a + b) / 2 }')
    awk -v s="$shown" -v t="$true" 'BEGIN { exit !(s != "" && t > 0 && (s - t < 0 ? t - s : s - t) <= 1) }' || { echo "# the analysis has ${shown:-nothing} as $2; the mean of $3 is $true"; return 1; }
}
know "$tiers" 6 none # so that figure() need not count anew in each subshell
check "analysis, step 6: requests of nvme_read" in_tiers '"kind":.*nvme_read' requests_per_step nvme_read.requests
check "analysis, step 6: bytes of nvme_write" in_tiers '"kind":.*nvme_write' sent_bytes_per_step nvme_write.bytes

# in_analysis STEP AFTER KEY FIGURE: of one step, analyzed alone
in_analysis() {
    local shown true
    [ -f "analysis.$1" ] || "$zerolab" analyze fresh.zlt --from "$1" --to "$1" --json >"analysis.$1"
    shown=$(after "analysis.$1" "$2" "$3")
    true=$(figure fresh.zlt "$1" "$4")
    case $4 in *_ns) shown=$(awk -v s="$shown" 'BEGIN { printf "%.0f ns", s * 1e9 }') ;; esac
    equal "$shown" "$true" || { echo "# the analysis of step $1 has ${shown:-nothing} as $3; $4 is $true"; return 1; }
}
while read -r step place key name; do
    check "analysis, step $step: $key after $place is $name" in_analysis "$step" "$place" "$key" "$name"
done <<END
2 "rank":.*1,      exposed_seconds          rank1.exposed_ns
2 "mean":          exposed_seconds          mean.exposed_ns
2 "mean":          compute_seconds          mean.compute_ns
2 "mean":          idle_seconds             mean.idle_ns
2 "cause":.*gather seconds_per_step         mean.waited.gather_ns
2 "kind":.*all_gather sent_bytes_per_step   traffic.all_gather.sent_bytes
2 "kind":.*all_gather exposed_seconds_per_step traffic.all_gather.exposed_ns
2 "kind":.*reduce_scatter seconds_per_step  traffic.reduce_scatter.busy_ns
2 "collectives"    theory_bytes_per_step    traffic.theory_bytes
2 "prefetch":      gathers                  gathers
2 "prefetch":      prefetched               gathers.prefetched
5 "mean":          exposed_seconds          mean.exposed_ns
5 "kind":.*all_gather sent_bytes_per_step   traffic.all_gather.sent_bytes
5 "version"        seconds_per_step         step.total_ns
END
finish
