#!/bin/bash
# Saves that fail: no folder, a full disk, a disk that has become read-only, a folder that is removed while a save is on its way.
# Each is one line that says why; the run goes on, and the checkpoint that stood before still loads. Where the last that was wanted
# is not there in the end, or the report, or all of the trace, the status says so: 4, and a line.
. "$(dirname "$0")/../support/tap.sh"
save="--set checkpoint.every=1"

# told NAME TEXT: a line of the run says so, and the run came to its end.
told() {
    grep -qE "^step [0-9]+: checkpoint: step-[0-9]+ was not saved: $2" "$1.out" && grep -q '^finished' "$1.out" ||
        { sed 's/^/# /' "$1.out"; return 1; }
}
# goes_on NAME FOLDER STEP STEPS: from there, to that many.
goes_on() {
    train "$1" --resume "$2" --steps "$4" --set checkpoint.at_end=false --set checkpoint.every=0 &&
        grep -q "goes on from the state of $2/step-$3" "$1.out"
}

# refused LINE ARGS...: before anything trains, status 2 and this line; nothing is left.
refused() {
    local line=$1 status
    shift
    "$zerolab" train --headless --steps 3 --trace never.zlt --report never.json "$@" >refused.out 2>refused.err
    status=$?
    [ $status -eq 2 ] && [ "$(cat refused.err)" = "zerolab: cannot write checkpoints into $line" ] && [ ! -s refused.out ] &&
        [ ! -e never.zlt ] && [ ! -e never.json ] || { echo "# status $status: $(cat refused.err refused.out)"; return 1; }
}
echo mine >plain
check "no folder can be made: refused" refused "/dev/null/ck: Not a directory" $threads $tiny --set checkpoint.path=/dev/null/ck
check "... there is a file" refused "plain: Not a directory" $threads $tiny --set checkpoint.path=plain
check "... only saved on command" refused "plain/ck: Not a directory" $threads $tiny --set checkpoint.path=plain/ck \
    --set checkpoint.at_end=false --at 2:checkpoint=mine
check "... a run that saves nothing" train nothing --steps 1 $threads $tiny --set checkpoint.path=plain/ck --set checkpoint.at_end=false
check "... while the run goes on, and it saves where it did" eval 'train kept_on --steps 3 $threads $tiny --set checkpoint.path=instead \
    --at "2:set checkpoint.path=plain/ck" && [ -d instead/step-3 ] &&
    grep -q "set checkpoint.path=plain/ck refused: cannot write checkpoints into plain/ck: Not a directory" kept_on.out'
check "what was made to try it is taken away" eval '! "$zerolab" train --headless $threads $tiny --set checkpoint.path=./new/and//deep/ \
    --trace /dev/null/t 2>err && grep -q "cannot write the trace" err && [ ! -e new ] && mkdir new &&
    ! "$zerolab" train --headless $threads $tiny --set checkpoint.path=new/ck --trace /dev/null/t 2>err && [ -d new ] && [ ! -e new/ck ]'
nobody() { (unset XDG_RUNTIME_DIR && setpriv --reuid=65534 --regid=65534 --clear-groups "$@"); }
if [ "$(id -u)" = 0 ] && nobody true 2>/dev/null; then
    cp "$zerolab" program && chmod 755 . && mkdir theirs_alone && chmod 700 theirs_alone # nobody may not come to where the checkout lies
    permitted() {
        nobody ./program train --headless --steps 1 $threads $tiny --set checkpoint.path="$1" >out 2>err
        [ $? -eq 2 ] && [ "$(cat err)" = "zerolab: cannot write checkpoints into $1: Permission denied" ] || { cat err; return 1; }
    }
    check "no permission to make it: refused" permitted made_by_nobody
    check "... nor to write into it" permitted theirs_alone
    check "... and no folder of runs is left" [ ! -e /tmp/zerolab-65534 ]
else skip "no permission" "this user cannot be another"; fi

