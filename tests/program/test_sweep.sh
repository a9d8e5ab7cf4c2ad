#!/bin/bash
# `zerolab plan --sweep` from the command line: forms of output, where they go, and one line for what cannot be asked. What the figures
# are is tests/unit/test_sweep.c's.
. "$(dirname "$0")/../support/tap.sh"

two="--sweep zero_optimization.stage=0..3 --sweep topology.ranks=1,3,4,8"
plan() { "$zerolab" plan "$@"; }

# refuses WORDS ARGS...: status 2, nothing printed, one line with these words
refuses() {
    "$zerolab" plan "${@:2}" >out 2>err
    local status=$?
    [ $status -eq 2 ] && [ ! -s out ] && [ "$(wc -l <err)" -eq 1 ] && grep -qF -- "$1" err ||
        { echo "# status $status: $(cat err)"; return 1; }
}

check "a table and charts as text" eval 'plan --model nano $two >text 2>err && [ ! -s err ]'
check "... a row for each combination" [ "$(grep -cE '^[0-3]  +[1348] ' text)" -eq 16 ]
check "... six charts" [ "$(grep -cE '^(Memory|Bytes|Peak|Communication)' text)" -eq 6 ]
check "... in 80 columns" eval '! grep -qE "^.{81}" text'
plan --model nano $two -U >ascii
check "... in ASCII" eval '! LC_ALL=C grep -q "[^ -~]" ascii'
check "... of another size" eval 'plan --model nano $two --frame 120x40 | grep -qE "^.{100,120}$"'
plan --model nano $two --set topology.ranks_per_node=2 >nodes
check "what is refused keeps its row" [ "$(grep -c 'refused: topology.ranks_per_node = 2: must divide' nodes)" -eq 8 ]
check "... traffic across nodes has a chart" grep -q "by link" nodes
check "a chart too wide for the frame says how wide it is" eval \
    'plan --model nano --sweep data.seed=1..40 --sweep zero_optimization.stage=0..3 | grep -q "does not fit 80 x 20; .* 210 columns"'

plan --model nano $two --set topology.ranks_per_node=2 --as svg -o a.svg
plan --model nano $two --as html -o a.html
sed -n '/^<figure/,/<\/svg>/p' a.html | sed 's/<figure[^>]*>//; s/<output.*//; 1i <all>' >figures.xml
echo "</all>" >>figures.xml
if command -v xmllint >/dev/null; then
    check "SVG is well-formed" xmllint --noout a.svg
    check "... in the page, too" xmllint --noout figures.xml
else
    skip "SVG is well-formed" "no xmllint"
fi
check "... with a title and a description for each chart" [ "$(grep -c '<desc>' a.svg)" -eq "$(grep -c 'class="chart"' a.svg)" ]
check "the page has charts, the table, both grounds and a policy" eval \
    'for has in "<figure tabindex" "<table>" "prefers-color-scheme:dark" "Content-Security-Policy"; do grep -qF "$has" a.html || exit 1; done'
check "nothing refers to another place" eval \
    '! sed "s|http://www.w3.org/2000/svg||g" a.svg a.html | grep -qE "https?:|href|src=|url\(|@import"'
cp "$ZEROLAB_CONFIG" "x<y&z.json"
plan "x<y&z.json" --sweep topology.ranks=1,2 --as html -o b.html
check "a name with signs of markup stays text" grep -qF '<h1>zerolab plan: x&lt;y&amp;z.json' b.html

check "CSV is one line for each combination" [ "$(plan --model nano $two --as csv | wc -l)" -eq 17 ]
check "a file from a pipe is read once" eval 'plan <(cat "$ZEROLAB_CONFIG") --sweep topology.ranks=1,2 --as csv >piped'
check "... and is the same" eval 'plan "$ZEROLAB_CONFIG" --sweep topology.ranks=1,2 --as csv | cmp - piped'
check "a swept model needs no other" eval 'plan --sweep model.name=nano,micro --json >models.json'
check "... and is planned as --model plans it" eval \
    'for m in nano micro; do grep -q "\"device_peak_bytes\":$(plan --model $m --json | tr -d "\t " | grep -oE "\"peak_bytes\":[0-9]+" | tail -1 | cut -d: -f2)," <(tr -d "\t " <models.json) || exit 1; done'

