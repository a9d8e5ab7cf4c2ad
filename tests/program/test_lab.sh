#!/bin/bash
# Labs from the command line: every one is held to what it says; what a teacher gets wrong is said with line and reason.
. "$(dirname "$0")/../support/tap.sh"
export XDG_STATE_HOME=$PWD/state

"$zerolab" lab list >list
ok "there is a list" $?
for name in $(awk '$3 == "min" {print $1}' list); do
    # With a sanitizer some: test_lab_frames plays them all, without ranks.
    if [ -n "${SHORT:-}" ] && [[ ! $name =~ ^(memory-wall|zero-3|recomputation|precision)$ ]]; then continue; fi
    case $name in
    capstone | free | nvme | offload | quiz | spmd) continue ;; # they compare measured times: test_lab_times.sh has them
    memory-wall | sixteen-bytes | zero-2-buckets | zero-3) # test_lab_numbers.sh has them, but not with a sanitizer
        [ -n "${SHORT:-}" ] || continue ;;
    hybrid | numerics | overlap | prefetch | quantized) continue ;; # they take long: .ci/run has them, with one and two threads a rank
    esac
    "$zerolab" lab check "$name" >table 2>errors
    ok "$name holds with its right answers, and catches the wrong ones" $?
    tail -n +2 table | cat - errors | sed 's/^/# /'
done

"$zerolab" lab new own/first >/dev/null && "$zerolab" lab check own/first >/dev/null
ok "what lab new writes passes lab check" $?
"$zerolab" lab new own/first 2>errors
[ $? -eq 2 ] && grep -q 'cannot begin' errors
ok "lab new does not write over a lab" $?

"$zerolab" lab print own/first >learner && "$zerolab" lab print own/first --solutions >instructor
[ "$(wc -l <instructor)" -gt "$(wc -l <learner)" ] && ! grep -q 'not known yet' instructor && ! grep -q 'Hint 3' learner && grep -q 'Hint 3' instructor
ok "the learner's hand-out has no answers, the instructor's has" $?

# A folder that somebody left in labs/ does not replace a built-in lab.
"$zerolab" lab new zero-1 2>errors
[ $? -eq 2 ] && grep -q '^zerolab: zero-1 is a lab that comes with the program; give another name$' errors
ok "lab new takes no name of a built-in lab" $?
mkdir -p labs/zero-1 && sed 's/^# .*/# Not the built-in one/' own/first/lab.md >labs/zero-1/lab.md
"$zerolab" lab print zero-1 >built-in 2>errors && ! grep -q 'Not the built-in' built-in &&
    grep -q '^zerolab: zero-1 is the lab that comes with the program; for labs/zero-1/lab.md give its path: labs/zero-1$' errors
ok "labs/zero-1 does not replace the built-in lab, and a line says so" $?
"$zerolab" lab list >list && grep -q "^zero-1 .*the name is a built-in lab's; zerolab lab labs/zero-1 plays this one" list
ok "... in the list too" $?
"$zerolab" lab print labs/zero-1 >by-path 2>errors && grep -q '^# Not the built-in one' by-path && [ ! -s errors ]
ok "... and its path plays it" $?
touch zero-2-buckets && "$zerolab" lab reset zero-2-buckets >table 2>errors
ok "nor does a file of the same name" $?
rm -r labs/zero-1 zero-2-buckets

