#!/bin/bash
# Every key of the key table (zerolab --list-keys), in a live run and in a recording: something visible happens. A key
# without an expectation fails, so a new row of tui/input/keys.def needs a line here, unless it opens a view.
. "$(dirname "$0")/../support/screen.sh"

# MODE|LABEL|KEYS BEFORE|EXPECTED|KEYS AFTER. Expected: a pattern, or CHANGES: the screen above the footer is another one.
expectations='
live|Esc|?|ZeRO stage .*step|
live|Tab|M|CHANGES|Escape
live|Shift-Tab|M|CHANGES|Escape
live|e||!parameters ·|Escape
live|e|Y|^of [0-9]* |e Escape
live|Enter||!parameters ·|Escape
live|0|E|command stage=0|Escape
live|1|E|command stage=1|Escape
live|2|E|command stage=2|Escape
live|3|E|command stage=3|Escape
live|#||^ command +ranks=|Escape
live|:||^ command|Escape
live|Space||RUNNING|
live|Z||PAUSED|
live|.||PAUSED  after one step|
live|,||PAUSED  an operation begins|
live|,||PAUSED  before op .* LIVE|.
live|<||slow x2|
live|>||slow_motion, from 2, to 1|
live|[||link 1.00 GB/s|
live|]||intra.bandwidth, from 1GB, to 0|
live|p||sent: sample|
live|V||sent: validate|
live|$|E|no folder for checkpoints|Escape
live|r||recording to zerolab-.*zlt|
live|Backspace||behind|F
live|F|BSpace|LIVE|
live|Left||behind|F
live|h||behind|F
live|Right|Left O Left|CHANGES|F O
live|l|Left O Left|CHANGES|F O
live|Down|?|CHANGES|Escape
live|j|?|CHANGES|Escape
live|Up|? j j|CHANGES|Escape
live|k|? j j|CHANGES|Escape
live|PgUp||behind|F
live|Ctrl-U||behind|F
live|PgDn|PPage PPage|CHANGES|F
live|Ctrl-D|PPage PPage|CHANGES|F
live|Home||no step yet|F
live|g||no step yet|F
live|End|Home|LIVE|
live|G|Home|LIVE|
live|w|T|CHANGES|Escape Escape Escape Escape
live|W|T|CHANGES|Escape Escape Escape Escape
live|+|T|CHANGES|Escape Escape Escape Escape
live|s|T w w w|CHANGES|Escape Escape Escape Escape
live|S|T w w w|CHANGES|Escape Escape Escape Escape
live|-|T w w w|CHANGES|Escape Escape Escape Escape
live|a|T w w w|CHANGES|Escape Escape Escape Escape
live|A|T w w w|CHANGES|Escape Escape Escape Escape
live|d|T w w w a a|CHANGES|Escape Escape Escape Escape
live|D|T w w w a a|CHANGES|Escape Escape Escape Escape
live|=|T|CHANGES|Escape Escape Escape Escape
live|f|T w w Left A|CHANGES|Escape Escape Escape Escape
live|v|T = w w Right|CHANGES|Escape Escape Escape Escape
live|R|T = w w Right|CHANGES|Escape Escape Escape Escape
live|/||^ search|Escape
live|n|/ block Enter N N|block: n next|F
live|N|/ block Enter|block: n next|F
live|\||show only|Escape
live|x|P|CHANGES|Escape Escape Escape
live|X|P|CHANGES|Escape Escape Escape
live|m||name of the marker|Enter
live|'"'"'|m x Enter|marker|
live|c||A is here|
live|b||bars: |
live|u||CHANGES|
live|t||^ [a-z]+ +[?] help|
replay|Esc|?|ZeRO stage .*step|
replay|Tab|M|CHANGES|Escape
replay|Shift-Tab|M|CHANGES|Escape
replay|e||!parameters ·|Escape
replay|Enter||!parameters ·|Escape
replay|Space|g|!no step yet|Space
replay|Z|g|!no step yet|Z
replay|.|g|step 1 |
replay|,|g O|CHANGES|O
replay|Backspace|g . .|step 1 |
replay|>||×2|
replay|<||×1 |
replay|F||ENDED|
replay|Left|G|stopped|
replay|h|G O Left|CHANGES|O
replay|Right|g O|CHANGES|O
replay|l|g O|CHANGES|O
replay|Down|?|CHANGES|Escape
replay|j|?|CHANGES|Escape
replay|Up|? j j|CHANGES|Escape
replay|k|? j j|CHANGES|Escape
replay|PgUp|g . . .|step 2 |
replay|Ctrl-U|g . . .|step 2 |
replay|PgDn|g|step 1 |
replay|Ctrl-D|g|step 1 |
replay|Home|G|no step yet|
replay|g|G|no step yet|
replay|End|g|ENDED|
replay|G|g|ENDED|
replay|w|T|CHANGES|Escape Escape Escape Escape
replay|W|T|CHANGES|Escape Escape Escape Escape
replay|+|T|CHANGES|Escape Escape Escape Escape
replay|s|T w w w|CHANGES|Escape Escape Escape Escape
replay|S|T w w w|CHANGES|Escape Escape Escape Escape
replay|-|T w w w|CHANGES|Escape Escape Escape Escape
replay|a|T w w w|CHANGES|Escape Escape Escape Escape
replay|A|T w w w|CHANGES|Escape Escape Escape Escape
replay|d|T w w w a a|CHANGES|Escape Escape Escape Escape
replay|D|T w w w a a|CHANGES|Escape Escape Escape Escape
replay|=|T|CHANGES|Escape Escape Escape Escape
replay|f|T w w Left A|CHANGES|Escape Escape Escape Escape
replay|v|T = w w Right|CHANGES|Escape Escape Escape Escape
replay|R|T = w w Right|CHANGES|Escape Escape Escape Escape
replay|/|g|^ search|Escape
replay|n|g / block Enter|block: n next|
replay|N|G / block Enter|block: n next|
replay|\||show only|Escape
replay|x|P|CHANGES|Escape Escape Escape
replay|X|P|CHANGES|Escape Escape Escape
replay|m|g|name of the marker|Enter
replay|'"'"'|G|marker 1|
replay|c||A is here|
replay|b||bars: |
replay|u||CHANGES|
replay|t||^ [a-z]+ +[?] help|
'

