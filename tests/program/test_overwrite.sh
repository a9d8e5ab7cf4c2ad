#!/bin/bash
# Nothing is lost without a word: a run keeps out of the checkpoints of another, and no command writes over a file that it reads.
. "$(dirname "$0")/../support/tap.sh"
small="$threads $tiny --set checkpoint.background=off"

# refuses WORDS ARGS...: status 2, one line with these words
refuses() {
    local words=$1
    shift
    "$zerolab" "$@" >out 2>err </dev/null
    local status=$?
    [ $status -eq 2 ] && [ "$(wc -l <err)" -eq 1 ] && grep -qF -- "$words" err || { echo "# status $status: $(cat err)"; return 1; }
}
has() { [ "$(ls "$1" | tr '\n' ' ')" = "$2 " ] || { echo "# $1: $(ls "$1" | tr '\n' ' ')"; return 1; }; }
unchanged() { diff -r "$1" "$2" | sed 's/^/# /'; diff -rq "$1" "$2" >/dev/null; }

# ---- checkpoints ----

others="holds step-8 of another run: go on with --resume ck/step-8, or give another checkpoint.path"
check "a run that saves" train first --steps 8 $small --set checkpoint.path=ck --set checkpoint.every=2
cp -r ck kept
check "another into the same folder is refused before it trains" refuses "ck $others" train --headless --steps 7 $small \
    --set checkpoint.path=ck --set checkpoint.keep=2
check "... of another model, too, which would have the same steps" refuses "./ck holds step-8 of another run" train --headless --steps 3 $small \
    --set model.layers=3 --set checkpoint.path=./ck
check "... that goes on from elsewhere" refuses "./ck holds step-8 of another run" train --headless --resume kept --steps 9 --set checkpoint.path=./ck
check "... that begins anew with its weights" refuses "holds step-8 of another run" train --headless --resume ck --weights-only --steps 2
check "a conversion" refuses "ck holds step-8 of another run; give another folder" checkpoint convert kept/step-4 -o ck
check "... all is as it was" unchanged ck kept

check "what goes on in the folder saves there, and keeps so many" train on --resume ck/step-8 --steps 10 --set checkpoint.keep=2 --set checkpoint.every=1
check "... its own, or those of the run that it goes on from" has ck "latest step-10 step-9"
touch -d '1 hour' ck/step-*/manifest.json
check "after the clock was set back an hour" train back --resume ck/step-10 --steps 13 --set checkpoint.keep=2 --set checkpoint.every=1
check "... the last that were saved are kept" has ck "latest step-12 step-13"

# A command may change the folder while the run goes on; engines that are started again know which were theirs.
elsewhere() {
    train elsewhere --steps 6 $small --set checkpoint.path=mine --at "2:checkpoint=one" \
        --at "3:set checkpoint.path=kept" --at "3:set checkpoint.path=new" --at "3:checkpoint=two" --at "4:ranks 2" \
        --at "5:set checkpoint.path=mine" --at "6:checkpoint=three" --set checkpoint.at_end=false
}
check "another folder while the run goes on" elsewhere
check "... is refused where another run saved" grep -q "command set checkpoint.path=kept refused: kept ${others/ck/kept}" elsewhere.out
check "... with an advice that works where no latest stands" eval 'mkdir untold && cp -r kept/step-8 untold &&
    refuses "go on with --resume untold/step-8, or" train --headless --steps 9 $small --set checkpoint.path=untold &&
    train untold --resume untold/step-8 --steps 9 --set checkpoint.every=0 && [ -d untold/step-9 ]'
check "... and the way back to an own one is not, by an engine that was started again either" has mine "latest one three"
check "... each got what was saved into it" has new "latest two"

# ---- a folder that a run uses, from its beginning to its end ----

# begins NAME ARGS...: a run that goes on until it is stopped
begins() {
    local name=$1
    shift
    "$zerolab" train --headless --steps 1000000 "$@" >"$name.out" 2>&1 </dev/null &
    run=$!
    eventually grep -q "^step [0-9]" "$name.out" || { tail -n 3 "$name.out" | sed 's/^/# /'; return 1; }
}
stops() { kill -INT "$1" && wait "$1"; }
quietly="--set checkpoint.at_end=false --set checkpoint.every=0"
taken() { refuses "zerolab: run $run goes on and keeps its checkpoints in $1; give each a folder of its own" "${@:2}"; }

