#!/bin/bash
# Other programs' formats from the command line: what is exported and imported trains to the same bits, whichever way it went;
# text becomes tokens, and tokens text; what is wrong is one line.
. "$(dirname "$0")/../support/tap.sh"
few="-n 2 --set topology.ranks_as=threads"
bpe=$root/tests/reference/bpe
encoding="--set data.vocabulary_file=$bpe/vocab.json --set data.merges_file=$bpe/merges.txt"

quietly() { "$@" >out 2>err || { sed 's/^/# /' err; return 1; }; }
convert() { quietly "$zerolab" checkpoint convert "$1" -o "${@:2}"; }
export_to() { quietly "$zerolab" checkpoint export ck -o "$@"; }

# refuses STATUS WORDS ARGS...: one line on standard error, with these words
refuses() {
    "$zerolab" "${@:3}" >out 2>err
    local status=$?
    [ $status -eq "$1" ] && [ "$(wc -l <err)" -eq 1 ] && grep -qF -- "$2" err || { echo "# status $status: $(cat err)"; return 1; }
}

# A run that goes on saves beside what it came from: it is given a copy.
fresh() { rm -rf copy && cp -r "$1" copy; }

check "a checkpoint to begin with" train first $few --steps 3 --set checkpoint.path=ck

# ---- weights ----
whichever_way() {
    export_to one.safetensors && export_to one.bin --to llmc && export_to hub/ && cmp one.safetensors hub/model.safetensors &&
        convert one.bin from-bin --shards 3 && convert from-bin two.safetensors && cmp one.safetensors two.safetensors &&
        convert one.safetensors two.bin && cmp one.bin two.bin && [ -s hub/config.json ]
}
check "exports are the same bytes, whichever way they went" whichever_way

another_number() {
    convert ck ck5 --shards 5 && [ "$(ls ck5/step-3/shard-* | wc -l)" -eq 5 ] && fresh ck && train two $few --steps 4 --resume copy &&
        fresh ck5 && train five $few --steps 4 --resume copy && same_bits two five
}
check "a checkpoint of another number of shards is the same state" another_number

# Lion keeps one state, SGD none: what waits for a delayed update comes after them.
waiting() {
    local optimizer
    for optimizer in Lion SGD; do
        rm -rf late late1 late2
        train late $few --steps 3 --set bf16.enabled=true --set zero_optimization.stage=2 --set optimizer.type=$optimizer \
            --set zero_optimization.offload_optimizer.device=cpu --set schedule.delayed_update=true \
            --set schedule.delayed_update_after=1 --set checkpoint.path=late || return 1
        convert late late1 --shards 1 && convert late1 late2 --shards 2 && cmp late/step-3/shard-1-of-2 late2/step-3/shard-1-of-2 &&
            "$zerolab" checkpoint inspect late1 | grep -q '^holds .* gradients of a delayed update' || return 1
    done
}
check "... also of what waits for a delayed update" waiting

as_good_as() {
    train weights $few --steps 2 --resume ck --weights-only --set checkpoint.path=weights.ck || return 1
    for from in one.safetensors one.bin hub; do
        train from $few --steps 2 --from $from --set zero_optimization.stage=3 && same_hash weights from || return 1
    done
}
check "training from a file is training from the checkpoint's weights" as_good_as

# The same model, in four files by transformers and in one by us.
several() {
    local weights=$root/tests/reference/weights tokens="--set data.sequence_length=16 --set data.synthetic=true"
    cp -r "$weights/sharded" . && rm -f sharded.out && quietly "$zerolab" checkpoint inspect sharded && grep -q "28 tensors in 4 files$" out &&
        convert sharded several.safetensors && cmp several.safetensors "$weights/model.safetensors" || return 1
    for from in "$weights/model.safetensors" sharded sharded/model.safetensors.index.json; do
        train several $few --steps 2 --from "$from" $tokens --set zero_optimization.stage=3 && cp several.json "several-$((++n)).json" || return 1
    done
    same_hash several-1 several-2 && same_hash several-1 several-3
}
n=0
check "a model of several files, as Hugging Face's hub has them" several
rm -f sharded/model-00002-of-00004.safetensors
check "refused: one of them is missing" refuses 3 "model-00002-of-00004.safetensors: cannot be opened: No such file" train --headless --from sharded

