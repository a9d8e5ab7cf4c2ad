#!/bin/bash
# `zerolab export` as a command: every form of runs of many kinds, what it refuses, what it leaves behind; and the files of csv_monitor.
. "$(dirname "$0")/../support/tap.sh"

export_() { "$zerolab" export "$@" 2>err </dev/null; }
# ends STATUS LINE ARGS...: with this line alone on standard error
ends() {
    local want=$1 line=$2 status
    shift 2
    export_ "$@" >out
    status=$?
    [ $status -eq "$want" ] && [ "$(cat err)" = "${line:+zerolab: $line}" ] && return
    sed "s/^/# status $status, said: /" err
    return 1
}
# JSON by another reader than ours, which refuses NaN; where there is no Python, the C test has read it with cJSON.
valid() {
    ! command -v python3 >/dev/null || python3 - "$@" <<'END'
import gzip, json, sys
def refuse(name): raise ValueError(name)
for path in sys.argv[1:]:
    text = (gzip.open if path.endswith(".gz") else open)(path, "rt").read()
    for part in text.splitlines() if path.endswith(".jsonl") else [text]:
        json.loads(part, parse_constant=refuse)
END
}
# every_form NAME: all forms of NAME.zlt, in NAME.d, without a word of warning
every_form() {
    mkdir "$1.d" && for to in perfetto:p.json perfetto:p.json.gz jsonl:r.jsonl hta:hta memory-timeline:memory csv:csv; do
        ends 0 "" "$1.zlt" --to "${to%:*}" -o "$1.d/${to#*:}" || return 1
    done
    valid "$1.d/p.json" "$1.d/p.json.gz" "$1.d/r.jsonl" "$1.d"/hta/* "$1.d"/memory/*
}
holds() { [ "$(ls "$1" | tr '\n' ' ')" = "$2 " ] || { echo "# $1: $(ls "$1" | tr '\n' ' ')"; return 1; }; }

# ---- runs of many kinds ----

run="--steps 3 -n 2 $threads $tiny"
check "a run" train one $run --trace one.zlt
check "... in every form" every_form one
check "... a file a rank" holds one.d/hta "rank_0.json.gz rank_1.json.gz"
check "... the same, compressed" eval 'gzip -dc one.d/p.json.gz | cmp - one.d/p.json'
check "... on standard output" eval 'export_ one.zlt --to perfetto -o - | cmp - one.d/p.json && export_ one.zlt --to jsonl -o /dev/stdout | cmp - one.d/r.jsonl'
check "... as many lines as records" eval '[ "$("$zerolab" check one.zlt | sed "s/ .*//;q" | tr -d ,)" = "$(wc -l <one.d/r.jsonl)" ]'

nvme() {
    train nvme $run --trace nvme.zlt --set zero_optimization.stage=3 --set zero_optimization.reduce_bucket_size=1000 \
        --set zero_optimization.offload_optimizer.device=nvme --set zero_optimization.offload_optimizer.nvme_path=.
}
check "with states on NVMe" nvme
check "... in every form" every_form nvme
check "... a file for each tier" holds nvme.d/memory "rank_0_device.raw.json.gz rank_0_host.raw.json.gz rank_0_nvme.raw.json.gz \
rank_1_device.raw.json.gz rank_1_host.raw.json.gz rank_1_nvme.raw.json.gz"
check "... what HTA takes for copies" eval 'gzip -dc nvme.d/hta/rank_0.json.gz | grep -q "\"cat\":\"gpu_memcpy\",\"name\":\"dma NVMe read (swapin)\""'

check "with other ranks in the middle" train moved $run --trace moved.zlt --at "2:ranks 3"
check "... in every form" every_form moved
check "... of all ranks that there were" holds moved.d/hta "rank_0.json.gz rank_1.json.gz rank_2.json.gz"
check "... the memory of the first part is given back before the next begins" eval 'gzip -dc moved.d/memory/rank_0_device.raw.json.gz | tr -d "[]" |
    awk -F, "{ live += \$3; if (live == 0) zeros++; if (live < 0) bad = 1 } END { exit bad || zeros != 1 }"'

check "a simulated run" eval '"$zerolab" simulate --model gpt2 --hardware a100 -n 128 --record-ranks 0-99 --set zero_optimization.stage=3 --steps 2 -o simulated.zlt >out'
check "... in every form" every_form simulated
check "... more ranks than are written at once" [ "$(ls simulated.d/hta | wc -l)" = 100 ]
check "... the world is that of the run" eval 'gzip -dc simulated.d/hta/rank_99.json.gz | grep -q "\"rank\": 99, \"world_size\": 128"'
check "... losses are unknown" eval 'grep -q "\"loss\":null" simulated.d/r.jsonl && ! grep -q "\"name\":\"loss\"" simulated.d/p.json && ! grep -qi nan simulated.d/csv/*.csv'

check "a run that ran out of memory" eval '! "$zerolab" train --headless --steps 4 $threads --set memory.device_budget=16MiB --trace short.zlt >out 2>err'
check "... in every form" every_form short
check "... which tells of it" grep -q '"cat":"out of memory","name":"oom: out of device memory: ' short.d/p.json

# ---- traces that are not whole ----