tmux_key() { # the name that tmux has for a label
    case $1 in
    Esc) echo Escape ;; Shift-Tab) echo BTab ;; Backspace) echo BSpace ;; PgUp) echo PPage ;; PgDn) echo NPage ;;
    Ctrl-*) echo "C-${1#Ctrl-}" | tr '[:upper:]' '[:lower:]' | sed 's/^c/C/' ;;
    *) echo "$1" ;;
    esac
}

differs() { [ "$(screen | sed '$d')" != "$1" ]; }

# All keys that were sent before have done what they do: a prompt opened after them, and closed. The run is paused, so that nothing
# else changes the screen.
all_keys_are_taken() {
    keys /
    comes '^ search'
    keys Escape
    comes '!^ search'
}

all_taken= # whether the screen has shown what the last keys do
try_key() { # MODE, LABEL, KEYS BEFORE, EXPECTED, KEYS AFTER
    local before
    [ -z "$3" ] || keys $3
    [ -n "$all_taken" ] && [ -z "$3" ] && [ "$4" != CHANGES ] || all_keys_are_taken
    all_taken=
    before=$(screen | sed '$d')
    keys "$(tmux_key "$2")"
    if [ "$4" = CHANGES ]; then
        eventually differs "$before"
        ok "$1: $2" $?
    else
        waits_for "$1: $2" "$4"
        all_taken=1
    fi
    [ -z "$5" ] || { keys $5; all_taken=; }
}

# Keys that end the program, or leave no trace on the screen of their own.
try_special() { # MODE, LABEL
    all_taken=
    case $2 in
    q | F10 | Ctrl-C)
        keys "$(tmux_key "$2")"
        waits_for "$1: $2" 'status 0'
        start_"$1" ;;
    Ctrl-L) # what others have written is gone
        printf '\033[5;5HGARBAGE' >"$(tm list-panes -F '#{pane_tty}')"
        comes GARBAGE
        keys C-l
        waits_for "$1: $2" '!GARBAGE' ;;
    Ctrl-Z)
        keys C-z
        waits_for "$1: $2" SUSPENDED
        keys Enter
        waits_for "$1: ... and back" 'ZeRO stage' ;;
    *) return 1 ;;
    esac
}

try_row() { # MODE, LABEL, ACTION, ARGUMENT
    local before expected after
    if [ "$3" = VIEW ]; then # the same key closes it; the overview alone says what the run is
        try_key "$1" "$2" '' '!parameters ·' "$(tmux_key "$2")"
        comes 'parameters ·'
        all_taken=1
    elif ! grep -qF -- "$1|$2|" <<<"$expectations"; then
        try_special "$1" "$2" || ok "$1: $2 has an expectation in tests/program/test_keys.sh" 1
    else
        while IFS='|' read -r -u 3 _ _ before expected after; do
            try_key "$1" "$2" "$before" "$expected" "$after"
        done 3< <(grep -F -- "$1|$2|" <<<"$expectations")
    fi
}

export ZEROLAB_CONFIG=$root/tests/support/small.json
start_live() {
    start 80 24 TERM=screen-256color -- "$zerolab"
    comes 'step [3-9]'
    keys Space
    comes PAUSED
}

start_replay() {
    start 80 24 TERM=screen-256color -- "$zerolab" replay keys.zlt
    comes REPLAY
    keys G
    comes ENDED
}

"$zerolab" train --headless --steps 8 --at 4:stage=3 --trace keys.zlt >/dev/null
for mode in live replay; do
    start_$mode
    while IFS=$'\t' read -r label where action argument; do
        if [ "$where" = always ] || [ "$where" = $mode ]; then try_row $mode "$label" "$action" "$argument"; fi
    done < <("$zerolab" --list-keys)
done
finish
