# For tests that drive the real program in a real terminal (tmux), sourced by them: tap.sh, and a screen. Nothing sleeps for
# a fixed time: a test waits until the screen shows what is expected, or gives up.
#
#     start 80 24 TERM=xterm -- "$zerolab" replay live.zlt      a shell in $work that runs it
#     keys Space                                                tmux's names of keys
#     waits_for "Space pauses" 'PAUSED'                         a test: until the screen matches (or, with !, does not)
#     finish
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"
if ! command -v tmux >/dev/null; then
    echo "1..0 # SKIP tmux is not installed"
    exit 0
fi

server=0 # each start has a server of its own: one that is going down cannot take the next with it
tm() { tmux -S "$work/tmux$server" -f /dev/null -u "$@" 2>/dev/null; }
end_screens() {
    local socket
    for socket in "$work"/tmux*; do tmux -S "$socket" kill-server 2>/dev/null; done
}
at_end() { end_screens; }
on_failure() { screen | sed 's/^/# |/'; }

screen() { tm capture-pane -p -t 0; }
keys() { tm send-keys -t 0 "$@"; }

shows() { # PATTERN, or !PATTERN: a line matches it, or none does. Asked thousands of times, so no program is started for it.
    local line pattern=${1#!}
    while IFS= read -r line; do
        if [[ $line =~ $pattern ]]; then [ "$pattern" = "$1" ]; return; fi
    done < <(screen)
    [ "$pattern" != "$1" ]
}

comes() { # PATTERN: waits for it. After one that never came the next ones are likely to fail too, so they get less time.
    eventually shows "$1" || { patience=3; return 1; }
}

waits_for() { # NAME, PATTERN
    comes "$2"
    ok "$1" $?
}

# Whether the program sleeps, so that it has nothing to do. On a busy machine it may have something to do and no processor.
waits() {
    local pid; pid=$(program_pid)
    [ -z "$pid" ] || [[ "$(cat "/proc/$pid/stat" 2>/dev/null)" != *") R "* ]]
}

# Prints a screen that has stopped changing: LOOKS looks (2), each SECONDS (0.15) after the one before, are equal while the program
# sleeps. Records of a run are drawn ten times a second, keys at once (Escape after 25 ms).
settled() { # [LOOKS [SECONDS]]
    local before= now same=1 end=$((SECONDS + patience))
    now=$(screen)
    until [ $same -ge "${1:-2}" ] || [ $SECONDS -ge $end ]; do
        before=$now
        sleep "${2:-0.15}"
        now=$(screen)
        if waits && [ "$now" = "$before" ]; then same=$((same + 1)); else same=1; fi
    done
    printf '%s\n' "$now"
}

# Of a screen all but footer, hint and clock.
body() { sed -E -e '$d' -e 's/; Space goes on.*//' -e 's/ {2,}((LIVE|WATCHING) *)?[0-9]*:[0-9][0-9]$//' -e 's/ *$//'; }

step() { screen | sed -nE 's/.*ZeRO stage [0-9] +last step ([0-9,]+).*/\1/p' | tr -d ,; }

# Whether the run has gone past a step.
goes_past() { [ "$(step)" -gt "$1" ]; }

# COLUMNS, ROWS, ENVIRONMENT..., -- COMMAND...: a shell that shows the modes before and after, and the status. It has jobs, so
# that the program can be suspended: a line then brings it back.
start() {
    local columns=$1 rows=$2 environment=("XDG_CONFIG_HOME=$work/config" ZEROLAB_MOUSE=no ZEROLAB_TOUR=no)
    shift 2
    while [ "$1" != -- ]; do environment+=("$1"); shift; done
    shift
    {
        echo 'set -m; stty -g >before; echo FIRST SCREEN'
        printf '%q ' env "${environment[@]}" "$@"
        echo; echo 'status=$?; while [ $status -gt 128 ] && jobs %% >/dev/null 2>&1; do echo SUSPENDED; read -r _; fg >/dev/null; status=$?; done'
        echo 'echo "status $status"; stty -g >after; cmp before after && echo "modes restored"; exec sleep 1000'
    } >"$work/script"
    tm kill-server
    server=$((server + 1))
    tm new-session -d -x "$columns" -y "$rows" "cd $work && LC_ALL=C.UTF-8 bash ./script"
}

# COMMAND...: a screen of 80x24 that runs it and is there besides the others; $server says which of them is looked at and typed to.
start_another() {
    tm new-session -d -x 80 -y 24 "LC_ALL=C.UTF-8 TERM=screen-256color ZEROLAB_MOUSE=no exec $*"
}

pane_pid() { tm list-panes -F '#{pane_pid}'; }
program_pid() { # the child of the shell; read from /proc, because a small machine has no pgrep
    local shell child=; shell=$(pane_pid)
    { read -r child _ <"/proc/$shell/task/$shell/children"; } 2>/dev/null # ends without a newline
    echo "$child"
}
