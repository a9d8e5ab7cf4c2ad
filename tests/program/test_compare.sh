#!/bin/bash
# `zerolab compare`: two traces on one screen (each frame a file in tests/golden/compare: ACCEPT=1 writes them anew), or one
# configuration trained twice; and whether each figure that the screen highlights is one of `analyze --diff`, formatted here a second
# time.
. "$(dirname "$0")/../support/tap.sh"
export LC_ALL=C.UTF-8

traces=$root/tests/reference golden=$root/tests/golden/compare
compare() { "$zerolab" compare "$@"; }

# ---- frames

frame() { # PAIR VIEW SIZE AT: makes $work/frame, and says whether it is the accepted one
    local a b file=$golden/$1-$2-$3.txt
    case $1 in
    stages) a=$traces/stage1.zlt b=$traces/stage3.zlt ;;
    prefetch) a=$traces/no-prefetch.zlt b=$traces/stage3.zlt ;;
    esac
    compare "$a" "$b" --frame "$3" --view "$2" --at "$4" >frame || return 1
    if [ -n "${ACCEPT:-}" ]; then cp frame "$file"; fi
    diff "$file" frame | sed 's/^/# /'
    cmp -s "$file" frame
}
for pair in stages prefetch; do
    "$zerolab" analyze "$traces/$([ $pair = stages ] && echo stage1 || echo no-prefetch).zlt" --diff "$traces/stage3.zlt" --json >$pair.json
    ok "the traces of $pair differ" $(($? != 1))
    for size in 80x24 120x40 200x60; do
        for view in whiteboard timeline memory; do
            at=step:2
            [ $view = whiteboard ] && at=step:2.9
            check "$pair, $view, $size" frame $pair $view $size $at
        done
    done
done

# The figures of a golden frame, a line each: "LABEL = A → B"; a label that leaves out what the one before has is completed.
highlighted() { # FILE
    awk '/^ A → B \(/ { on = 1; sub(/^ A → B \(.*\):/, "") }
         /^ [^ ].*\? help/ { on = 0 }
         on { sub(/  \+[0-9]+ more *$/, ""); print }' "$1" | sed 's/^ *//; s/ *$//; s/   */\n/g' | grep '→' |
        sed -E 's/^(.*[a-z]) ((n\/a|[-0-9,.]+( ms| %)?) → .*)$/\1 = \2/' |
        awk -F ' = ' '$1 ~ / at peak$/ { before = $1; sub(/: .*/, "", before); print; next }
                      $1 !~ /:/ && before != "" && $1 ~ /^[a-z]+$/ && $1 != "step" && $1 != "exposed" {
                          print before ": " $1 " at peak = " $2; next }
                      { print }'
}

# What differs by the JSON, in the same form.
differs() { # FILE
    jq -r '.sections[0][] | select(.equal | not) | [.figure, .unit, .a // "n/a", .b // "n/a"] | @tsv' "$1" |
        awk -F '\t' 'function grouped(n,  text, out) {
                         text = sprintf("%.0f", n)
                         for (; length(text) > 3; text = substr(text, 1, length(text) - 3))
                             out = "," substr(text, length(text) - 2) out
                         return text out }
                     function show(unit, n) {
                         if (n == "n/a") return n
                         if (unit == "bytes") return grouped(n)
                         if (unit == "ms") return sprintf("%.3f ms", n)
                         if (unit == "share") return sprintf("%.1f %%", 100 * n)
                         return n == int(n) ? sprintf("%d", n) : sprintf("%.2f", n) }
                     { print $1 " = " show($2, $3) " → " show($2, $4) }'
}

every_highlight_is_a_difference() { # PAIR SIZE LEAST
    highlighted "$golden/$1-whiteboard-$2.txt" >shown
    differs "$1.json" >differ
    [ "$(wc -l <shown)" -ge "$3" ] || { sed 's/^/# /' shown; return 1; }
    ! grep -vxFf differ shown | sed 's/^/# not in analyze --diff: /' | grep .
}
if command -v jq >/dev/null; then
    for pair in stages prefetch; do
        check "$pair, 80x24: every highlighted figure is one of analyze --diff" every_highlight_is_a_difference $pair 80x24 3
        check "$pair, 200x60: so it is" every_highlight_is_a_difference $pair 200x60 6
    done
    peaks_are_shown() {
        highlighted "$golden/stages-whiteboard-200x60.txt" >shown
        differs stages.json | grep -E '^device: .* at peak' >peaks
        [ "$(wc -l <peaks)" -ge 4 ] && ! grep -vxFf shown peaks | sed 's/^/# not highlighted: /' | grep .
    }
    check "200x60: all device memory that differs is highlighted" peaks_are_shown
else skip "highlighted figures" "jq is needed"; fi

# ---- JSON, and what is no comparison

