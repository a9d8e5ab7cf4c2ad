#!/bin/bash
# Runs that are saved, stopped or killed, and go on bit for bit as if they had never stopped, and what is refused. (At other
# stages and numbers of ranks: test_reshape.sh; saves that fail: test_save_faults.sh.) KILLS=N: so many runs killed (5).
. "$(dirname "$0")/../support/tap.sh"
kills=${KILLS:-5}

# refused "text" STATUS ARGS...: with this status and this line.
refused() {
    local text=$1 want=$2
    shift 2
    "$zerolab" train --headless "$@" >out 2>err
    [ $? -eq "$want" ] && grep -qE "$text" err || { sed 's/^/# /' err; return 1; }
}

# ---- the weights alone ----

check "saved at stage 3" train fp32 --steps 6 $threads $tiny --set zero_optimization.stage=3 --set checkpoint.path=fp32.ck
check "weights alone, into another precision and optimizer" train other "$root/configs/nano.json" --resume fp32.ck --weights-only \
    --steps 2 $threads $tiny --set bf16.enabled=true --set optimizer.type=Lion
check "... begin at step 1" grep -q "begins with the weights" other.out

# ---- bit for bit ----

# goes_on NAME ARGS...: saved after 4 of 8 steps in the background, then from there.
goes_on() {
    local name=$1
    shift
    train "$name" --steps 8 $threads $tiny --set checkpoint.path="$name.ck" --set checkpoint.every=4 "$@" &&
        train "$name-on" --resume "$name.ck/step-4" --steps 8 && ends_like "$name" "$name-on"
}
check "AdamW on a schedule" goes_on adamw --set zero_optimization.stage=2 --set scheduler.type=WarmupCosineLR \
    --set scheduler.params.total_num_steps=10 --set scheduler.params.warmup_num_steps=3
check "Adam with accumulation" goes_on adam --set optimizer.type=Adam --set gradient_accumulation_steps=2 --set train_batch_size=32
check "Lion in bf16" goes_on lion --set optimizer.type=Lion --set bf16.enabled=true --set zero_optimization.stage=3
check "Adagrad" goes_on adagrad --set optimizer.type=Adagrad --set zero_optimization.stage=1
check "SGD on one cycle" goes_on sgd --set optimizer.type=SGD --set optimizer.params.lr=0.1 --set scheduler.type=OneCycle \
    --set scheduler.params.cycle_min_lr=0.01 --set scheduler.params.cycle_max_lr=0.1 --set scheduler.params.cycle_first_step_size=3
check "momentum in fp16, while its scale falls" goes_on momentum --set optimizer.type=SGD --set optimizer.params.momentum=0.9 \
    --set fp16.enabled=true --set fp16.initial_scale_power=32 --set fp16.hysteresis=1
check "... which it does" grep -q '"skipped":.*true' momentum-on.json
check "delayed updates, their gradients pending" goes_on delayed --set bf16.enabled=true --set zero_optimization.stage=2 \
    --set zero_optimization.offload_optimizer.device=cpu --set schedule.delayed_update=true --set schedule.delayed_update_after=2
check "a seed of 19 digits" goes_on seed --set data.seed=1234567890123456789
check "... which the report tells as it is" grep -q '"seed":.1234567890123456789,' seed-on.json
check "made-up tokens, on three ranks" goes_on synthetic -n 3 --set data.synthetic=true

check "from 4 ranks to 3, which its batch does not divide into" train three -n 3 --resume adamw.ck/step-4 --steps 5
check "... the user is told" grep -q "train_batch_size is 12 from here on" three.err

# ---- what is refused ----

check "another model" refused 'another model .*model.layers is 2, that of this run is 4' 2 "$root/configs/nano.json" --resume fp32.ck
check "another optimizer" refused 'trained with AdamW, this run uses Lion; use the same, or' 2 "$root/configs/nano.json" --resume fp32.ck \
    $tiny --set optimizer.type=Lion
check "no checkpoint" refused 'nowhere: cannot be opened: No such file or directory' 3 --resume nowhere
check "too few steps" refused 'has 6 steps already' 2 --resume fp32.ck --steps 6
printf x | dd of=fp32.ck/step-6/shard-1-of-4 bs=1 seek=50000 conv=notrunc 2>/dev/null
damaged='^zerolab: (rank [0-3]: )?fp32.ck/step-6/shard-1-of-4 is damaged: block 0 \(bytes 4096 to [0-9]*: weights of embed and more\) has a wrong checksum; use another tag$'
for as in threads processes; do
    check "a changed byte, found by ranks as $as" refused "$damaged" 3 --resume fp32.ck --set topology.ranks_as=$as
    check "... is one line" [ "$(wc -l <err)" -eq 1 ]
    check "... and all that is said of going on" eval '! grep -qE "resumed|go on with" out'