# Of what a command has in memory, the allocator's word; through rank 0's own allocator where a rank does it.
of_memory() {
    local command
    for command in "export ck -o m.safetensors" "convert one.bin -o m.ck --shards 2" "convert ck -o m.bin"; do
        rm -rf m.ck
        quietly "$zerolab" checkpoint $command --json && grep -q '"peak_bytes":.*4194304' out || return 1
        rm -rf m.ck && quietly "$zerolab" checkpoint $command && grep -q "; memory 4.0 MiB: 2.0 to read, 2.0 to write$" out || return 1
    done
}
check "what a conversion has in memory is said" of_memory

half() {
    export_to half.safetensors --dtype "$1" && train half $few --steps 1 --from half.safetensors &&
        "$zerolab" checkpoint inspect half.safetensors | grep -q "^holds *$1 weights, 52 tensors$" &&
        [ $(($(stat -c %s half.safetensors) * 10)) -lt $(($(stat -c %s one.safetensors) * 6)) ]
}
check "weights in bf16" half bf16
check "weights in fp16" half fp16
check "refused: fp16 for llm.c" refuses 2 "use fp32 or bf16" checkpoint export ck -o x.bin --dtype fp16
check "refused: a type that is none" refuses 2 "give fp32, bf16 or fp16" checkpoint export ck -o x.bin --dtype fp8
check "refused: no destination" refuses 2 "give -o" checkpoint export ck
check "refused: a tag of a file" refuses 2 "has no tags" checkpoint convert one.bin -o x.safetensors --tag a
check "refused: another model's file" refuses 2 "its model.layers is 4, that of this run is 3" train --headless --from one.bin --set model.layers=3
check "refused: a missing file" refuses 3 "nosuch.bin: cannot be opened" train --headless --from nosuch.bin
check "refused: two beginnings" refuses 2 "not both" train --headless --from one.bin --resume ck
check "refused: a checkpoint as a file" refuses 2 "--resume ck --weights-only" train --headless --from ck

beside() {
    train beside $few --steps 3 --set checkpoint.path=beside.ck --set zero_optimization.stage3_gather_16bit_weights_on_model_save=true &&
        grep -q "^wrote the weights of step-3 in fp32 beside it" beside.out &&
        quietly "$zerolab" checkpoint export beside.ck -o same.safetensors && cmp same.safetensors beside.ck/step-3/model.safetensors &&
        grep -q '"reserved_bytes":.*4194304' beside.json && cmp hub/config.json beside.ck/step-3/config.json && "$zerolab" checkpoint inspect beside.ck/step-3 | grep -q "^checkpoint "
}
check "stage3_gather_16bit_weights_on_model_save writes them beside a checkpoint" beside

# Host memory for the checkpoint, but not for the weights too.
without_weights() {
    train tight $few --steps 3 --set checkpoint.path=tight.ck --set memory.host_budget=3MiB --set zero_optimization.stage3_gather_16bit_weights_on_model_save=true &&
        grep -q "^step-3 stands, but its weights could not be written beside it: out of host memory: staging asks for" tight.out &&
        [ ! -e tight.ck/step-3/model.safetensors ] && quietly "$zerolab" checkpoint inspect tight.ck
}
check "... where there is no memory for that, the checkpoint stands without" without_weights

# ---- inspect ----
described() {
    "$zerolab" checkpoint inspect ck >out && grep -q "^progress *3 steps, 3 updates, 24 samples$" out &&
        grep -q "^checked *every byte is what was written$" out && "$zerolab" checkpoint inspect ck --json | grep -q '"damage":.*null'
}
check "inspect says what a checkpoint holds" described

damaged() {
    cp -r ck bad && printf '\377\377\377\377' | dd of=bad/step-3/shard-1-of-2 bs=1 seek=100000 conv=notrunc 2>/dev/null
    refuses 3 "bad/step-3/shard-1-of-2" checkpoint inspect bad && grep -q "^holds" out &&
        refuses 3 "bad/step-3/shard-1-of-2" checkpoint export bad -o never.bin && [ -z "$(ls never.bin* 2>/dev/null)" ]
}
check "a damaged byte is named, and nothing is made of it" damaged