head -c $(($(wc -c <one.zlt) * 3 / 4)) one.zlt >cut.zlt
said_cut="the trace is not whole: cut off inside a chunk; all before it is whole"
check "a trace that was cut, as far as it goes" ends 0 "$said_cut" cut.zlt --to perfetto -o cut.json
check "... is valid" valid cut.json
check "... as tables" ends 0 "$said_cut" cut.zlt --to csv -o cut
echo '{"traceEvents": []}' >foreign.json
check "a job without an event" ends 3 "foreign.json is Chrome JSON without an event of a training job (steps, operators, kernels, collectives)" foreign.json --to perfetto -o never
check "another program's trace" ends 0 "" "$root/tests/foreign/traces/ddp-2" --to jsonl -o job.jsonl
check "... by the names it has" grep -q '"name":"all_reduce"' job.jsonl
echo none >none.txt
check "what is no trace" ends 3 "none.txt: not a zerolab trace" none.txt --to perfetto -o never
check "... leaves nothing" [ ! -e never ]
check "... nor a folder" eval '! export_ foreign.json --to csv -o never && [ ! -e never ]'
check "what is not there" eval '! export_ absent.zlt --to hta -o never && [ ! -e never ]'

# ---- where it goes ----

names="perfetto, hta, memory-timeline, csv, jsonl"
check "no form" ends 2 "--to is missing: give one of $names" one.zlt -o never
check "another form" ends 2 "--to chrome: give one of $names" one.zlt --to chrome -o never
check "no place" ends 2 "-o is missing: give the file or folder to write" one.zlt --to perfetto
check "a file where no folder is" ends 2 "cannot write absent/p.json: No such file or directory" one.zlt --to perfetto -o absent/p.json
check "... where a folder is" ends 2 "cannot write one.d: Is a directory" one.zlt --to perfetto -o one.d
check "a folder where no folder is" ends 2 "cannot write absent/csv: No such file or directory" one.zlt --to csv -o absent/csv
check "... where a file is" ends 2 "cannot write foreign.json: Not a directory" one.zlt --to csv -o foreign.json
check "... that holds something" ends 2 "one.d/hta is not empty; give a new folder" one.zlt --to hta -o one.d/hta
check "over the trace" ends 2 "one.zlt cannot be both FILE and --output; give two files" one.zlt --to jsonl -o one.zlt
mkdir empty
check "a folder that is empty" ends 0 "" one.zlt --to csv -o empty
echo old >over.json
check "a file that is there is replaced" eval 'ends 0 "" one.zlt --to perfetto -o over.json && cmp over.json one.d/p.json'

check "a full disk" ends 4 "cannot write /dev/full: No space left on device" one.zlt --to perfetto -o /dev/full
small_disk() { (trap '' XFSZ; ulimit -f 8; ends "$@"); } # files of at most 8 KiB
check "... a file" small_disk 4 "cannot write over.json: File too large" one.zlt --to perfetto -o over.json
check "... leaves the one that was there, and nothing beside it" eval 'cmp over.json one.d/p.json && [ "$(ls over.json*)" = over.json ]'
check "... compressed" small_disk 4 "cannot write small.json.gz: File too large" one.zlt --to perfetto -o small.json.gz
check "... a folder" small_disk 4 "cannot write never/memory.csv: File too large" one.zlt --to csv -o never
check "... leaves none" [ ! -e never ]
mkdir kept
check "... one that was there stays, empty" eval 'small_disk 4 "cannot write kept/memory.csv: File too large" one.zlt --to csv -o kept && [ -z "$(ls kept)" ]'

# ---- csv_monitor ----

cat >deepspeed.json <<END
{"train_batch_size": 8, "fp16": {"enabled": true, "initial_scale_power": 4}, "csv_monitor": {"enabled": true, "output_path": "logs/of", "job_name": "job"},
 "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 4, "warmup_type": "linear"}}}
END
column() { tr -d '\r' <"logs/of/job/Train_Samples_$1.csv" | tr '\n' ' '; }
check "a DeepSpeed file with csv_monitor" train monitored deepspeed.json --steps 4 -n 2 $threads $tiny
check "... its files" holds logs/of/job "Train_Samples_loss_scale.csv Train_Samples_lr.csv Train_Samples_train_loss.csv"
check "... learning rates of the steps after" [ "$(column lr)" = "step,lr 8,0 16,0.00025 24,0.0005 32,0.00075 " ]
check "... loss scales" [ "$(column loss_scale)" = "step,loss_scale 8,16 16,16 24,16 32,16 " ]
check "... losses, those of the report" eval '[ "$(column train_loss | tr " " "\n" | sed -n "2,5s/.*,//p" | xargs printf "%.6f\n")" = "$(grep "\"loss\":" monitored.json | head -4 | sed "s/.*:[[:space:]]*//;s/,//" | xargs printf "%.6f\n")" ]'
check "... ends of lines as Python's csv writes them" [ "$(grep -c $'\r$' logs/of/job/Train_Samples_lr.csv)" = 5 ]
check "the next run goes on in them" eval 'train again deepspeed.json --steps 1 -n 2 $threads $tiny && [ "$(column lr | wc -w)" = 7 ]'
check "one with other ranks has one head" eval 'train relaunched deepspeed.json --steps 4 -n 2 $threads $tiny --set csv_monitor.job_name=r --at "3:ranks 4" &&
    [ "$(tr -d "\r" <logs/of/r/Train_Samples_lr.csv | cut -d, -f1 | tr "\n" " ")" = "step 8 16 24 32 " ]'
check "a folder that cannot be" eval '! "$zerolab" train deepspeed.json --headless --steps 1 $threads $tiny --set csv_monitor.output_path=foreign.json 2>err >out &&
    grep -q "^zerolab: csv_monitor: cannot write foreign.json/job/Train_Samples_train_loss.csv: Not a directory" err'
check "switched off it writes nothing" eval 'train off deepspeed.json --steps 1 $threads $tiny --set csv_monitor.enabled=false --set csv_monitor.job_name=off && [ ! -e logs/of/off ]'
finish
