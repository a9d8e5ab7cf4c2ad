#!/bin/bash
# Operands of the wrong kind: a folder for a file, a file for a folder, a binary file, nothing. Each gets one line that says what was given.
. "$(dirname "$0")/../support/tap.sh"
mkdir folder && echo text >folder/text.txt && : >empty && head -c 3000 /dev/zero >binary

# says STATUS LINE ARGS...: this line alone
says() {
    local want=$1 line=$2 status
    shift 2
    timeout -k 1 60 "$zerolab" "$@" >out 2>err </dev/null
    status=$?
    [ $status -eq "$want" ] && [ ! -s out ] && [ "$(cat err)" = "zerolab: $line" ] && return
    sed "s/^/# status $status, said: /" err
    return 1
}

no_lesson="folder: a folder without a recorded lesson; give a trace (train --trace), or the folder of a lesson (lab --record)"
check "replay of a folder that is no lesson" says 3 "$no_lesson" replay folder
check "... with --frame" says 3 "$no_lesson" replay folder --frame 80x24
mkdir lesson && : >lesson/007.zlt
check "... of a lesson, with --frame" says 2 "lesson is a lesson; --frame prints one of its parts, lesson/007.zlt" replay lesson --frame 80x24
for verb in analyze check; do
    check "$verb of a folder" says 3 "folder: a folder; give a trace, a file that train --trace made" $verb folder
    check "$verb of another file" says 3 "binary: not a zerolab trace" $verb binary
    check "$verb of an empty file" says 3 "empty: empty, not a zerolab trace" $verb empty
done
check "class of a file" says 3 "binary: a file, not a folder; give the folder that holds learners' progress" class binary
check "class of nothing" says 3 "absent: No such file or directory" class absent
for verb in "checkpoint inspect" "train --headless --resume"; do
    check "$verb of nothing" says 3 "absent: cannot be opened: No such file or directory" $verb absent
    check "$verb of another file" says 3 "binary: neither a folder of checkpoints nor weights (safetensors, llm.c)" $verb binary
    check "$verb of another folder" says 3 'there is no checkpoint in folder, or its `latest` names none' $verb folder
done
for verb in plan "data info" "data encode" class replay attach "lab print"; do
    timeout -k 1 60 "$zerolab" $verb "" >out 2>err </dev/null
    check "$verb of an empty name" [ "$? $(sed 's/; it takes .*//' err)" = "2 zerolab: operand of zerolab $verb is empty" ]
done
finish
