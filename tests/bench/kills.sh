#!/bin/bash
# Kills runs at random moments and lets each go on: tests/bench/kills.sh [COUNT [SEED]] (10 kills; the seed is printed). Ranks are
# processes. Killed is a rank, all ranks, the supervisor or the front end; while the run saves, switches its stage, gathers
# (links are slow) or starts again with other ranks. Each time: one clear line within five seconds of the kill, no process, file
# or shared memory left, and the run that goes on ends with the state of one that was never killed.
. "$(dirname "$0")/../support/tap.sh"
kills=${1:-10}
RANDOM=${2:-$$} seed=${2:-$$}
echo "# seed $seed: $0 $kills $seed"
steps=12
small="--set model.name=custom --set model.layers=2 --set model.hidden=64 --set model.heads=2 --set model.context=32 \
--set data.sequence_length=32 --set model.vocabulary=256 --set topology.links.intra.bandwidth=20MB"
begin="-n 4 $small --set checkpoint.path=ck --set checkpoint.every=2 --set checkpoint.keep=2"
commands=(4:stage=3 7:ranks=2 10:stage=1)

alive() {
    local pid
    for pid in "$@"; do
        [ -e /proc/"$pid" ] && [ "$(sed 's/.*) //; s/ .*//' /proc/"$pid"/stat 2>/dev/null)" != Z ] && return 0
    done
    return 1
}
none_alive() { ! alive "$@"; }
shared() { ls -A /dev/shm | sort; }

# The commands that are still to come after a step, as options.
rest() {
    local command
    for command in "${commands[@]}"; do [ "${command%%:*}" -le "$1" ] || printf -- '--at %s ' "$command"; done
}
# The step to go on from: the one that `latest` names, or that of a first save which was killed before it wrote `latest`.
saved() { local step; step=$( (cat ck/latest 2>/dev/null || ls ck 2>/dev/null) | sed -n 's/.*step-\([0-9]*\).*/\1/p' | head -n 1); echo "${step:-0}"; }
nap() { sleep "0.$(printf %03d $((RANDOM % $1)))"; } # less than so many ms

# One run that is killed: MOMENT, WHO.
strike() {
    local moment=$1 who=$2 step victims supervisor ranks until
    rm -rf ck struck.json out err
    "$zerolab" train --headless --steps $steps $begin $(rest 0) --report struck.json >out 2>err </dev/null &
    front=$!
    case $moment in
    save) eventually grep -q '^step 1/' out || return 1 ;;
    switch) eventually grep -q '^step 3/' out || return 1; nap 120 ;;
    gather) eventually grep -q "^step 4/" out || return 1; nap 150 ;;
    relaunch) eventually grep -q '^step 6/' out || return 1; nap 500 ;;
    esac
    supervisor=$(children $front | tr -d ' ')
    ranks=($(children "$supervisor"))
    all=($(family $front))
    case $who in
    rank) victims=${ranks[RANDOM % (${#ranks[@]} > 0 ? ${#ranks[@]} : 1)]:-} ;;
    ranks) victims=${ranks[*]} ;;
    supervisor) victims=$supervisor ;;
    front) victims=$front ;;
    esac
    [ -n "$victims" ] || victims=$front # between two engines there is nobody else
    # A save is over within milliseconds, so nothing is started between seeing it and the kill.
    until=$((SECONDS + 30))
    while [ $moment = save ] && ! compgen -G 'ck/.*partial' >/dev/null; do [ $SECONDS -lt $until ] || return 1; done
    began_ns=$(date +%s%N)
    kill -9 $victims 2>/dev/null
    wait $front
    status=$?
    took_ms=$((($(date +%s%N) - began_ns) / 1000000))
    front_killed=$([ "$victims" = "$front" ] && echo yes)
    return 0
} 2>/dev/null

# In a relaunch a kill may be survived: ranks that were killed at their very end are not missed, and in place of new ones that
# were killed the old ones are started again.
survived() { [ $status -eq 0 ] && { same_hash whole struck || { grep -q 'goes on as before' out && same_hash as-before struck; }; } >/dev/null; }

# What is said: one line of the program, which names what was killed.
told() {
    [ -z "$front_killed" ] || return 0
    survived && return 0
    [ "$took_ms" -le 5000 ] || { echo "# said after $took_ms ms"; return 1; }
    [ $status -eq 4 ] && [ "$(grep -c '^zerolab: ' err)" -eq 1 ] || { echo "# status $status"; sed 's/^/# /' err; return 1; }
    grep -qE '^zerolab: .*(rank [0-9].* signal 9|the supervisor was ended by signal 9)' err || { sed 's/^/# /' err; return 1; }
}
swept() {
    patience=5 eventually none_alive "${all[@]}" || return 1
    "$zerolab" train --headless --steps 1 -n 1 $small >out.next 2>&1 || return 1 # sweeps what a killed front end left
    nothing_left || return 1
    [ "$(shared)" = "$shared_before" ] || { echo "# left in /dev/shm"; return 1; }
}
goes_on() {
    local from=$begin done
    [ $status -ne 0 ] || { survived; return; }
    done=$(saved)
    [ "$done" -eq 0 ] || from="--resume ck/step-$done"
    rm -f on.json
    if [ "$done" -lt $steps ]; then train on --steps $steps $from $(rest "$done") || return 1; fi
    [ -z "$(ls -A ck | grep '^\.')" ] || { ls -A ck | sed 's/^/# left: /'; return 1; }
    [ "$done" -eq $steps ] || same_hash whole on
}

check "a run that is never killed" train whole --steps $steps -n 4 $small $(rest 0)
check "another, which never changes its ranks" train as-before --steps $steps -n 4 $small --at 4:stage=3 --at 10:stage=1
shared_before=$(shared)
moments=(save switch gather relaunch) victims=(rank ranks front supervisor)
for ((k = 0; k < kills; k++)); do
    moment=${moments[k % 4]} who=${victims[RANDOM % 4]}
    check "$((k + 1)): killed: $who, moment: $moment" strike $moment $who
    check "... one line, after $took_ms ms: $(grep -m 1 '^zerolab: ' err | cut -c 1-100)" told
    check "... nothing is left" swept
    check "... goes on to the state of a run that was never killed" goes_on
done
finish