check "a run that has not saved yet" begins uses $small --set checkpoint.path=runs/used
check "... has its folder, where nothing stands" [ ! -e runs ]
check "another run is refused before it trains" taken runs/used train --headless --steps 1 $small --set checkpoint.path=runs/used
check "... by another name" eval 'ln -s . here && taken here/./runs//used/ train --headless --steps 1 $small --set checkpoint.path=here/./runs//used/'
check "... detached" taken runs/used train --detach --steps 1 $small --set checkpoint.path=runs/used
check "... one that saves on command" taken runs/used train --headless --steps 1 $small --set checkpoint.path=runs/used $quietly --at 1:checkpoint
check "... a conversion" taken runs/used checkpoint convert kept -o runs/used
check "... that goes there later" eval 'train goes_there --steps 3 $small --set checkpoint.path=its --at "1:set checkpoint.path=runs/used" &&
    grep -q "refused: run $run goes on and keeps its checkpoints in runs/used" goes_there.out && [ -d its/step-3 ]'
check "one that saves nothing is not" train saves_nothing --steps 1 $small --set checkpoint.path=runs/used $quietly
check "... until it would" eval '! train saves_nothing --steps 3 $small --set checkpoint.path=runs/used --set checkpoint.at_end=false \
    --at "2:set checkpoint.every=1" >not_saved && grep -q "^finished" saves_nothing.out && grep -q "was not saved: run $run goes on and keeps its checkpoints in runs/used" saves_nothing.out'
check "... another folder is free" train beside --steps 1 $small --set checkpoint.path=runs/beside
check "it ends" stops $run
check "... saves where nobody else did" eval '[ "$(ls -A runs/used)" = "$(printf "latest\n%s" "$(cat runs/used/latest)")" ]'
check "... it is whole" eval '"$zerolab" checkpoint inspect runs/used >inspected'