# begins NAME ARGS...: a run that goes on until it is stopped, saving into a/ck
begins() {
    local name=$1
    shift
    "$zerolab" train --headless --steps 1000000 --report "$name.json" $threads $tiny --set checkpoint.path=a/ck "$@" \
        >"$name.out" 2>"$name.err" </dev/null &
    run=$!
    eventually grep -q "^step 1/" "$name.out"
}
# stops NAME STATUS
stops() {
    kill -INT $run
    wait $run
    local status=$?
    [ $status -eq "$2" ] && grep -q '^stopped after step' "$1.out" || { echo "# status $status"; tail -n 5 "$1.out" "$1.err" | sed 's/^/# /'; return 1; }
}
check "a run whose folder cannot be made any more" begins nofolder
check "... nothing stands before it saves" [ ! -e a ]
: >a
check "... trains until it is stopped" stops nofolder 4
line=$(cat nofolder.err)
check "... says what is not there" grep -qE '^zerolab: step-[0-9]+ was not saved, nor any checkpoint of this run$' nofolder.err
check "... and so does the report" grep -qF "\"error\":	\"${line#zerolab: }\"" nofolder.json
check "... and why" grep -qE 'was not saved: cannot make the folder a/ck: Not a directory' nofolder.out
rm a
check "another" begins later --set checkpoint.every=20
until : 2>/dev/null >a; do rm -rf a.gone && mv a a.gone; done
check "... is told that it cannot be saved" eventually grep -q 'was not saved: ' later.out
rm a
check "... a later one that can be saved" eventually eval 'grep -A1000000 "was not saved: " later.out | grep -q ": saved step-"'
check "... is what was wanted" stops later 0
check "... nothing is lost" [ ! -s later.err ]

# ---- a folder that goes away ----

# Removes what saves in the background write into as soon as it is there, until the run says so; then stops the run.
vanish() {
    local said='was not saved: .*(was removed while|No such file)' run status
    rm -f gone.out
    "$zerolab" train --headless --steps 1000000 --resume gone --set checkpoint.every=2 >gone.out 2>gone.err </dev/null &
    run=$!
    removed() { rm -rf gone/.step-*.partial; grep -qE "$said" gone.out; }
    eventually removed
    kill -INT $run
    wait $run
    status=$?
    [ $status -eq 0 ] && grep -qE "^step [0-9]+: checkpoint: step-[0-9]+ $said" gone.out && grep -q '^stopped after step' gone.out ||
        { echo "# status $status"; tail -5 gone.out gone.err | sed 's/^/# /'; return 1; }
}
check "a checkpoint" train gone --steps 1 $threads --set checkpoint.path=gone
cp -r gone kept
check "a folder that is removed while it is written: said, and training goes on" vanish
check "... the older checkpoint is as it was" diff -r gone/step-1 kept/step-1
check "... and loads" goes_on after kept 1 2

# ---- file systems of their own ----

if ! unshare -Urm true 2>/dev/null; then
    skip "full and read-only disks" "no user namespaces"
    finish
fi
export zerolab
# on_disk KIB SCRIPT: runs it in a name space where disk/ is a file system of that size.
on_disk() {
    rm -rf disk && mkdir disk
    unshare -Urm bash -c "mount -t tmpfs -o size=$1k none disk && $2"
}
run="\"\$zerolab\" train --headless $threads $tiny --set checkpoint.path=disk/ck $save"

for background in off on; do
    full() {
        on_disk 700 "$run --steps 4 --set checkpoint.background=$background >full.out 2>full.err; [ \$? -eq 4 ] && ls -A disk/ck >left &&
            ! \"\$zerolab\" train --headless --resume disk/ck --steps 9 --set checkpoint.at_end=false >resumed.out 2>&1 &&
            grep -q 'goes on from the state of disk/ck/step-1' resumed.out"
    }
    check "a full disk, background $background: the run goes on, and from its first checkpoint another" full
    check "... is said" told full 'cannot write .*/shard-[0-3]-of-4.writing: No space left on device'
    check "... and in the end what is there instead" eval '[ "$(cat full.err)" = "zerolab: step-4 was not saved; the newest is step-1" ]'
    check "... leaves what stood, and nothing else" [ "$(tr '\n' ' ' <left)" = "latest step-1 " ]
done

