#!/bin/bash
# A step taken by operations, in the real program: it changes no bit, however ranks meet, and a standing step never keeps
# a run from ending. SHORT=1: ranks as threads only.
. "$(dirname "$0")/../support/tap.sh"
config="$root/configs/nano-stage3.json $tiny --set model.layers=4"
stand="--at 3:pause --at 3:op --at 3:op=5 --at 3:op"

check "a plain run" train plain $config --steps 4 --set topology.ranks_as=threads
check "ranks as threads" train threads $config --steps 4 --set topology.ranks_as=threads $stand --at 3:op=9 --at 3:resume
check "... the same bits" same_bits plain threads
check "more operations than the step has" train past $config --steps 4 --set topology.ranks_as=threads \
    --at 2:pause --at 2:op=5 --at 2:op=1000 --at 3:op=30 --at 3:step --at 4:resume
check "... the same bits" same_bits plain past
paused() { [ "$(grep -c '"kind":.*"pause"' past.json)" -eq 3 ]; } # by command, and after steps; standing is no event
check "... and it pauses after each of these steps" paused

# Stands in step 3: what it says about a command that has to wait tells that it does.
standing() {
    rm -f out err
    "$zerolab" train $config --headless --steps 100000 "$@" $stand --at 3:stage=1 >out 2>err </dev/null &
    front=$!
    eventually grep -q "stage=1 waits for the end of step 3" out || return 1
    launcher=$(children $front | tr -d " ")
    ranks=($(children "$launcher"))
}
stopped() {
    wait $front && grep -q '^stopped after step 3' out
}
# A rank that stands must not stand by burning a core: ticks of the ranks (a tick is 10 ms) over half a second, once all have come
# to where they stand.
ticks() { cat $(printf "/proc/%s/stat " "${@}") | sed 's/.*) //' | awk '{ sum += $12 + $13 } END { print sum + 0 }'; }
idle() {
    local before
    before=$(ticks "$@")
    sleep 0.5
    [ $(($(ticks "$@") - before)) -le 5 ]
}
killed() {
    local status
    wait $front
    status=$?
    [ $status -eq 4 ] && [ "$(wc -l <err)" -eq 1 ] && grep -qE "$1" err && return
    echo "# status $status"
    sed 's/^/# said: /' err
    return 1
}

check "a standing step" standing --set topology.ranks_as=threads
check "... sleeps" eventually idle "$launcher"
kill -INT $front
check "... ends with a signal" stopped

stand="--at 3:pause --at 3:op"
check "another, in slow motion" standing --set topology.ranks_as=threads --at "3:set topology.slow_motion=1000"
kill -INT $front
check "... ends at once" stopped

if [ -n "${SHORT:-}" ]; then skip "ranks as processes" "short"; finish; fi
check "ranks as processes" train processes $config --steps 4 $stand --at 3:resume
check "... the same bits" same_bits plain processes
check "on two virtual nodes" train nodes $config --steps 4 $stand --at 3:resume --set topology.ranks_per_node=2
check "... the same bits" same_bits plain nodes
if command -v mpirun >/dev/null; then
    check "on two virtual nodes of mpirun" train mpirun $config --steps 4 $stand --at 3:resume --set topology.ranks_per_node=2 \
        --set topology.ranks_as=mpirun
    check "... the same bits" same_bits plain mpirun
fi
check "a standing step" standing
check "... sleeps" eventually idle "${ranks[@]}"
kill -9 "${ranks[2]}"
check "... ends when a rank is killed" killed 'rank 2.* signal 9'
check "another, on two virtual nodes" standing --set topology.ranks_per_node=2
kill -9 "${ranks[0]}"
check "... ends when rank 0 is killed" killed 'rank 0.* signal 9'
check "another" standing
kill -9 $front
wait $front 2>/dev/null
check "... ends when its front end is killed" eventually gone "$launcher" "${ranks[@]}"
finish
