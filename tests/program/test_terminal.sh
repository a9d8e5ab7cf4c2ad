#!/bin/bash
# What terminals do to a program: sizes that change two hundred times, other kinds of terminals, a mouse, and one that is gone.
. "$(dirname "$0")/../support/screen.sh"

# The screen, each character with the colours it has; tmux says the same colours in more than one way, and ends a row where
# somebody last wrote: -N keeps blanks that have a ground, and those that have none are dropped here.
with_colours() {
    tm capture-pane -p -e -N -t 0 | LC_ALL=C awk '
        function codes_of(text,    count, codes, i, code) {
            count = split(text, codes, ";")
            for (i = 1; i <= count; i++) {
                code = codes[i] + 0
                if (code == 0) bold = front = back = ""
                else if (code == 39) front = ""
                else if (code == 49) back = ""
                else if (code >= 30 && code < 40 || code >= 90 && code < 100) front = code
                else if (code >= 40 && code < 50 || code >= 100) back = code
                else bold = bold "+" code
            }
        }
        {
            blanks = ""
            parts = split($0, part, "\033")
            for (p = 1; p <= parts; p++) {
                if (p > 1) {
                    end = index(part[p], "m")
                    codes_of(substr(part[p], 2, end - 2))
                    part[p] = substr(part[p], end + 1)
                }
                for (i = 1; i <= length(part[p]); i++) {
                    character = substr(part[p], i, 1)
                    ground = back (bold ~ /\+[47]/ ? bold : "") # all that is seen of a blank
                    cell = character == " " ? ground : front " " back " " bold " " character
                    if (cell == "") { blanks = blanks "\n"; continue }
                    printf "%s%s\n", blanks, cell
                    blanks = ""
                }
            }
            print "end of row " NR
        }'
}

idle() { # has drawn all there was to draw: paused, it takes no time
    local pid before
    pid=$(program_pid)
    before=$(awk '{ print $3, $14 + $15 }' "/proc/$pid/stat")
    sleep 0.5
    [ "${before% *}" = S ] && [ "$(awk '{ print $3, $14 + $15 }' "/proc/$pid/stat")" = "$before" ]
}

# ---- sizes

start 100 30 TERM=screen-256color -- "$zerolab" --trace storm.zlt $paced
comes 'step [1-9]'
RANDOM=7
for i in $(seq 200); do
    tm resize-window -t 0 -x $((20 + RANDOM % 200)) -y $((5 + RANDOM % 60))
    [ $((i % 20)) -eq 0 ] && keys Tab T M T Escape
done
tm resize-window -t 0 -x 100 -y 30
keys Escape Escape Escape Space
waits_for "after 200 sizes it goes on" 'PAUSED'
comes '!sent:'
eventually idle
settled 8 >/dev/null
after_storm=$(with_colours)
keys C-l
settled 4 >/dev/null
diff <(echo "$after_storm") <(with_colours) | cat -v | sed 's/^/# /' | head -20 # nothing where they are the same
[ "$(with_colours)" = "$after_storm" ]
ok "... without a stray cell: a fresh drawing is the same" $?
[ "$(screen | LC_ALL=C.UTF-8 wc -L)" -le 100 ]
ok "... and within the screen" $?

# ---- a terminal that goes away

run=$(family "$(program_pid)")
[ "$(wc -w <<<"$run")" -gt 4 ]
ok "the run has processes of its own" $?
tm kill-server
eventually gone $run
ok "a terminal that goes away ends the program and the run it started" $?
"$zerolab" check storm.zlt | grep -q 'the run ended: stopped'
ok "... at the end of a step" $?

# ---- a terminal that takes nothing: it is stopped while the run has much to say

wrote() { sed -n 's/^wchar: //p' "/proc/$pid/io"; }
is_stuck() { # has drawn nothing for as long as ten frames take
    local before
    before=$(wrote)
    sleep 1
    [ "$(wrote)" = "$before" ]
}

for mode in true "dd oflag=nonblock"; do # dd leaves the flag behind
    start 200 60 TERM=xterm-256color -- bash -c "$mode </dev/null 2>/dev/null; exec \"\$0\"" "$zerolab"
    comes 'step [1-9]'
    pid=$(program_pid) run=$(family "$(program_pid)") multiplexer=$(tm display-message -p '#{pid}')
    kill -STOP "$multiplexer"
    eventually is_stuck
    stuck=$?
    kill -TERM "$pid"
    eventually gone $run
    left=$?
    kill -CONT "$multiplexer"
    [ $stuck -eq 0 ] && [ $left -eq 0 ]
    ok "a terminal that takes nothing does not keep the program from its end ($mode)" $?
    waits_for "... and has its modes again" 'modes restored'
done

# ---- kinds of terminals

for term in vt100 linux screen tmux tmux-256color xterm xterm-256color putty; do
    if ! infocmp "$term" >/dev/null 2>&1; then
        ok "$term # SKIP not known here" 0
        continue
    fi
    start 80 24 TERM=$term -- "$zerolab" replay storm.zlt
    comes 'REPLAY' && keys G && comes 'ENDED +stopped' && keys M && comes 'peak' && keys q && comes 'modes restored'
    ok "$term" $?
done

# ---- the mouse

click() { keys -l "$(printf '\033[<0;%d;%dM\033[<0;%d;%dm' "$1" "$2" "$1" "$2")"; } # COLUMN, ROW

start 80 24 TERM=xterm-256color ZEROLAB_MOUSE=yes -- "$zerolab" replay storm.zlt
comes 'REPLAY' && keys G && comes 'ENDED'
column=$(screen | tail -1 | grep -bo ' ? help' | cut -d: -f1)
click $((column + 2)) 24
waits_for "a click on a key of the footer is that key" 'help \('
before=$(screen | head -5)
keys -l $'\033[<65;10;10M'
eventually eval '[ "$(screen | head -5)" != "$before" ]'
ok "the wheel moves" $?
keys Escape
comes 'device memory'
click 20 12
comes 'w zoom in' # ncurses makes one event of two presses that it reads together
click 20 12
waits_for "two clicks on a pane open its view" 'works .*F fwd'
click 40 10
waits_for "a click on a lane chooses an operation" 'rank [0-3] .*step|issued|started'
kill -TERM "$(program_pid)"
waits_for "and the terminal is as before" 'modes restored'
finish
