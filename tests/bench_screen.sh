#!/bin/bash
# What watching costs, on nano with 4 ranks: the processor time of the front end, paused and live at 10 frames a second, and
# what a viewer does to the steps it watches, by pairs of runs with and without one, taken in turns.
. "$(dirname "$0")/screen.sh" >/dev/null
pairs=${PAIRS:-5} seconds=${SECONDS_EACH:-10}

# Nanoseconds on a processor, of the front end alone: the engine's ranks and writer are other processes.
used() { cat "/proc/$1/task/"*/schedstat | awk '{ sum += $1 } END { printf "%.0f\n", sum }'; }
median() { sort -n | awk '{ at[NR] = $1 } END { print NR % 2 ? at[(NR + 1) / 2] : (at[NR / 2] + at[NR / 2 + 1]) / 2 }'; }

share() { # PID: of a core, in percent, over some seconds
    local before; before=$(used "$1")
    sleep "$seconds"
    awk -v ns=$(($(used "$1") - before)) -v s="$seconds" 'BEGIN { printf "%.2f\n", ns / 1e7 / s }'
}

measure_screen() { # COLUMNS ROWS: appends to live, paused and rate
    start "$1" "$2" TERM=tmux-256color -- "$zerolab" train --report screen.json
    comes 'step [0-9]{2,}'
    local pid; pid=$(program_pid)
    share "$pid" >>"live-$1"
    keys Space
    comes PAUSED && comes '!sent:'
    share "$pid" >>"paused-$1"
    keys q
    comes 'status 0'
    grep -A3 '"screen"' screen.json | sed -n 's/.*"bytes_per_frame":[^0-9]*\([0-9]*\).*/\1/p' >>"bytes-$1"
}

steps_per_second() { # FILE of a report, without its first steps
    awk '/"total":/ { gsub(/[^0-9.e-]/, "", $2); if (++n > 20) { sum += $2; count++ } } END { print count / sum }' "$1"
}

run_alone() { "$zerolab" train --headless --steps 300 --report alone.json >/dev/null; }

# Looking at the screen would cost more than the program that draws it: until the engine is gone this only sleeps.
run_watched() {
    start 80 24 -- "$zerolab" train --steps 300 --report watched.json
    comes 'step [0-9]'
    local pid; pid=$(program_pid)
    while [ -n "$(<"/proc/$pid/task/$pid/children")" ]; do sleep 1; done
    comes 'ENDED'
    keys q
    comes 'status 0'
}

measure_pair() { # NUMBER: the same run, alone and watched, in turns the one or the other first
    if [ $(($1 % 2)) -eq 0 ]; then run_alone; run_watched; else run_watched; run_alone; fi
    echo "$(steps_per_second watched.json) $(steps_per_second alone.json)" | awk '{ print $1 / $2 }' >>ratio
}

for i in $(seq "$pairs"); do
    measure_screen 80 24
    measure_screen 200 60
    measure_pair $i
done
for columns in 80 200; do
    echo "front end at $columns columns, percent of a core (medians of $pairs): live $(median <live-$columns), paused $(median <paused-$columns); $(median <bytes-$columns) bytes a frame"
done
echo "steps a second watched / alone, median of $pairs pairs: $(median <ratio) (each: $(sort -n ratio | tr '\n' ' '))"
