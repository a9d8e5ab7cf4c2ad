#!/bin/bash
# Folders that another user can write: nothing that is planted there, a link or a pipe, makes the program write elsewhere, remove
# files elsewhere, or wait. The other user is a real one (uid 12345), so this needs root; the folders have no sticky bit,
# where the kernel's protected_symlinks does not help.
. "$(dirname "$0")/../support/tap.sh"
other=12345
as_other() { setpriv --reuid $other --regid $other --clear-groups -- "$@"; }
if [ "$(id -u)" -ne 0 ] || ! as_other true 2>/dev/null; then skip "planted links" "needs root and setpriv, for a second user"; finish; fi
chmod 711 "$work"
if ! as_other test -x "$work"; then skip "planted links" "another user cannot reach $work"; finish; fi
run="train --headless --steps 2 --set topology.ranks_as=threads $tiny"
mkdir -m 777 shared
mkdir -m 770 group
chgrp $other group
for folder in shared/ck shared/labs group/ck; do mkdir -m 777 $folder; done
echo precious >victim
chmod 600 victim

# plant NAME: the other user's link to a file of ours
plant() { as_other ln -s "$work/victim" "$work/$1" && [ "$(stat -c %u "$1")" = $other ]; }
is_kept() { [ "$(cat victim)" = precious ] || { echo "# the file has: $(head -c 60 victim | tr -d '\0')"; echo precious >victim; return 1; }; }
quietly() { timeout -k 1 60 "$@" >out 2>err </dev/null || { echo "# status $?: $(cat err)"; return 1; }; }
# refuses WORDS COMMAND...
refuses() {
    local words=$1 status
    shift
    timeout -k 1 60 "$@" >out 2>err </dev/null
    status=$?
    [ $status -eq 2 ] && grep -qF -- "$words" err || { echo "# status $status: $(cat err)"; return 1; }
}

# ---- names that the program chose: what is planted goes ----

for place in shared group; do
    check "$place: a link for latest" plant $place/ck/.latest
    check "... a run saves" quietly "$zerolab" $run --set checkpoint.path=$place/ck
    check "... latest is a file of its own" eval "[ ! -L $place/ck/latest ] && [ \"\$(cat $place/ck/latest)\" = step-2 ]"
    check "... the other file is as it was" is_kept
done
rm -r group/ck && mkdir -m 777 group/ck && as_other mkfifo group/ck/.latest
check "a pipe for latest does not hold up a run" quietly "$zerolab" $run --set checkpoint.path=group/ck
check "a link for weights" plant shared/w.bin.partial
check "... they are written" quietly "$zerolab" checkpoint export shared/ck --to llmc -o shared/w.bin
check "... as a file of its own" [ ! -L shared/w.bin ]
check "... the other file is as it was" is_kept
check "a link for tokens" plant shared/t.bin.partial
check "... they are written" quietly "$zerolab" data encode "$root/README.md" -o shared/t.bin
check "... as a file of its own" [ ! -L shared/t.bin ]
check "... the other file is as it was" is_kept
cp -r shared/ck mine
before=$(ls mine/step-2)
as_other ln -s "$work/mine/step-2" "$work/shared/ck/.step-9.partial"
check "a link to a folder, in place of one that a killed save left" [ -L shared/ck/.step-9.partial ]
check "... the next save clears it away" quietly "$zerolab" train --headless --resume shared/ck --steps 3
check "... and nothing in that folder" [ "$(ls mine/step-2)" = "$before" ]
check "... the link is gone" [ ! -L shared/ck/.step-9.partial ]
mkdir -p -m 777 state/zerolab/labs
check "a link for a lab's progress" plant state/zerolab/labs/sixteen-bytes.json.new
check "... which is kept" quietly env XDG_STATE_HOME="$work/state" "$zerolab" lab reset sixteen-bytes 1
check "... the other file is as it was" is_kept

# ---- names that the user gave: another's link is refused, the user's own is followed ----

why="it is a link of another user; give the file itself"
check "a link for a plan" plant shared/plan.txt
check "... is refused" refuses "cannot write shared/plan.txt: $why" "$zerolab" plan --model nano -o shared/plan.txt
check "a link for a frame" refuses "cannot write shared/plan.txt: $why" "$zerolab" replay "$root/docs/example.zlt" --frame 80x24 -o shared/plan.txt
for what in trace report log; do
    check "a link for a $what" plant shared/$what
    check "... is refused" refuses "cannot write the $what shared/$what: $why" "$zerolab" $run --$what shared/$what
done
check "... the other file is as it was" is_kept
mkdir out.d
ln -s out.d/plan.txt own.txt
check "a link of one's own to a file that is not there" quietly "$zerolab" plan --model nano -o own.txt
ln -sf out.d/log own.log
ln -s own.log own2.log && touch out.d/log
ln -s out.d/report.json own.json && echo old >out.d/report.json
check "... and to one that is there" quietly "$zerolab" $run --report own.json --log own2.log --trace own.zlt
check "... stays one" [ -L own.json ]
check "... and leads to what was written" grep -q '"outcome":.*"finished"' out.d/report.json
check "a device" quietly "$zerolab" plan --model nano -o /dev/null
check "standard output by its name" eval '"$zerolab" plan --model nano -o /dev/stdout | cmp - <("$zerolab" plan --model nano)'
finish
