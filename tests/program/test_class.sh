#!/bin/bash
# `zerolab class`: who is where, from progress files that came in any way; damaged ones are named and stop nothing.
. "$(dirname "$0")/../support/tap.sh"

progress() { # LAB, STEP, FINISHED, ATTEMPTS, HINTS, SECONDS: of the last of five steps that was touched
    printf '{"steps":[{"mark":"right","attempts":1,"hints":0,"seconds":60,"said":"1"},{"mark":"wrong","attempts":%s,"hints":%s,"seconds":%s,"said":"x"},{"mark":"open"},{"mark":"open"},{"mark":"open"}],"version":1,"lab":"%s","step":%s,"finished":%s}\n' \
        "$4" "$5" "$6" "$1" "$2" "$3"
}

mkdir -p class/anna/.local/state/zerolab/labs class/bert/zerolab/labs class/Zoë class/group2/carl
progress zero-1 2 false 4 3 600 >class/anna/.local/state/zerolab/labs/zero-1.json
progress memory-wall 5 true 1 0 30 >class/anna/.local/state/zerolab/labs/memory-wall.json
touch -d '2 hours ago' class/anna/.local/state/zerolab/labs/memory-wall.json
progress prefetch 1 false 0 0 0 >class/bert/zerolab/labs/prefetch.json
echo '{"outcome": "finished"}' >class/bert/zerolab/last.json
progress my-own-lab 2 false 1 1 90 >class/Zoë/my-own-lab.json
progress zero-3 5 true 1 0 30 >class/group2/carl/zero-3.json
progress zero-1 2 false 2 0 45 >class/dora-zero-1.json
progress zero-1 2 false 9 0 45 >class/dora_old_zero-1.json
echo '{"steps": [' >class/bert/zerolab/labs/zero-1.json
head -c 100000 /dev/zero >class/bert/zerolab/labs/big.json

"$zerolab" class class >table
ok "a class has a table" $?
row() { grep -qE "$2" table; ok "$1" $?; }
row "a state folder: the lab that was worked on last, and how its step goes" '^anna +zero-1 +2 of 5 +4 +3 +10 +1 +now$'
row "the folder zerolab of one" '^bert +prefetch +1 of 5 +1 +0 +1 +0 '
row "a file in a folder with a name, also of a lab that is not known here" '^Zoë +my-own-lab +2 of 5 +1 +1 +'
row "a folder in a folder" '^group2/carl +zero-3 +done '
row "single files are named after the learner and the lab" '^dora +zero-1 +2 of 5 +2 '
row "... each" '^dora_old +zero-1 +2 of 5 +9 '
row "a damaged file is named, with the reason" '^cannot be read: bert/zerolab/labs/zero-1.json: this is no lab'
row "... and one that is too large" '^cannot be read: bert/zerolab/labs/big.json: .*too large'
! grep -q last.json table
ok "what is no progress is left alone" $?
[ "$(sed '/^$/q' table | awk 'length($0) > 80' | wc -l)" -eq 0 ] && [ "$(grep -c '^anna ' table)" -eq 1 ]
ok "one line a learner, in 80 columns" $?

believes() { # LEARNER, STEP OF THE ANSWER: how it was taken
    mkdir -p believed && printf '{"steps":[{"mark":"right","attempts":2,"believed":"%s"},{"mark":"right","attempts":1,"believed":"%s"}],"lab":"zero-1","step":2}\n' "$2" "$3" >"believed/$1-zero-1.json"
}
believes anna "" "That is half."
believes bert "That is the whole." "That is half."
believes carl "" ""
"$zerolab" class believed >table
row "the most frequent mistake of a class" '^  2 of 3   zero-1, part 2: That is half\.$'
row "... and another, of fewer" '^  1 of 3   zero-1, part 1: That is the whole\.$'
[ "$(grep -n 'part 2: That is half' table | cut -d: -f1)" -lt "$(grep -n 'part 1: That is' table | cut -d: -f1)" ]
ok "... below it" $?
"$zerolab" class believed --json | tr -d ' \t\n' | grep -qF '"beliefs":[{"lab":"zero-1","step":2,"learners":2,"answered":3,"believed":"Thatishalf."},'
ok "... as JSON, too" $?
"$zerolab" class class anna >table
row "of one learner: all labs" '^memory-wall +done +1 of 5 +2 +0 +2 +2 h ago$|^memory-wall +done +1 of 5 +2 +0 +2 +120 min ago$'
row "... the last first" '^zero-1 +2 of 5 +1 of 5 +5 +3 +11 '
"$zerolab" class class/anna >table
row "one state folder is one learner" '^anna +zero-1 '

"$zerolab" class class --json -o class.json
ok "as JSON" $?
for wanted in '"learner":	"anna"' '"labs_done":	1' '"attempts":	5' '"file":	"bert/zerolab/labs/zero-1.json"' '"step_count":	5' '"cut":	false'; do
    grep -qF "$wanted" class.json || echo "# no $wanted"
done | grep -q . && bad=1 || bad=0
ok "... with the same figures" $bad

mkdir many
(cd many && seq -f %g.json 20000 | xargs touch)
"$zerolab" class many --json | grep -q '"cut":	false' && touch many/more.json && "$zerolab" class many --json | grep -q '"cut":	true'
ok "... and whether files were left out" $?

mkdir empty
"$zerolab" class empty | grep -q 'no progress of any lab'
ok "an empty folder is said" $?
"$zerolab" class nowhere 2>errors; status=$?
[ $status -eq 3 ] && grep -q 'nowhere: No such file' errors
ok "a folder that is not there is refused" $?
"$zerolab" class class nobody 2>errors; status=$?
[ $status -eq 2 ] && grep -q 'nobody' errors
ok "nobody of that name" $?
"$zerolab" class 2>/dev/null; status=$?
[ $status -eq 2 ]
ok "a folder must be given" $?

# What the program itself writes is what it reads.
export XDG_STATE_HOME=$PWD/mine/eve
"$zerolab" lab reset zero-1 3 >/dev/null && "$zerolab" class mine >table
row "what a lab keeps is read back" '^eve +zero-1 +3 of 6 '
finish
