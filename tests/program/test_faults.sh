#!/bin/bash
# Faults that a learner injects into one rank: who waits for a held rank is shown, and its release changes no bit; a NaN and a lack of
# memory on one rank are an outcome of all. The trace says each time that the fault was injected.
. "$(dirname "$0")/../support/screen.sh"
config="$root/configs/nano-stage3.json $tiny $threads -n 3"

check "a plain run" train plain $config --steps 4
start 80 24 TERM=screen-256color -- "$zerolab" train $config --steps 4 --at 2:pause --report held.json --trace held.zlt
waits_for "paused before step 2" 'PAUSED'
keys : 'fault held 1' Enter .
waits_for "one rank is held: which one has not come, and where" 'rank 1 has not come to gather embed'
waits_for "... and that it is a fault" 'rank 1 held'
keys T
waits_for "... the timeline stands in that step" 'rank 0 (comm|compute) . step 2, forward'
keys : 'fault none' Enter
waits_for "released: the step ends" 'PAUSED +after one step'
keys , ,
waits_for "within a step" 'before op 1 '
keys : 'fault held 2' Enter .
waits_for "... a rank is held where it is" 'rank 2 has not come to'
keys : 'fault none' Enter
waits_for "... and released" 'PAUSED +after one step'
keys Space
waits_for "the run ends" 'ENDED'
keys q
waits_for "... and the program" 'status 0'
check "the same bits" same_bits plain held
check "the report says that it was injected, and where" grep -qE 'injected: rank 1 is held before operation [01], ' held.json
held_within() { grep -q 'injected: rank 2 is held before' held.json && ! grep -q 'rank 2 is held before operation 0,' held.json; }
check "... the second within its step" held_within
check "the whole trace" "$zerolab" check -o checked held.zlt

"$zerolab" train $config --headless --steps 4 --at "2:fault=held 0" >out 2>err </dev/null &
front=$!
check "without a screen, also rank 0" eventually grep -qE '^for [0-9]+ s: rank 0 has not come to gather embed; 2 ranks wait there in step 2' out
kill -INT $front
wait $front
check "... a signal ends the run" [ $? -eq 0 ]
check "... after its step" grep -q '^stopped after step 2' out
"$zerolab" train $config --headless --steps 4 --set topology.ranks_as=processes --at "2:fault=held 1" >out 2>err </dev/null &
front=$!
check "ranks as processes" eventually grep -q "rank 1 has not come to gather embed" out
ranks=($(children "$(children $front | tr -d " ")"))
kill -9 "${ranks[2]}"
wait $front
check "... end when another rank is killed" [ $? -eq 4 ]
check "... which is said" grep -qE 'rank 2.* signal 9' err

check "a NaN on one rank, where such steps are skipped" train nan $config --steps 4 --set bf16.enabled=true --at "2:fault=nan 1"
check "... is injected" grep -q 'fault: injected: rank 1 writes a NaN' nan.out
check "... all skip the step, and the rank is named" grep -q 'step 2: overflow: .*, rank 1$' nan.out
check "... this one alone" [ "$(grep -c '"skipped":.*true' nan.json)" -eq 1 ]
"$zerolab" train $config --headless --steps 4 --at "2:fault=nan 1" >out 2>err
check "where they are not, the run ends on all" [ $? -eq 4 ]
check "... with rank and tensor" grep -q "only rank 1's own loss is not finite; first tensor that is not finite: gradient of embed wte" err

check "too little memory on one rank" train short $config --steps 4 --at "3:fault=short 2" --at oom:fault=none
check "... all wait, and the rank is named" grep -q '^step 3: oom: .*refused on rank 2$\|^oom: .*refused on rank 2$' short.out
check "... and the step is taken again with the same bits" same_bits plain short
check "a rank that is not there" train no $config --steps 2 --at "2:fault=short 3"
check "... is refused" grep -q 'refused: fault: there are ranks 0 to 2' no.out
finish
