#!/bin/bash
# `zerolab plan --sweep --live` in a terminal: charts, knobs, what a turned knob plans, sizes, and every way out.
. "$(dirname "$0")/../support/screen.sh"

sweep="--model gpt2 --sweep zero_optimization.stage=0..3 --sweep topology.ranks=2,4,8"
live() { # COLUMNS ROWS ENVIRONMENT... -- OPTIONS...
    local columns=$1 rows=$2 environment=()
    shift 2
    while [ "$1" != -- ]; do environment+=("$1"); shift; done
    shift
    # shellcheck disable=SC2086
    start "$columns" "$rows" TERM=screen-256color "${environment[@]}" -- "$zerolab" plan $sweep --live "$@"
}
# What the line below the chart must say of a peak: "4.525 GB".
peak() { # stage, ranks, SETTINGS...
    local sets=("${@:3}")
    "$zerolab" plan --model gpt2 -n "$2" --set zero_optimization.stage="$1" "${sets[@]/#/--set=}" --json |
        tr -d ' \n' | sed 's/.*"tier":"device"[^}]*"peak_bytes":\([0-9]*\).*/\1/' | awk '{ printf "%.4g GB", $1 / 1e9 }'
}

live 80 24 --
waits_for "a chart and its number" 'PLANNED  chart 1 of 6 '
waits_for "knobs beside it, the first one chosen" '>\*stage +< 0 >'
waits_for "... the others as configured" ' micro-batch +4$'
waits_for "the figures of the first combination" "^stage 0, ranks 2: device peak $(peak 0 2), sends "
keys Right Right Down Right
waits_for "a swept knob chooses the combination" "^stage 2, ranks 4: device peak $(peak 2 4), sends "
keys Down + +
waits_for "a turned knob has a new value" '>micro-batch +< 16 >'
waits_for "... and all is planned with it" "^stage 2, ranks 4: device peak $(peak 2 4 train_micro_batch_size_per_gpu=16), "
keys - Down Down Down Right Right
waits_for "several knobs at once" '>recompute +< full >'
waits_for "... are planned together" \
    "^stage 2, ranks 4: device peak $(peak 2 4 train_micro_batch_size_per_gpu=8 model.recompute=full), "
keys Down Right Up Up Up Up Up Up Left Left
waits_for "what cannot be says why" 'ranks 4: refused: zero_optimization.offload_optimizer: stage 0 does not$'
waits_for "... and the chart marks it" '×'
keys Up
waits_for "from the first knob up to the last" '>prefetch bucket +< [0-9]+ >'
keys Tab
waits_for "Tab shows the next chart" 'chart 2 of '
keys BTab BTab
waits_for "Shift-Tab the one before, round the end" 'chart ([0-9]) of \1 '
keys 3
waits_for "a number its chart" 'chart 3 of '
keys '?'
waits_for "help lists the keys" 'Right \+ '
waits_for "... of this screen alone" '!whiteboard'
keys q
waits_for "q closes help" 'chart 3 of '
tm resize-window -t 0 -x 120 -y 40
waits_for "a larger terminal" '^.{84}─ knobs ─{28}$'
ok "... has its keys in the last row" "$(screen | sed -n 40p | grep -q '^ q quit'; echo $?)"
tm resize-window -t 0 -x 200 -y 60
waits_for "... and a very large one" '^.{164}─ knobs ─{28}$'
tm resize-window -t 0 -x 60 -y 20
waits_for "one that is too small says so" 'terminal too small'
tm resize-window -t 0 -x 80 -y 24
waits_for "... and comes back" 'chart 3 of '
keys C-z
waits_for "Ctrl-Z suspends" 'SUSPENDED'
keys Enter
waits_for "... and fg comes back" 'chart 3 of '
keys q
waits_for "q leaves" '^status 0$'
waits_for "the terminal is as before" 'modes restored'
waits_for "... with its screen" 'FIRST SCREEN'

live 80 24 -- --hardware t4
waits_for "with hardware there are times" 'token/s, MFU 0\.'
took() { screen | tr '\n' ' ' | grep -oE '[0-9.]+ m?s SIMULATED'; }
slow=$(took)
keys Up Right Right Right
waits_for "hardware is a knob" '>hardware +< h100 >'
eventually eval '[ "$(took)" != "$slow" ]'
ok "... that changes times" $?
kill -TERM "$(program_pid)"
waits_for "SIGTERM leaves" '^status '
waits_for "... and restores the terminal" 'modes restored'

live 120 30 -- --sweep gradient_accumulation_steps=1,2
waits_for "a third key is a knob" ' \*gradient_accumulation_steps +1$'
waits_for "... with a chart for each value" 'device tier; gradient_accumulation_steps 1 '
keys Down Down Right
waits_for "... of which one is shown" 'device tier; gradient_accumulation_steps 2 '
keys C-c
waits_for "Ctrl-C leaves" '^status 0$'

start 80 24 TERM=screen-256color -- "$zerolab" plan --model gpt2 --sweep data.seed=1..12 --sweep zero_optimization.stage=0..3 --live
waits_for "a wide chart takes the place of the knobs" '^ +1 +2 +3 .* 11 +12$'
waits_for "... but for the chosen one" '^>\*seed .* < 1 >$'

live 80 24 NO_COLOR=1 -- -U
waits_for "in ASCII" '- knobs -+$'
eventually eval '! screen | LC_ALL=C grep -q "[^ -~]"'
ok "... all of it" $?
tm capture-pane -e -p -t 0 | grep -qE $'\033\\[[0-9;]*(3[0-7]|4[0-7]|38;|48;)[0-9;]*m'
ok "NO_COLOR sends no colour" $((! $?))

# shellcheck disable=SC2086
refused() { "$zerolab" plan "$@" </dev/null >out 2>err; [ $? -eq 2 ] && [ ! -s out ] && [ "$(wc -l <err)" -eq 1 ]; }
check "without a terminal it is refused" refused $sweep --live
check "... with another form, too" refused $sweep --live --as svg
check "... or without a sweep" refused --model gpt2 --live
finish
