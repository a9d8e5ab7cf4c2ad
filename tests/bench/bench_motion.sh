#!/bin/bash
# What the whiteboard costs at 120x40: processor time of the front end (share of one core), bytes it writes to the terminal and
# frames, from pairs of runs of SECONDS (10) each: slow motion against the same run on the overview, full speed (the last step is
# played) against the overview, and the same while paused. The engine runs in processes of its own, so the front end's time is its
# own. Prints each pair and the medians. Frames are counted as writes to the terminal; a frame is one write.
#
#     tests/bench/bench_motion.sh [SECONDS] [PAIRS]
. "$(dirname "$0")/../support/screen.sh"
seconds=${1:-10} pairs=${2:-3}
config="$root/configs/nano.json -n 4 --set zero_optimization.stage=3"

ticks() { sed 's/.*) //' "/proc/$1/stat" | awk '{ print $12 + $13 }'; } # of 10 ms
written() { sed -n "s/^$2: //p" "/proc/$1/io"; }
measure() { # NAME: of $front, over the next seconds
    local t b w
    t=$(ticks "$front") b=$(written "$front" wchar) w=$(written "$front" syscw)
    sleep "$seconds"
    t=$(($(ticks "$front") - t)) b=$(($(written "$front" wchar) - b)) w=$(($(written "$front" syscw) - w))
    echo "$1 $t $b $w" >>figures
    awk -v name="$1" -v t=$t -v b=$b -v w=$w -v s="$seconds" \
        'BEGIN { printf "# %-22s %5.2f %% of a core, %5.1f frames/s, %6.0f bytes a frame\n", name, t / s, w / s, w ? b / w : 0 }'
}
median() { # NAME, COLUMN: of all pairs
    awk -v name="$1" -v s="$seconds" '$1 == name { print $2 / s, ($4 ? $3 / $4 : 0) }' figures | sort -n -k"$2" |
        awk -v c="$2" '{ v[NR] = $c } END { print v[int((NR + 1) / 2)] }'
}

start 120 40 TERM=screen-256color -- "$zerolab" train $config
comes 'last step [3-9]'
front=$(program_pid)
for pair in $(seq "$pairs"); do
    measure overview
    keys Y; comes 'of its speed'
    measure full-speed
    keys Y; comes 'parameters ·'
done
for slower in 1 2 3 4 5; do keys '<'; sleep 0.3; done
waits_for "slow motion" 'slow x50'
sleep 3
for pair in $(seq "$pairs"); do
    measure slow-overview
    keys Y; comes 'whiteboard: stage'
    measure slow-motion
    keys Y; comes 'parameters ·'
done
keys Y Space
waits_for "paused" 'PAUSED'
sleep 1
for pair in $(seq "$pairs"); do measure paused; done
less() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a < b) }'; }
for name in full-speed slow-motion paused; do
    echo "# median $name: $(median $name 1) % of a core, $(median $name 2) bytes a frame"
done
less "$(median full-speed 1)" 5
ok "at full speed less than 5 % of a core" $?
less "$(median slow-motion 1)" 2 && less "$(median slow-motion 2)" 3072
ok "in slow motion less than 2 % of a core and 3 KB a frame" $?
[ "$(awk '$1 == "paused" { sum += $4 } END { print sum + 0 }' figures)" -eq 0 ]
ok "nothing is drawn while paused" $?
keys q
waits_for "it leaves" 'status 0'
finish