is_diff() {
    compare "$traces/stage1.zlt" "$traces/stage3.zlt" --json >json
    [ $? = 1 ] && "$zerolab" analyze "$traces/stage1.zlt" --diff "$traces/stage3.zlt" --json | cmp - json
}
check "--json is that of analyze --diff, with its exit status" is_diff
if command -v jq >/dev/null; then
    # The losses of both by step, from the reports' own source: the traces.
    losses_are_those_of_the_traces() {
        "$zerolab" analyze "$traces/hybrid.zlt" --json >a.json && "$zerolab" analyze "$traces/zeropp.zlt" --json >b.json
        compare "$traces/hybrid.zlt" "$traces/zeropp.zlt" --json >losses.json
        jq -e --slurpfile a a.json --slurpfile b b.json '.losses | length == 2 and .[0].step == 1 and .[1].step == 2
            and .[0].a == $a[0].sections[0].first_loss and .[1].a == $a[0].sections[0].last_loss
            and .[0].b == $b[0].sections[0].first_loss and .[1].b == $b[0].sections[0].last_loss
            and all(.[]; .difference == .b - .a and (.relative - .difference / .a | fabs) < 1e-9)' losses.json >/dev/null
    }
    check "the losses of each step, and what B's are more" losses_are_those_of_the_traces
    loss_is_shown() {
        local line=$(jq -r '.losses[1] | "\(.step) \(.difference) \(.relative)"' losses.json | awk '{ printf "step %s: %+.4f (%+.3g %%)", $1, $2, 100 * $3 }')
        compare "$traces/hybrid.zlt" "$traces/zeropp.zlt" --frame 80x24 --at step:2 | grep -qF "loss B - A $line"
    }
    check "... on the screen" loss_is_shown
else skip "losses of two runs" "jq is needed"; fi
check "... which is 0 for equal traces" eval 'compare "$traces/stage3.zlt" "$traces/stage3.zlt" --json >out && grep -q "\"equal\":.*true" out'
check "equal traces: nothing differs" eval 'compare "$traces/stage3.zlt" "$traces/stage3.zlt" --frame 80x24 | grep -q "nothing differs"'

by() { # WHAT: the moments of both, A 30 ms into step 2
    compare "$traces/no-prefetch.zlt" "$traces/stage3.zlt" --by "$1" --at step:2 --frame 80x24 | grep -oE '(within|after) step [0-9] · [0-9.]+ s'
}
by step >step && by time >time
check "--by step: both have ended step 2" eval '[ "$(grep -c "^after step 2 " step)" = 2 ]'
check "--by time: both are as far from their begins" eval \
    '[ "$(sed "s/.* · //" time | sort -u | wc -l)" = 1 ] && [ "$(sed "s/.* · //" step | sort -u | wc -l)" = 2 ]'

says() { # STATUS TEXT ARGS...
    local status=$1 text=$2
    shift 2
    compare "$@" >out 2>err </dev/null
    [ $? = "$status" ] && grep -qF -- "$text" err || { sed 's/^/# /' err; return 1; }
}
one=$traces/stage1.zlt
check "one trace alone" says 2 "compare needs two traces, two runs, or --b KEY=VALUE" "$one" --frame 80x24
check "no trace" says 3 "none.zlt" "$one" none.zlt --json
check "no run of that number" says 2 "run 123 goes on; --frame and --json are for traces" "$one" 123 --json
check "another --by" says 2 "--by op: give step or time" "$one" "$one" --by op --json
check "--set of two traces" says 2 "are for one CONFIG, which is trained twice" "$one" "$one" --b a=1 --json
as_task() { OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0 says "$@"; }
check "in another mpirun" as_task 2 "compare trains two runs; start it once, without mpirun or srun" "$root/configs/nano.json" --b zero_optimization.stage=1 --frame 80x24
check "--view without --frame" says 2 "belong to --frame" "$one" "$one" --view memory --json
cp "$one" copy.zlt
check "an output onto B" says 2 "copy.zlt cannot be both B and --output" "$one" copy.zlt --json -o copy.zlt
check "... which is as it was" cmp "$one" copy.zlt
check "an unknown view" says 2 "there is no view compare" "$one" "$one" --view compare --frame 80x24
check "a step that A has not" says 2 "there is no step 9" "$one" "$one" --at step:9 --frame 80x24
check "a screen without a terminal" says 2 "are not a terminal" "$one" "$one"

# ---- one configuration, trained twice

export TMPDIR=$work/tmp && mkdir "$TMPDIR"
# shellcheck disable=SC2086
twice() { compare "$root/configs/nano.json" $tiny $threads --steps 2 --set zero_optimization.stage=1 --b zero_optimization.stage=3 "$@" 2>err; }
check "one after the other" eval 'twice --frame 80x24 >frame; grep -q "nano.json .*stage 1" frame && grep -q "nano.json .*stage 3" frame'
check "... both of two steps" eval '[ "$(grep -c "after step 2" frame)" = 2 ]'
check "... which standard error names" eval '[ "$(grep -c "^training run [AB]: nano.json .*stage=[13]$" err)" = 2 ]'
check "at once, as JSON" eval 'twice --at-once --json >json; [ $? = 1 ] && grep -q "\"key\":.*\"zero_optimization.stage\"" json'
check "a key that is none" says 2 "zero_optimization.stag: unknown key" --set model.name=nano --b zero_optimization.stag=3 --json
check "... of which run" grep -q "run B failed" err
check "no file is left" eval '[ -z "$(ls -A "$TMPDIR")" ]'

finish
