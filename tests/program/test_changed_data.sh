#!/bin/bash
# Data that change under a run, or between a save and what goes on from it. SHORT=1: ranks as threads only.
. "$(dirname "$0")/../support/tap.sh"
small="$tiny --set checkpoint.background=off -n 2"
text_of() { head -c "$1" "$root/data/default.txt" >"$2"; }

# ---- a text that shrinks while it is trained on ----

# shrinks SETS...: the run ends as one whose input cannot be read, says so in one line, and leaves nobody
shrinks() {
    local run status
    text_of 200000 text
    rm -f out
    timeout -k 1 100 "$zerolab" train --headless --steps 1000000 $small --set data.path=text "$@" >out 2>err </dev/null &
    run=$!
    eventually grep -q "^step 1/" out || return 1
    truncate -s 100 text
    wait $run
    status=$?
    [ $status -eq 3 ] && [ "$(wc -l <err)" -eq 1 ] &&
        grep -qE "^zerolab: (rank [01]: )?data.path text: became shorter while it was in use: $work/text has 100 bytes now; restore it\$" err &&
        [ -z "$(ls "$XDG_RUNTIME_DIR")" ] || { echo "# status $status: $(cat err)"; return 1; }
}
check "a text that shrinks, ranks as threads" shrinks $threads
if [ -n "${SHORT:-}" ] || ! command -v mpirun >/dev/null; then skip "... as processes" "short, or no mpirun"; else
    check "... as processes" shrinks
fi
many() {
    mkdir many && (cd many && for f in $(seq 1 90); do text_of 200 $f; done)
    (ulimit -Sn 64 && "$zerolab" train --headless --steps 1 $small $threads --set data.path=many) >out 2>err || { cat err; return 1; }
}
check "more files than may be open at first" many

# ---- data that changed between save and resume ----

save() { rm -rf ck; "$zerolab" train --headless --steps 1 $small $threads --set checkpoint.path=ck "$@" >out 2>err || { cat err; return 1; }; }
# goes_on WORDS ARGS...: trains, and says these words; "": nothing of data
goes_on() {
    local words=$1
    shift
    "$zerolab" train --headless --steps 2 --resume ck --set checkpoint.at_end=false "$@" >out 2>err || { echo "# $(cat err)"; return 1; }
    if [ -n "$words" ]; then grep -qE -- "$words" out; else ! grep -q "the data " out; fi || { sed 's/^/# /' out; return 1; }
}
refused() {
    "$zerolab" train --headless --steps 2 --resume ck --strict "$@" >out 2>err
    local status=$?
    [ $status -eq 2 ] && [ "$(wc -l <err)" -eq 1 ] && grep -qE "$words" err || { echo "# status $status: $(cat err)"; return 1; }
}
text_of 280000 text
check "a save" save --set data.path=text
check "the same text" goes_on ""
check "... strictly" goes_on "" --strict
cp text elsewhere
touch -d "2001-02-03 04:05:06 UTC" elsewhere
check "written to since, of which hash and size say nothing" goes_on "the data were written to since the checkpoint, though size and hash are the same: text \(280000 bytes, changed 20.*; now elsewhere \(280000 bytes, changed 2001-02-03 04:05:06 UTC, hash" --set data.path=elsewhere
check "... which is no other text" goes_on "the data were written to" --strict --set data.path=elsewhere
printf 'other words' | dd of=elsewhere conv=notrunc status=none
words='the data are not those of the checkpoint: it was trained on text \(280000 bytes, changed 20.*, hash [0-9a-f]{16}\); now elsewhere \(280000 bytes, changed .*, hash [0-9a-f]{16}\)$'
check "other words, as many" goes_on "$words" --set data.path=elsewhere
check "... strictly" refused --set data.path=elsewhere
echo more >>text
words='it was trained on text \(280000 bytes.*; now text \(280005 bytes'
check "more text" goes_on "$words"
check "... strictly" refused
text_of 200000 text
check "a small text" save --set data.path=text
touch -d "2001-02-03 04:05:06 UTC" text
check "... is hashed whole, so its time does not matter" goes_on ""
check "the built-in text" save
check "... stays the same" goes_on "" --strict
words='it was trained on the built-in text \([0-9]+ bytes, hash [0-9a-f]{16}\); now text \(200000 bytes'
check "... and is another than a file" refused --set data.path=text
check "made-up tokens" save --set data.synthetic=true
words='it was trained on made-up tokens; now the built-in text'
check "... are no text" refused --set data.synthetic=false
encode() { text_of "$1" part && "$zerolab" data encode part -o shards --shard-tokens 50000 >out; }
encode 180000
tokens="--set data.path=shards --set data.format=tokens"
check "shards" save $tokens
check "... the same" goes_on "" --strict
printf "\1\0" | dd of=shards/tokens-000002.bin bs=1 seek=1024 conv=notrunc status=none
words='it was trained on shards \(360000 bytes.*; now shards \(360000 bytes'
check "... one of which changed" refused
check "a checkpoint of weights, whose data nobody knows" eval '"$zerolab" checkpoint export ck -o w.safetensors >out && rm -r ck && "$zerolab" checkpoint convert w.safetensors -o ck --set model.heads=2 >out'
words="does not say what data it was trained on; leave --strict out"
check "... is refused strictly" refused

# ---- what is written in part goes when a signal ends its command ----

truncate -s 1T sparse
# ends SIGNAL FILE COMMAND...: once the file is there
ends() {
    local signal=$1 file=$2 run status
    shift 2
    "$@" >out 2>err </dev/null &
    run=$!
    eventually test -e "$file" || { kill -KILL $run; return 1; }
    kill -"$signal" $run
    wait $run
    status=$?
    [ $status -eq $((128 + $(kill -l "$signal"))) ] && [ -z "$(find . -name "*.partial")" ] && [ "$(wc -l <err)" -eq 1 ] || { echo "# status $status: $(cat err)"; return 1; }
}
for signal in TERM HUP; do
    check "encoding ended by $signal" ends $signal t.bin.partial "$zerolab" data encode sparse -o t.bin
done
check "... of shards" ends TERM many.d/tokens-000001.bin "$zerolab" data encode sparse -o many.d --shard-tokens 1000000
finish