refused() { # NAME, SED SCRIPT, PATTERN: a fault in the file is refused with that
    mkdir -p faulty
    sed "$2" own/first/lab.md >faulty/lab.md
    "$zerolab" lab check ./faulty >/dev/null 2>errors
    [ $? -eq 2 ] && grep -qE "^zerolab: ./faulty/lab.md:[0-9]+: .*$3" errors
    local status=$?
    ok "$1" $status
    [ $status -eq 0 ] || sed 's/^/# /' errors
}
refused "an unknown metric is refused, and the nearest named" 's/^keep: cut = resting/keep: cut = restin/' 'did you mean resting'
refused "an unknown directive is refused" 's/^look: memory/lok: memory/' 'did you mean look'
refused "an impossible tolerance is refused" 's/within 10%/within 90%/' 'accepts nearly anything'
refused "a negative one is refused" 's/within 10%/within -1%/' 'accepts nothing'
refused "bytes are not compared with numbers" 's/^check: cut < .*/check: cut < 3/' 'bytes are not compared with a plain number; write 4 bytes'
refused "a command that does not exist is refused" 's/^do: stage=3/do: stag=3/' 'stage'
refused "a setting that does not exist is refused" 's/^set: .*/set: stages=1/' 'stage'
refused "a short name that is misspelt is named as one" 's/^set: .*/set: stag=1/' 'stag: unknown key; did you mean stage\?'
refused "a view that does not exist is refused, with its line and those that there are" 's/^look: memory/look: memories/' 'there is no view memories; there are overview, whiteboard, timeline, memory'
grep -q ":$(grep -n '^look:' faulty/lab.md | cut -d: -f1): look" errors
ok "... at its own line" $?
refused "a check's sentence must say something" 's/^check: cut < .*/check: cut > 0 MB |/' 'what a learner sees'
refused "a quiz with two right answers is refused" 's/^- gradients/+ gradients/' 'one of them right'
refused "two hints are too few" '0,/^hint:/{/^hint:/d}' 'three hints'
grep -q ":$(grep -n '^## What happens first' faulty/lab.md | cut -d: -f1): part" errors
ok "... said where their part begins" $?
refused "a task without a solution is refused" '/^solution:/d' 'needs a check: and a solution:'
refused "there are no jumps, so none goes in a circle" 's/^look: memory/goto: 1/' 'there is no directive goto'
refused "nor does a value that is made of itself" 's/^keep: cut = resting/keep: cut = cut + 1 MB/' 'cut'
refused "a difference of which nothing is known" 's/^minutes: .*/&\nelsewhere: volume nonsense/' 'no difference called nonsense'
refused "more steps than anybody would wait for" 's/^do: run 2 steps/do: run 99999999999 steps/' 'run'
refused "an unknown category is refused" 's/resting(optimizer)/resting(optimiser)/' 'does not take this word'

head -c 10485760 /dev/zero | tr '\0' 'x' >faulty/lab.md
"$zerolab" lab check ./faulty >/dev/null 2>errors
[ $? -eq 2 ] && grep -q 'lab.md:1: .*at most 256 KiB' errors
ok "10 MB of text are refused" $?
rm faulty/lab.md
"$zerolab" lab check zero-4 >/dev/null 2>errors
[ $? -eq 2 ] && grep -q 'did you mean zero-' errors
ok "an unknown lab is refused, and the nearest named" $?
"$zerolab" lab gather-cost >table 2>errors
[ $? -eq 2 ] && grep -q 'no labs/gather-cost/lab.md here, and none of that name comes with the program' errors
ok "... or it is said where it was looked for" $?
"$zerolab" lab check labs/nothing/lab.md >table 2>errors
[ $? -eq 3 ] && [ ! -s table ] && [ "$(wc -l <errors)" -eq 1 ]
ok "a path where no lab is gets one line" $?
"$zerolab" lab new mine >/dev/null && mkdir labs/halfway && echo '# H' >labs/halfway/lab.md && "$zerolab" lab list >list
[ $? -eq 0 ] && grep -q '^in labs/ of this folder' list && grep -q '^mine .* 5 min' list && grep -q '^halfway .*labs/halfway/lab.md:1: ' list
ok "labs of the current folder are listed, with what is wrong with one" $?
sed -i 's/^\(check: stage(step 0) == 1\)/\1 | The step ran at stage {stage(step 0)}./' labs/mine/lab.md
"$zerolab" lab check labs/mine/lab.md >table 2>errors && grep -q '^mine .*good' table
ok "a lab is checked by its path, too" $?
"$zerolab" lab print mine --solutions >instructor
grep -q '^- The step ran at stage 1\.$' instructor && ! grep -q 'stage(step 0) == 1' instructor
ok "a check's sentence stands in its place" $?