# ---- tokens ----
of_bytes() {
    quietly "$zerolab" data encode "$root/data/default.txt" -o bytes --shard-tokens 70000 && [ "$(ls bytes | wc -l)" -eq 5 ] &&
        train text $few --steps 2 && train bytes $few --steps 2 --set data.format=tokens --set data.path=bytes && same_bits text bytes
}
check "shards of bytes train like the text" of_bytes

of_pieces() {
    quietly "$zerolab" data encode "$root/data/default.txt" -o pieces.bin --vocabulary "$bpe/vocab.json" --merges "$bpe/merges.txt" &&
        "$zerolab" data info pieces.bin | grep -q "the highest is 639: model.vocabulary of at least 640" &&
        train pieces $few --steps 3 --sample 30 --set data.format=tokens --set data.path=pieces.bin --set model.vocabulary=640 $encoding \
            --set checkpoint.path=pieces.ck && grep -q "^sample: " pieces.out && ! grep -q "<[0-9][0-9]*>" pieces.out
}
imported() {
    quietly "$zerolab" checkpoint export pieces.ck -o pieces.safetensors && train imported $few --steps 1 --sample 30 --from pieces.safetensors \
        --set data.format=tokens --set data.path=pieces.bin $encoding && grep -q "^sample: " imported.out && ! grep -q "<[0-9][0-9]*>" imported.out
}
check "a model of byte-pair tokens prints text" of_pieces
check "... and so does one that was imported" imported
check "refused: too small a vocabulary" refuses 2 "token 639 is not in model.vocabulary" train --headless --set data.format=tokens --set data.path=pieces.bin
check "refused: text as shards" refuses 3 "not a token shard" train --headless --set data.format=tokens --set data.path="$root/data/default.txt"
check "refused: one file of two" refuses 2 "give data.merges_file too" train --headless --set "data.vocabulary_file=$bpe/vocab.json"
check "refused: a damaged shard" eval 'head -c 5000 pieces.bin >cut.bin; refuses 3 "copy it again" data info cut.bin'

# ---- files as they are found ----
fragment='{"zero_optimization": {"stage": 1}, "model": {"name": "nano", "layers": 1}, "topology": {"ranks": 2}'
echo "$fragment}" >fragment.ds.json
echo "$fragment, \"scheduler\": {\"type\": \"WarmupDecayLR\", \"params\": {\"total_num_steps\": \"auto\", \"warmup_num_steps\": 2}}}" >auto.ds.json
unsaid="no batch size, which DeepSpeed refuses: train_micro_batch_size_per_gpu is taken as 4"
check "a fragment without a batch size plans and trains, once said" eval 'train fragment fragment.ds.json --steps 1 --set data.synthetic=false &&
    [ "$(cat fragment.out fragment.err | grep -c "^$unsaid")" -eq 1 ] && quietly "$zerolab" plan fragment.ds.json && grep -q "^$unsaid" err'
numbered() { train numbered auto.ds.json --set scheduler.params.total_num_steps=3 --steps 3 && train auto auto.ds.json --steps 3 && same_bits numbered auto; }
check '"auto" for the steps of a schedule is --steps' numbered
check "... which is said" grep -q 'total_num_steps: "auto" is 3' auto.out
check "... and asked for where it is not known" refuses 2 'give --steps N' train auto.ds.json --detach
check "a key in the wrong place names the right one" eval 'echo "{\"offload_optimizer\": {}}" >place.json
    refuses 2 "did you mean zero_optimization.offload_optimizer?" plan place.json'
without_config() {
    (unset ZEROLAB_CONFIG && train neutral $few --steps 1 --from one.bin) || return 1
    for key in optimizer.params.lr optimizer.params.betas optimizer.params.eps optimizer.params.weight_decay gradient_clipping; do
        cat neutral.out neutral.err | grep -q "^$key: \"auto\" is " || return 1
    done
}
check "weights without CONFIG: the settings of an optimizer are neutral ones, and said" without_config
warned() { cat "$1.out" "$1.err" | grep -q "^data.format=bytes: tokens are bytes, 256 of the 640"; }
check "bytes for a model of other tokens are warned of" eval 'train wide $few --steps 1 --set model.vocabulary=640 && warned wide && ! warned text'
finish