done
rm fp32.ck/step-6/shard-3-of-4
check "a missing shard" refused 'shard-3-of-4: No such file' 3 --resume fp32.ck $threads

# ---- memory ----

check "no room for a copy: in the foreground" train host --steps 2 $threads $tiny --set checkpoint.path=host.ck \
    --set memory.host_budget=2100KiB --set checkpoint.every=1
check "... and it says why" grep -q 'foreground: memory.host_budget has no room' host.out

# Of every rank's host tier: the two buffers, whose pages stay; and beside the training a copy of the shards, 0.4 MiB in all.
staging() {
    grep -A6 '"tier":.*"host"' "$1.json" | grep -A4 '"staging"' | sed -n 's/.*"peak_bytes":[^0-9]*\([0-9]*\),*/\1/p' | sort -n | tail -1
}
check "... which takes its buffers and no more" [ "$(staging host)" = 2097152 ]
check "a copy where there is room" train copy --steps 2 $threads $tiny --set checkpoint.path=copy.ck --set checkpoint.every=1
check "... takes a rank's shards and the buffers" [ $(($(staging copy) - 2097152)) -ge $((405504 / 4)) -a $(($(staging copy) - 2097152)) -le $((440000 / 4)) ]
check "loading" train load --resume copy.ck --steps 3 --set checkpoint.at_end=false --set checkpoint.every=0
check "... goes through the same buffers" grep -q '"reserved_bytes":.*2097152' load.json

# ---- the command ----

check "on command" train command --steps 4 $threads $tiny --set checkpoint.path=command.ck --set checkpoint.at_end=false \
    --at "2:checkpoint=before" --at 4:checkpoint
check "... under a name, or the step's" [ "$(ls command.ck | tr '\n' ' ')" = "before latest step-3 " ]
check "... where there is no folder" train nowhere --steps 2 $threads $tiny --at 2:checkpoint
check "... it is refused" grep -q 'checkpoint refused: there is no folder' nowhere.out

# ---- killed before anybody heard of the last save ----

# The save that nobody hears of is made by hand, while the run goes on.
"$zerolab" train --headless --steps 100000 $tiny $threads --set checkpoint.path=hint.ck --at 2:checkpoint=heard >hint.out 2>hint.err </dev/null &
front=$!
eventually grep -q "saved heard" hint.out
cp -r hint.ck/heard hint.ck/unheard && echo unheard >hint.ck/latest
kill -9 $(children $front)
wait $front
check "the hint after a kill names what latest names" grep -q "^checkpoint: hint.ck/unheard   go on with: zerolab train --resume hint.ck\$" hint.err

# ---- killed, again and again ----

# newest FILE: the last step that the run said was saved; 0: none.
newest() {
    sed -n 's/.*checkpoint: saved step-\([0-9]*\):.*/\1/p' "$1" | sort -n | tail -1 | grep . || echo 0
}
# Starts the run, or lets it go on; kills one of its processes after a while. The next one must begin no earlier than at
# what this one said was saved.
kill_one() {
    local -a from=() who
    rm -f kill.out
    [ -e kill.ck/latest ] && from=(--resume kill.ck)
    [ -e kill.ck/latest ] || from=($tiny --set checkpoint.path=kill.ck --set checkpoint.every=2 --set checkpoint.keep=2)
    "$zerolab" train --headless --steps 100000 "${from[@]}" $as >kill.out 2>kill.err </dev/null &
    local front=$! launcher ranks
    eventually grep -q "^step " kill.out || { sed 's/^/# /' kill.err; return 1; }
    eventually [ -e kill.ck/latest ] || return 1 # the first run has nothing to fall back on before its first save
    launcher=$(children $front | tr -d " ")
    ranks=($(children "$launcher"))
    sleep 0.$((RANDOM % 1000 + 1000))
    who=($front $launcher "${ranks[@]}")
    kill -9 "${who[RANDOM % ${#who[@]}]}"
    wait $front 2>/dev/null
    eventually gone $launcher "${ranks[@]}" || return 1
    local began
    began=$(sed -n 's/.*goes on from the state of .*, step \([0-9]*\), .*/\1/p' kill.out)
    [ "${began:-0}" -ge "$saved" ] || { echo "# began at ${began:-0}, though step $saved was saved"; sed 's/^/# /' kill.out kill.err; return 1; }
    saved=$(newest kill.out)
    [ "$saved" -gt 0 ] || saved=${began:-0}
}
as= saved=0 RANDOM=7
for ((k = 1; k <= kills; k++)); do check "killed, run $k" kill_one; done
end=$(($(sed 's/step-//' kill.ck/latest) + 5))
check "after all that it goes on" train killed --resume kill.ck --steps $end
check "a run that was never killed" train whole --steps $end $threads $tiny
check "... has the same state" same_hash whole killed
check "... and no leftovers of killed saves stay" [ -z "$(ls -A kill.ck | grep '^\.')" ]
finish
