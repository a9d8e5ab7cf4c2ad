#!/bin/bash
# The program as scripts see it: exit status and one line for everything that is wrong with a command line or its input.
. "$(dirname "$0")/../support/tap.sh"

# refuses STATUS "text in the line" ARGS...
refuses() {
    local want=$1 text=$2
    shift 2
    "$zerolab" "$@" >out 2>err </dev/null
    local status=$?
    [ $status -eq "$want" ] || { echo "# exit status $status: $(cat err)"; return 1; }
    [ "$(wc -l <err)" -eq 1 ] || { echo "# not one line: $(cat err)"; return 1; }
    grep -qF -- "$text" err || { echo "# said: $(cat err)"; return 1; }
}
says() {
    local text=$1
    shift
    "$zerolab" "$@" </dev/null 2>&1 | grep -qF -- "$text"
}

check "help of the program" says "zerolab train" --help
check "help of a subcommand" says "--frame" replay --help
check "version" says "zerolab 0" --version
check "accountings are listed in groups" says "Megatron-LM" plan --accounting
check "a formula with its numbers" says "2 psi/mp = 2×1000/4" plan --accounting zero-states --with psi=1000 --with tp=4,N=2
check "a formula as JSON" says '"accounting":500,"engine":null' plan --accounting zero-states --with psi=1000,tp=4 --json
check "no such accounting, nearest named" refuses 2 "did you mean zero-states?" plan --accounting zero-stats
check "a quantity that a formula lacks" refuses 2 "zero-states has no algbw; it has psi" plan --accounting zero-states --with algbw=3
check "quantities without an accounting" refuses 2 "--with gives quantities" plan configs/nano.json --with tp=2
check "quantities of a count of arrays" refuses 2 "paper16 has no formulas" plan --accounting paper16 --with tp=2
check "unknown command, nearest named" refuses 2 "did you mean train?" trian
check "unknown option, nearest named" refuses 2 "did you mean --headless?" train --headles
check "option of another command" refuses 2 "option of zerolab replay" train --frame 80x24
check "no operand" refuses 2 "zerolab check needs FILE" check
check "a number that is none" refuses 2 "whole number" train --steps many
check "unknown key, nearest named" refuses 2 "reduce_bucket_size" train --headless --set zero_optimization.reduce_bucket_sze=5
check "unknown stage" refuses 2 "stage" train --headless --set zero_optimization.stage=4
check "unknown command of --at" refuses 2 "did you mean" train --headless --at 3:stgae=1
check "--at before the first step of a recorded run" refuses 2 "steps from 1 on" replay "$root/docs/example.zlt" \
    --frame 80x24 --at step:-1