# The first save finds the disk full; before one that does not, another run has saved there.
overtaken() {
    cp -r theirs disk && dd if=/dev/zero of=disk/filler bs=4k 2>dd.err
    "$zerolab" train --headless $threads $tiny --steps 1000000 --set checkpoint.path=disk/ck --set checkpoint.every=20 --set checkpoint.keep=1 \
        >overtaken.out 2>overtaken.err </dev/null &
    local run=$! status
    eventually grep -q "was not saved: .*No space left" overtaken.out && mv disk/theirs/* disk/ck && rm disk/filler &&
        eventually grep -qE "was not saved: disk/ck holds step-3 of another run|: saved step-" overtaken.out
    status=$?
    kill -INT $run
    wait $run
    [ $status -eq 0 ] && ! grep -q ": saved step-" overtaken.out && diff -r theirs disk/ck || { tail -n 5 overtaken.out overtaken.err | sed 's/^/# /'; return 1; }
}
export threads tiny patience
export -f overtaken eventually
train theirs --steps 3 $threads $tiny --set checkpoint.path=theirs
check "a folder in which another run saves while the disk is full, is that run's" on_disk 3000 overtaken

check "a disk that is read-only: refused" on_disk 4000 "$run --steps 2 >first.out && mount -o remount,ro disk &&
    ! \"\$zerolab\" train --headless --resume disk/ck --steps 4 >readonly.out 2>readonly.err && ! \"\$zerolab\" train --headless --steps 1 $threads $tiny \
    --set checkpoint.path=disk/new >>readonly.out 2>>readonly.err && \"\$zerolab\" train --headless --resume disk/ck --steps 4 --set checkpoint.every=0 \
    --set checkpoint.at_end=false >reads.out"
check "... in one line, before it trains" eval '[ ! -s readonly.out ] && [ "$(cat readonly.err)" = "zerolab: cannot write checkpoints into disk/ck: Read-only file system
zerolab: cannot write checkpoints into disk/new: Read-only file system" ]'
check "... what saves nothing goes on from it" grep -q "goes on from the state of disk/ck/step-2" reads.out
read_only() {
    "$zerolab" train --headless $threads $tiny --steps 2 --set checkpoint.path=disk/ck >first.out || return 1
    "$zerolab" train --headless --resume disk/ck --steps 1000000 --set checkpoint.every=0 >readonly.out 2>readonly.err </dev/null &
    local run=$!
    eventually grep -q "^step 3/" readonly.out && mount -o remount,ro disk
    kill -INT $run
    wait $run
    [ $? -eq 4 ] && "$zerolab" checkpoint inspect disk/ck >inspected
}
export -f read_only
check "a disk that becomes read-only: the run goes on" on_disk 4000 read_only
check "... is said" grep -qE "^step [0-9]+: checkpoint: step-[0-9]+ was not saved: cannot make the folder .*Read-only file system" readonly.out
check "... names what it has not saved, and nothing that it did not write" eval '! grep -q "^checkpoint:" readonly.out &&
    grep -qE "^zerolab: step-[0-9]+ was not saved, nor any checkpoint of this run$" readonly.err && [ "$(wc -l <readonly.err)" -eq 1 ]'
check "... what stands is good" grep -q 'every byte is what was written' inspected

# unwritten KIB LINE OPTION: a run of which only that file lies on the full disk.
unwritten() {
    on_disk "$1" "\"\$zerolab\" train --headless $threads $tiny --steps 6 $3 >out 2>err; [ \$? -eq 4 ] && ls -A disk >left"
    [ "$(cat err)" = "zerolab: $2" ] && grep -q '^finished' out || { sed 's/^/# /' err out; return 1; }
}
check "a report onto a full disk" unwritten 8 "cannot write disk/r.json: No space left on device" "--report disk/r.json"
check "... leaves nothing that looks like one" [ ! -s left ]
check "a trace onto a full disk" unwritten 8 "the trace disk/t.zlt was not written whole" "--trace disk/t.zlt"
check "... says where it ends" grep -q "cannot write trace disk/t.zlt any further: No space left on device; it ends here" out

# refused_there KIB WORDS ARGS...: exit status 4, one line with these words, nothing left in disk/.
refused_there() {
    local kib=$1 words=$2
    shift 2
    on_disk "$kib" "! \"\$zerolab\" checkpoint $* >out 2>err && ls -A disk >left"
    grep -qE "$words" err && [ "$(wc -l <err)" -eq 1 ] && [ ! -s left ] || { cat err left | sed 's/^/# /'; return 1; }
}
check "a log onto a full disk" eval 'DNNL_VERBOSE=1 unwritten 8 "cannot write the log disk/log: No space left on device" "--log disk/log"'
whole_answer() { on_disk 8 "head -c 6000 /dev/zero >disk/filler && ! \"\$zerolab\" $1 -o disk/x 2>err && ls -A disk >left"; [ "$(cat left)" = filler ] && grep -q 'No space' err; }
check "an answer onto a full disk leaves no half of it" whole_answer "plan --schedule --model nano"
encoded() { on_disk 302 "! \"\$zerolab\" data encode '$root/data/default.txt' --shard-tokens 100000 -o disk/x 2>err && ls -A disk >left"; }
check "shards of which the last does not fit" encoded
check "... are taken away: they are not the whole text" eval '[ ! -s left ] && grep -q "cannot write disk/x/tokens-000001.bin: No space" err'
check "a small checkpoint" train small --steps 1 $threads $tiny --set checkpoint.path=small
check "an export onto a full disk" refused_there 60 'cannot write disk/x.safetensors.*No space left' export small -o disk/x.safetensors
check "... for llm.c" refused_there 60 'cannot write disk/x.bin.*No space left' export small -o disk/x.bin
check "a conversion onto a full disk" refused_there 200 'cannot write disk/.*No space left' convert small -o disk
finish
