#!/bin/bash
# The real program in a real terminal (tmux): keys, sizes, what is on the screen, and that the terminal comes back whole.
# Nothing here sleeps for a fixed time: it waits until a screen shows what is expected, or gives up. Prints TAP.
set -u
cd "$(dirname "$0")/.." || exit 1
zerolab=$PWD/${ZEROLAB:-build/release/zerolab}
patience=${PATIENCE:-40} # seconds for one expectation
count=0 bad=0

if ! command -v tmux >/dev/null; then
    echo "ok 1 - screens # SKIP tmux is not installed"
    echo "1..1"
    exit 0
fi

place=$(mktemp -d "${TMPDIR:-/tmp}/zerolab-screens-XXXXXX")
server=0 # each start has a server of its own: one that is going down cannot take the next with it
tm() { tmux -S "$place/tmux$server" -f /dev/null -u "$@" 2>/dev/null; }
cleanup() {
    tm kill-server
    rm -rf "$place"
}
trap cleanup EXIT

screen() { tm capture-pane -p -t 0; }
keys() { tm send-keys -t 0 "$@"; }

ok() { # NAME, STATUS
    count=$((count + 1))
    if [ "$2" -eq 0 ]; then
        echo "ok $count - $1"
    else
        bad=$((bad + 1))
        echo "not ok $count - $1"
        screen | sed 's/^/# |/'
    fi
}

waits_for() { # NAME, PATTERN: until the screen matches
    local end=$((SECONDS + patience))
    until screen | grep -qE -- "$2"; do
        if [ $SECONDS -ge $end ]; then
            ok "$1" 1
            patience=3 # what follows is likely to fail too
            return 1
        fi
        sleep 0.1
    done
    ok "$1" 0
}

step() { screen | sed -nE 's/.*ZeRO stage [0-9] +step ([0-9,]+).*/\1/p' | tr -d ,; }

start() { # COLUMNS, ROWS, ENVIRONMENT..., -- COMMAND...: a shell that shows the modes before and after, and the status
    local columns=$1 rows=$2 environment=()
    shift 2
    while [ "$1" != -- ]; do environment+=("$1"); shift; done
    shift
    {
        echo 'stty -g >before; echo FIRST SCREEN'
        printf '%q ' env "${environment[@]}" "$@"
        echo; echo 'echo "status $?"; stty -g >after; cmp before after && echo "modes restored"; exec sleep 1000'
    } >"$place/script"
    tm kill-server
    server=$((server + 1))
    tm new-session -d -x "$columns" -y "$rows" "cd $place && LC_ALL=C.UTF-8 bash ./script"
}

program_pid() { # the child of the shell; read from /proc, because a small machine has no pgrep
    local shell; shell=$(tm list-panes -F '#{pane_pid}')
    cut -d ' ' -f 1 "/proc/$shell/task/$shell/children"
}

cd "$place" || exit 1

# ---- a live run: switch, pause, step, sizes, leave

start 80 24 TERM=screen-256color -- "$zerolab" --trace live.zlt
waits_for "live run trains" 'RUNNING'
waits_for "first steps are drawn" 'ZeRO stage 0 +step [0-9]+ +loss [0-9]\.[0-9]+ .*tokens/s'
waits_for "bars against the plan" ' 3 \[P .*\] +[0-9.]+ MiB'
keys 3
waits_for "key 3 trains on at stage 3" 'ZeRO stage 3 '
waits_for "stage 3 gathers parameters" 'all_gather +[0-9]+ '
keys Space
waits_for "Space pauses" 'PAUSED'
before=$(step)
keys .
waits_for ". trains one step" "step $((before + 1)) "
waits_for "... and pauses again" 'PAUSED'
keys p
waits_for "p brings text from the model" 'text from the model after step'
keys '?'
waits_for "? shows the keys" 'Tab +next pane'
keys Escape
waits_for "Esc closes the help" 'device memory'
tm resize-window -t 0 -x 130 -y 42
waits_for "more room adds panes" 'device memory of rank [0-9], the fullest'
tm resize-window -t 0 -x 50 -y 8
waits_for "too small says what is needed" '80x24 is needed'
tm resize-window -t 0 -x 80 -y 24
waits_for "and comes back" 'ZeRO stage 3 '
keys u
waits_for "u changes the units" '[0-9]{1,3}(,[0-9]{3})+ B'
keys q
waits_for "q leaves" 'status 0'
waits_for "the terminal is as before" 'modes restored'
waits_for "with its first screen" 'FIRST SCREEN'

# ---- out of memory

start 80 24 TERM=xterm -- "$zerolab" --set memory.device_budget=16MiB
waits_for "out of memory opens the report" 'Who held what at that instant'
waits_for "with what would fit" 'stage=3 +peak'
keys 3
waits_for "stage 3 goes on" 'RUNNING'
keys I
waits_for "I shows the report again" 'Who held what'
keys C-c
waits_for "Ctrl-C leaves" 'status 0'
waits_for "and restores the terminal" 'modes restored'

# ---- a recording

start 80 24 TERM=xterm-256color -- "$zerolab" replay live.zlt
waits_for "a recording plays" 'REPLAY'
keys G
waits_for "to its end" 'ENDED +stopped'
last=$(step)
keys BSpace
waits_for "one step back" "step $((last - 1)) "
keys g
waits_for "to its beginning" 'no step yet'
kill -TERM "$(program_pid)"
waits_for "SIGTERM restores the terminal" 'modes restored'

start 80 24 TERM=xterm-256color NO_COLOR=1 LC_ALL=C -- "$zerolab" replay live.zlt
keys G
waits_for "without UTF-8 bars are letters" ' 0 \[PP+G+'
screen | LC_ALL=C grep -q '[^ -~]'
ok "and every character is ASCII" $((! $?))
tm capture-pane -p -e -t 0 | grep -qE $'\033\\[[0-9;]*(3[0-7]|4[0-7]|9[0-7])m'
ok "NO_COLOR sends no colour" $((! $?))
kill -ABRT "$(program_pid)" # the crash that sanitizers leave to us
waits_for "a crash restores the terminal too" 'modes restored'

start 80 24 TERM=dumb -- "$zerolab" replay live.zlt
waits_for "TERM=dumb is refused" 'TERM=dumb cannot show a screen'
waits_for "as a usage error" 'status 2'

echo "1..$count"
[ $bad -eq 0 ]
