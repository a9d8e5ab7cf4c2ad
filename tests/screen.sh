# For tests that drive the real program in a real terminal (tmux), sourced by them. Nothing sleeps for a fixed time: it waits
# until a screen shows what is expected, or gives up. Prints TAP.
#
#     start 80 24 TERM=xterm -- "$zerolab" replay live.zlt      a shell in $place that runs it
#     keys Space                                                tmux's names of keys
#     waits_for "Space pauses" 'PAUSED'                         a test: until the screen matches (or, with !, does not)
#     done_testing
set -u
root=$(realpath "$(dirname "$0")/..")
zerolab=$(realpath "${ZEROLAB:-$root/build/release/zerolab}")
patience=${PATIENCE:-40} # seconds for one expectation
count=0 bad=0

if ! command -v tmux >/dev/null; then
    echo "1..0 # SKIP tmux is not installed"
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
cd "$place" || exit 1

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

shows() { # PATTERN, or !PATTERN
    if [ "${1#!}" != "$1" ]; then ! screen | grep -qE -- "${1#!}"; else screen | grep -qE -- "$1"; fi
}

comes() { # PATTERN: whether it does, within the patience
    local end=$((SECONDS + patience))
    until shows "$1"; do
        if [ $SECONDS -ge $end ]; then
            patience=3 # what follows is likely to fail too
            return 1
        fi
        sleep 0.05
    done
}

waits_for() { # NAME, PATTERN
    comes "$2"
    ok "$1" $?
}

# Whether the program has done what it was asked for, and waits: one that has no processor, on a busy machine, does not.
waits() {
    local pid; pid=$(program_pid)
    [ -z "$pid" ] || [[ "$(cat "/proc/$pid/stat" 2>/dev/null)" != *") R "* ]]
}

# A screen that has stopped changing: looks apart in time (LOOKS of them, or two) that agree, while the program waits.
settled() { # [LOOKS]
    local before= now same=1 end=$((SECONDS + patience))
    now=$(screen)
    until [ $same -ge "${1:-2}" ] || [ $SECONDS -ge $end ]; do
        before=$now
        sleep 0.15
        now=$(screen)
        if waits && [ "$now" = "$before" ]; then same=$((same + 1)); else same=1; fi
    done
    printf '%s\n' "$now"
}

step() { screen | sed -nE 's/.*ZeRO stage [0-9] +step ([0-9,]+).*/\1/p' | tr -d ,; }

# COLUMNS, ROWS, ENVIRONMENT..., -- COMMAND...: a shell that shows the modes before and after, and the status. It has jobs, so
# that the program can be suspended: a line then brings it back.
start() {
    local columns=$1 rows=$2 environment=("HOME=$place" "XDG_CONFIG_HOME=$place/config" ZEROLAB_MOUSE=no ZEROLAB_TOUR=no)
    shift 2
    while [ "$1" != -- ]; do environment+=("$1"); shift; done
    shift
    {
        echo 'set -m; stty -g >before; echo FIRST SCREEN'
        printf '%q ' env "${environment[@]}" "$@"
        echo; echo 'status=$?; while [ $status -gt 128 ] && jobs %% >/dev/null 2>&1; do echo SUSPENDED; read -r _; fg >/dev/null; status=$?; done'
        echo 'echo "status $status"; stty -g >after; cmp before after && echo "modes restored"; exec sleep 1000'
    } >"$place/script"
    tm kill-server
    server=$((server + 1))
    tm new-session -d -x "$columns" -y "$rows" "cd $place && LC_ALL=C.UTF-8 bash ./script"
}

program_pid() { # the child of the shell; read from /proc, because a small machine has no pgrep
    local shell; shell=$(tm list-panes -F '#{pane_pid}')
    cut -d ' ' -f 1 "/proc/$shell/task/$shell/children"
}

done_testing() {
    echo "1..$count"
    [ $bad -eq 0 ]
    exit
}