member() { tr -d '\t ' | grep -oE "\"$1\":[0-9.e+-]+" | cut -d: -f2; }
plan --model gpt2 --hardware a100 --sweep topology.ranks=4,16 --sweep zero_optimization.stage=1,3 --json >timed.json
for member in seconds_per_step tokens_per_second mfu exposed_seconds; do
    for ranks in 4 16; do
        for stage in 1 3; do
            "$zerolab" simulate --model gpt2 --hardware a100 -n $ranks --set zero_optimization.stage=$stage --json | member $member
        done
    done >alone
    check "$member is what simulate says" eval 'member $member <timed.json | cmp - alone && [ "$(sort -u alone | wc -l)" -ge 3 ]'
done
plan --model gpt2 --hardware a100 --sweep topology.ranks=4,12,16 --sweep zero_optimization.stage=1,3 >timed
check "charts of time say that they are simulated" [ "$(grep -cE '^(Time|Tokens|Model|Seconds).* SIMULATED' timed)" -eq 4 ]
check "ranks that do not fill nodes are refused in their row" grep -q '^12 .*refused: 12 ranks do not fill nodes of 8' timed
check "memory of the device is the budget" grep -q "budget 80 GB" timed
check "a bucket size has its knee" eval \
    'plan --model nano --hardware v100 -n 64 --sweep zero_optimization.reduce_bucket_size=1e4,1e5,1e6,1e7 | grep -q "^  knee 1e6"'
check "no chart of time without hardware" eval '! grep -q SIMULATED text'
check "refused: no such hardware" refuses "nothing" --model nano $two --hardware nothing
check "refused: hardware without a sweep" refuses "belongs to --advise and --sweep" --model nano --hardware a100

check "refused: no values" refuses "give KEY=A,B" --model nano --sweep topology.ranks
check "refused: an unknown key" refuses "did you mean zero_optimization.stage" --model nano --sweep zero_optimization.stag=1
check "refused: a value twice" refuses "value 2 is there twice" --model nano --sweep topology.ranks=2,2
check "refused: an empty value" refuses "value 2 is empty" --model nano --sweep topology.ranks=2,,3
check "refused: a negative value" refuses "topology.ranks = -1" --model nano --sweep topology.ranks=-1
check "refused: NaN" refuses "nan" --model nano --sweep gradient_clipping=nan
check "refused: no row is left" refuses "every combination is refused" --sweep model.name=nona,nane
check "refused: a key that is set as well" refuses "leave one out" --model nano --sweep topology.ranks=1,2 -n 4
check "... with --set" refuses "leave one out" --model nano --sweep topology.ranks=1,2 --set topology.ranks=3
check "... by --model" refuses "leave one out" --model nano --sweep model.name=nano,micro
check "sizes of a model need no other" eval 'plan --set model.hidden=256 --sweep model.layers=1,2 >sizes.txt'
check "refused: no model" refuses "or sweep model.name" --sweep topology.ranks=1,2
check "refused: four keys" refuses "more than 3 times" --model nano $two --sweep data.seed=1,2 --sweep model.heads=1,2
check "refused: with another question" refuses "not two of them" --model nano $two --fit
check "refused: an unknown form" refuses "give text, svg, html or csv" --model nano $two --as pdf
check "refused: two forms" refuses "give --json or --as" --model nano $two --as csv --json
check "refused: a frame too small" refuses "from 40x12" --model nano $two --frame 39x12
check "refused: a form without a sweep" refuses "belong to --sweep" --model nano --as csv
check "refused: a file that is not there" eval 'plan no.json $two >out 2>err; [ $? -eq 3 ] && [ "$(wc -l <err)" -eq 1 ]'
finish