check "--at after the last step" refuses 2 "after the last step" train --headless --steps 5 --at 6:stage=1
check "missing configuration" refuses 3 "nosuch.json" train --headless nosuch.json
echo '{"zero_optimization": {"stage": 1,,}' >bad.json
check "configuration that is not JSON" refuses 3 "bad.json" train --headless bad.json
# Without CONFIG: configs/teach.json, or the file in ZEROLAB_CONFIG, whose keys can be set, too.
of_model() { train of --steps 1 $threads "${@:3}" && [[ $(tr -d ' \t\n' <of.json) == *"\"name\":\"$1\",\"parameters\":$2"* ]]; }
default() { (unset ZEROLAB_CONFIG && of_model "$@"); }
check "without CONFIG: teach" default teach 2485056
check "... of which keys can be set" default micro 10795008 --set model.name=micro
check "... or the file in ZEROLAB_CONFIG" of_model nano 834304
check "... which a CONFIG overrides" of_model teach 2485056 "$root/configs/teach.json"
check "... of which keys are named with it" refuses 2 "the default with --set: zero_optimization.stage" train --headless --set zero_optimization.stage=4
ZEROLAB_CONFIG=nosuch.json check "... which is missing" refuses 3 "nosuch.json" train --headless
check "missing text" refuses 3 "nosuch.txt" train --headless --set data.path=nosuch.txt
: >empty.txt
check "empty text" refuses 3 "empty.txt" train --headless --set data.path=empty.txt
check "a vocabulary that does not fit" refuses 2 "vocabulary" train --headless --set model.vocabulary=100
: >empty.json
check "an empty configuration" refuses 3 "empty.json: empty" train empty.json --headless
check "a switch for a section" refuses 2 "did you mean bf16.enabled" train --headless --set bf16=true
check "a learning rate that is none" refuses 2 "must be a number 0..1000" train --headless --set optimizer.params.lr=1e300
check "a trace that is none" refuses 3 "bad.json" check bad.json
check "a model that outgrows the machine" refuses 2 "do not fit into" train --headless --set model.hidden=65536 --set model.heads=1 --set model.layers=1000
check "a micro-batch that outgrows the machine" refuses 2 "do not fit into" train --headless --set train_micro_batch_size_per_gpu=1000000
check "one file for trace and report" refuses 2 "two files" train --headless --steps 1 -n 1 --trace same --report same
check "a missing trace" refuses 3 "nosuch.zlt" replay nosuch.zlt --frame 80x24
echo plain >plain.txt
check "replay without a terminal" refuses 2 "terminal" replay plain.txt
check "a report that cannot be written" refuses 2 "/nosuch/r.json" train --headless --steps 1 -n 1 --report /nosuch/r.json
check "a trace that cannot be written" refuses 2 "/nosuch/t.zlt" train --headless --steps 1 -n 1 --trace /nosuch/t.zlt
check "a refused run" refuses 2 "/nosuch/r.json" train --headless --steps 1 -n 1 --trace left.zlt --report /nosuch/r.json
check "... leaves no empty file" [ ! -e left.zlt ]
echo old >kept.zlt
check "another" refuses 2 "/nosuch/r.json" train --headless --steps 1 -n 1 --trace kept.zlt --report /nosuch/r.json
check "... leaves a file that was there as it was" grep -q old kept.zlt
check "no run to attach to" refuses 3 "no run goes on" attach
check "a run that is none" refuses 3 "no run 1 goes on" attach 1

check "knobs that hide a stage are named" says "nothing is released, because stage3_max_reuse_distance" train --headless -n 1 --steps 1 --set zero_optimization.stage=3 --set zero_optimization.stage3_max_reuse_distance=1e9
check "the bare program trains and says where to look" says "zerolab replay $work/.local/state/zerolab/last.zlt" -n 1 --steps 3
check "... and trains where nothing can be left" env HOME=/proc "$zerolab" -n 1 --steps 1 >out 2>&1 </dev/null
last=.local/state/zerolab/last
check "its trace is whole" says "ended: finished" check $last.zlt
check "its report too" grep -q '"outcome":.*"finished"' $last.json
check "its trace can be shown" says "step 3" replay $last.zlt --frame 100x30
head -c $(($(stat -c %s $last.zlt) * 2 / 3)) $last.zlt >torn.zlt
check "a torn trace is told from a whole one" says "cut off" check torn.zlt
"$zerolab" check torn.zlt >out 2>&1
check "... by status 1" [ $? -eq 1 ]
check "... and can be shown" says "zerolab" replay torn.zlt --frame 100x30
# 16,384 tokens are 16 samples here, and a batch of all ranks has 20.
check "validation takes a batch of all ranks at least" train long $threads --steps 1 --set model.name=custom --set model.layers=1 --set model.hidden=32 \
    --set model.heads=2 --set model.vocabulary=257 --set model.context=1024 --set data.sequence_length=1024 --set train_micro_batch_size_per_gpu=5
check "... of 1,024 tokens each" grep -q 'validation loss .* over 20480 tokens' long.out
check "before the first step there is nothing to compare it with" train early $threads --steps 1 --at 1:validate
check "... and that is said" grep -q 'validate refused: .*: train a step first' early.out
check "nothing is left in the runtime folder" [ -z "$(ls -A "$XDG_RUNTIME_DIR")" ]
finish
