#!/bin/bash
# `zerolab bench`: it measures every audience, the view among them, says so, and leaves nothing behind.
. "$(dirname "$0")/../support/tap.sh"

"$zerolab" bench -n 2 --rounds 1 --set model.layers=1 >out 2>err </dev/null
check "it ends well" [ $? -eq 0 ]
check "... without a word of error" [ ! -s err ]
row() { grep -qE "^  $1 +[0-9.]+ ms" out; }
ratios() { grep -qE "^  $1 +[0-9.]+ ms +[0-9.]+ +\([0-9.]+ to [0-9.]+\) +[0-9.]+ +\([0-9.]+ to [0-9.]+\)" out; }
check "steps to which nobody listens" row nobody
for audience in "rings in memory" "a trace file" "and a view of 80x24" "and a view of 200x60"; do
    check "$audience, against them" ratios "$audience"
done
check "records of a step" grep -qE '^a step is [1-9][0-9,]* records of [1-9][0-9,]* bytes' out
check "no ring was too small" sh -c '! grep -q "had no room" out'
drawn() { sed -nE "s/^  a view of $1 takes .* draws with ([0-9]+) bytes.*/\\1/p" out; }
draws_more() { # of one round each: a view that had no processor for half a second says nothing
    for attempt in 1 2 3; do
        [ "$(drawn 200x60)" -gt "$(drawn 80x24)" ] && return
        "$zerolab" bench -n 2 --rounds 1 --set model.layers=1 >out </dev/null || return 1
    done
    return 1
}
check "the larger view draws more" draws_more
check "nothing is left in the runtime folder" [ -z "$(ls -A "$XDG_RUNTIME_DIR")" ]
"$zerolab" bench -n 1 --rounds 1 --set model.layers=1 --json >json 2>err </dev/null
check "--json: of a step, what had no room too" grep -q '"lost":' json
check "... what the view takes while nothing happens" grep -q '"idle_share":' json
figures() { grep -c "\"$1\":" json; }
check "... the writer's time where a trace is written" [ "$(figures writer_seconds)" -eq 3 ]
check "... the view's where one looks" [ "$(figures view_seconds) $(figures screen_bytes_per_second)" = "2 2" ]
"$zerolab" bench --rounds 0 2>err
check "no rounds are refused" [ $? -eq 2 ]
"$zerolab" bench --set topology.ranks_as=processes 2>err
check "ranks that are processes are refused" [ $? -eq 2 ]
check "... by name" grep -q 'topology.ranks_as: the ranks of a bench are threads' err
"$zerolab" bench -o /nosuch/file 2>err >measured
check "a file that cannot be written is refused" [ $? -ne 0 ]
check "... by name" grep -q '/nosuch/file' err
check "... before measuring" [ ! -s measured ]
finish