tag=$(cat runs/used/latest)
check "a run that goes on from there" begins resumed --resume runs/used --set checkpoint.every=0
check "... a second is refused" taken runs/used train --headless --resume runs/used --steps $((${tag#step-} + 1))
check "... unless it saves nothing" train reads --resume runs/used/$tag --steps $((${tag#step-} + 1)) $quietly
check "... or elsewhere" train elsewhere_too --resume runs/used/$tag --steps $((${tag#step-} + 1)) --set checkpoint.path=other
check "... it ends" stops $run
check "... and anybody may go on" train anybody --resume runs/used --steps $(($(sed s/step-// runs/used/latest) + 1))

# An engine that is started again, and folders that the run has come to meanwhile.
check "a run with other ranks" begins relaunched $small --set checkpoint.path=first_one $quietly --set checkpoint.at_end=true \
    --at "2:set checkpoint.path=second_one" --at "3:ranks 2" --at "4:set checkpoint.at_end=false"
check "... goes on" eventually grep -q "key checkpoint.at_end" relaunched.out
check "... keeps its first folder" taken first_one train --headless --steps 1 $small --set checkpoint.path=first_one
check "... and its second" taken second_one train --headless --steps 1 $small --set checkpoint.path=second_one
check "... it ends" stops $run
check "... leaves nothing where it saved nothing" [ ! -e first_one -a ! -e second_one ]
check "... where now another may" train first_too --steps 1 $small --set checkpoint.path=first_one

# Only a run that goes on keeps a folder: not one that is dead.
for as in threads processes; do
    check "a run that is killed, ranks as $as" begins killed $small --set topology.ranks_as=$as --set checkpoint.path=crash.$as \
        --set checkpoint.at_end=false --set checkpoint.every=1000000
    kill -9 $run
    wait $run 2>/dev/null
    check "... its folder is free" eventually train after_$as --steps 1 $small --set checkpoint.path=crash.$as
    check "a detached run, ranks as $as" eval '"$zerolab" train --detach $small --set topology.ranks_as=$as --set checkpoint.path=away.$as >detached 2>err'
    run=$(sed 's/run \([0-9]*\).*/\1/' detached)
    check "... has its folder" taken away.$as train --headless --steps 1 $small --set checkpoint.path=away.$as
    engine=$(children $run)
    kill -STOP $engine # it would end, and save, when its front end is gone
    kill -9 $run
    check "... also when only its engine is left" taken away.$as train --headless --steps 1 $small --set checkpoint.path=away.$as
    kill -9 $engine
    check "... it is free in the end" eventually train at_last_$as --steps 1 $small --set checkpoint.path=away.$as
done

# ---- files ----

# keeps FILE WORDS ARGS...: refused, and the file is as it was
keeps() {
    local file=$1
    shift
    cp "$file" before && refuses "$@" && cmp before "$file"
}
check "a trace" train trace $small --steps 2 --trace t.zlt
check "weights" "$zerolab" checkpoint export mine -o w.safetensors >/dev/null
cp "$root/configs/nano.json" n.json && ln -s t.zlt link.zlt && ln n.json hard.json && mkdir texts && cp "$root/README.md" texts/a.txt
check "analyze onto its trace" keeps t.zlt "t.zlt cannot be both FILE and --output; give two files" analyze t.zlt -o t.zlt
check "... by another name" keeps t.zlt "link.zlt cannot be both FILE and --output" analyze ./t.zlt -o link.zlt
check "... onto the other trace" keeps t.zlt "t.zlt cannot be both --diff and --output" analyze trace.json --diff t.zlt -o t.zlt
check "check" keeps t.zlt "cannot be both FILE and --output" check t.zlt -o t.zlt
check "replay" keeps t.zlt "cannot be both FILE and --output" replay t.zlt --frame 80x24 -o t.zlt
check "plan" keeps n.json "n.json cannot be both CONFIG and --output" plan n.json -o n.json
check "train, its trace" keeps n.json "cannot be both CONFIG and --trace" train n.json --headless --steps 1 --trace n.json
check "... its report" keeps n.json "hard.json cannot be both CONFIG and --report" train n.json --headless --steps 1 --report hard.json
check "... its log" keeps n.json "cannot be both CONFIG and --log" train n.json --headless --steps 1 --log n.json
check "... onto its text" keeps texts/a.txt "texts/a.txt cannot be both data.path and the trace" train --headless --steps 1 --set data.path=texts --trace texts/a.txt
check "... its log" keeps texts/a.txt "texts/a.txt cannot be both data.path and --log" train --headless --steps 1 --set data.path=texts --log texts/a.txt
check "... onto its weights" keeps w.safetensors "cannot be both --from and --trace" train --headless --steps 1 --from w.safetensors --trace w.safetensors
check "two that are not there yet" refuses "./y cannot be both --trace and --report" train --headless --steps 1 --trace y --report ./y
check "... and are not there now" [ ! -e y ]
check "a conversion onto what it reads" keeps w.safetensors "cannot be both PATH and --output" checkpoint convert w.safetensors -o w.safetensors --dtype bf16
check "... onto something else" keeps n.json "n.json is there, and is no file of weights; give another --output" checkpoint convert mine -o n.json --to safetensors
cp -r "$root/tests/reference/weights/sharded" .
part=sharded/model-00001-of-00004.safetensors
check "... onto one of several files" keeps $part "$part cannot be both PATH and --output" checkpoint convert sharded -o $part
check "tokens onto their text" keeps texts/a.txt "cannot be both TEXT and --output" data encode texts -o texts/a.txt
cp "$root/labs/tour/lab.md" lab.md
check "a hand-out onto its lab" keeps lab.md "cannot be both NAME and --output" lab print ./lab.md -o lab.md
check "what is not read is written, again and again" eval 'for i in 1 2; do "$zerolab" analyze t.zlt -o figures && "$zerolab" checkpoint export mine -o w.safetensors --dtype bf16 &&
    "$zerolab" train --headless --steps 1 $small --trace /dev/null --report /dev/null; done >out'

# A trace that is being written: the second run would leave neither its own nor the first one's.
"$zerolab" train --headless --steps 100000 $small --trace held.zlt >held.out 2>&1 </dev/null &
held=$!
check "a run that goes on" eventually grep -q "^step 1/" held.out
check "its trace is no other run's" refuses "cannot write the trace held.zlt: another run is writing it" train --headless --steps 1 $small \
    --trace held.zlt
check "... nor a report" refuses "cannot write the report held.zlt: another run is writing it" train --headless --steps 1 $small \
    --report held.zlt
kill -INT $held
wait $held
check "... it is whole" "$zerolab" check held.zlt -o checked
check "... and now anybody's" train again --steps 1 $small --trace held.zlt

# What is written goes into a file beside it first: of a name that nobody has.
echo mine >figures.partial && cp figures.partial mine.partial
check "a user's own FILE.partial" eval '"$zerolab" analyze t.zlt -o figures && cmp figures.partial mine.partial'
check "... nothing else is left beside it" [ "$(echo figures*)" = "figures figures.partial" ]
cp figures shielded && chmod 444 shielded
shielded() {
    "$@" analyze t.zlt -o shielded 2>err
    [ $? -eq 2 ] && [ "$(cat err)" = "zerolab: cannot write shielded: Permission denied" ] && cmp figures shielded || { sed 's/^/# /' err; return 1; }
}
if [ "$(id -u)" != 0 ]; then check "a file that is write-protected" shielded "$zerolab"
elif setpriv --reuid=65534 --regid=65534 --clear-groups true 2>/dev/null; then
    cp "$zerolab" program && chmod 777 . && chown 65534 shielded # nobody may not come to where the checkout lies
    check "a file that is write-protected" shielded setpriv --reuid=65534 --regid=65534 --clear-groups ./program
else skip "a file that is write-protected" "this user has all permissions"; fi
finish