caught() { # NAME, SED SCRIPT, PATTERN: what only a run can show
    mkdir -p untrue
    sed "$2" own/first/lab.md >untrue/lab.md
    "$zerolab" lab check ./untrue >/dev/null 2>errors
    [ $? -eq 1 ] && grep -qE "untrue/lab.md:[0-9]+: .*$3" errors
    local status=$?
    ok "$1" $status
    [ $status -eq 0 ] || sed 's/^/# /' errors
}
caught "a check that does not hold is caught, with expected, got and where" 's/^check: cut < .*/check: cut < 1 MB/' 'expected less than 1 MB, got 3.34 MB \(step'
caught "a wrong answer that counts as right is caught" 's/^wrong: .* |/wrong: resting |/' 'this wrong answer counts as right'
caught "a prediction without a wrong answer is caught" '/^wrong:/d' 'needs a wrong:'
caught "two wrong answers that are one are caught" 's/^wrong: \(.*\) | .*/&\nwrong: \1 | Again./' 'answers this wrong answer already'
caught "a quiz of two choices is caught" '0,/^- gradients/{/^- gradients/d}' 'needs a third choice'
again='s/^## Do it yourself/## Again\n\npredict: And now?\nanswer: resting in MB\nwrong: 1 MB | No.\nhint: a\nhint: b\nhint: c\n\nexplain:\nIt is the same.\n\n&/'
caught "an answer that an earlier step had is caught" "$again" 'the answer of "What happens first" counts as right too'
sed "$again; s/answer: resting in MB\n/&same: it is\n/" own/first/lab.md >untrue/lab.md && "$zerolab" lab check ./untrue >/dev/null 2>errors
ok "... unless the lab says why" $?
caught "a task that is done before it was begun is caught" 's/^check: stage(step 0) == 1/check: steps > 0/; s/^check: resting(optimizer) ==.*//' 'is done before anything was done'
caught "an action that is refused is caught" 's/^do: stage=3/do: budget=1KiB/' 'refused'
caught "a number that cannot be known is caught" 's/{psi}/{peak}/' 'a number is not known'

# A lab about what another program recorded, held to the job's own counts (truth.json): nothing of it runs.
mkdir -p about/job && ln -s "$root"/tests/foreign/traces/fsdp2-2/rank*.json.gz about/job
cat >about/lab.md <<'END'
# A job
about: Its counts.
minutes: 1
trace: job

## Read

It is read to the end: step {steps}.
keep: parameters = payload(all_gather, forward) / 4 bytes
check: parameters == 134912 within 0
check: count(gather, forward, rank 0) == 3 within 0
check: count(gather, backward, rank 1) == 2 within 0
check: count(reduce) == 3 within 0
check: payload(reduce_scatter) == payload(all_gather, forward) within 0
check: payload(all_gather, backward) == 99968 * 4 bytes within 0
check: sent(all_gather) == payload(all_gather) / 2 within 0
check: peers > 0 s
END
"$zerolab" lab check ./about >table 2>errors && grep -q '^about .*good' table
ok "a lab about another program's job has the counts that the job had" $?
sed 's/^/# /' errors
cp about/lab.md about/whole.md
about() { # NAME, SED SCRIPT, STATUS, PATTERN
    sed "$2" about/whole.md >about/lab.md
    "$zerolab" lab check ./about >/dev/null 2>errors
    [ $? -eq "$3" ] && grep -qE "$4" errors
    local status=$?
    ok "$1" $status
    [ $status -eq 0 ] || sed 's/^/# /' errors
}
about "... nothing runs in it" 's/^keep: .*/do: run 2 steps/' 2 'lab.md:9: .*a trace can only be looked at'
about "... so it has no settings" 's/^trace: job/&\nset: stage=1/' 2 'lab.md:5: set: this lab is about a trace'
about "... nor a setup" 's/^keep: .*/setup: stage=1/' 2 'lab.md:9: setup: this lab is about a trace'
about "... also if they come first" 's/^trace: job/set: stage=1\n&/' 2 'lab.md:5: trace: nothing runs here'
about "a lab about runs has no trace in a part" 's/^trace: job//; s/^keep: .*/trace: job/' 2 'lab.md:9: trace: .*above the first part'
about "a trace lies beside its lab" 's/^trace: .*/trace: ..\/job/' 2 'lab.md:4: trace: ../job: give the name of a file'
about "a trace that is missing is named" 's/^trace: job/trace: job2/' 3 'about/job2'
head -c 3000 "$root/docs/example.zlt" >about/cut.zlt
about "... and so is one that was cut" 's/^trace: job/trace: cut.zlt/' 3 'about/cut.zlt: the trace has no end'
about "what the trace does not say is not made up" 's/{steps}/{psi}/' 1 'a number is not known'
about "... as whose memory it is" 's/^check: peers.*/check: peak(parameters) >= 0 bytes/' 1 'does not say peak of a category'
about "... or what compute waited for" 's/^check: peers.*/check: stalled >= 0 s/' 1 'does not say stalled'

kept=$XDG_STATE_HOME/zerolab
mkdir -p $kept/labs && touch $kept/labs/mine-alone.json $kept/labs/zero-1.json $kept/tour
"$zerolab" lab reset
ok "reset forgets all labs, also those that are the learner's own" $?
[ -z "$(ls $kept/labs)" ] && [ -e $kept/tour ]
ok "... and nothing else" $?
"$zerolab" lab reset >/dev/null && "$zerolab" lab reset zero-1 >/dev/null
ok "reset forgets what is not there" $?
finish
