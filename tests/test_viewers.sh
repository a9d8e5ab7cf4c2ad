#!/bin/bash
# Several viewers of one run: the first that may drives and others see that they watch; one that stands still or dies holds up
# nobody; when the driver has left, the next to come drives.
. "$(dirname "$0")/screen.sh"
export HOME=$place XDG_RUNTIME_DIR=$place/runtime
mkdir -m 700 "$XDG_RUNTIME_DIR"
"$zerolab" train --detach --set topology.ranks_as=threads --report run.json >detached 2>&1
ok "a run that goes on by itself" $?
run=$("$zerolab" attach --json | grep -o '"run":[0-9]*' | grep -o '[0-9]*')
trap 'kill $run 2>/dev/null; for server in 1 2 3 4; do tm kill-server; done; rm -rf "$place"' EXIT

# Each viewer has a terminal of its own; `viewer N` says which one is looked at and typed to.
viewer() { server=$1; }
attach() { # number [options]
    viewer "$1"
    tm new-session -d -x 80 -y 24 "LC_ALL=C.UTF-8 TERM=screen-256color ZEROLAB_MOUSE=no exec $zerolab attach $run ${2-}"
}
pid() { tm list-panes -F '#{pane_pid}'; }
goes_on() { # trains on, as the looked-at viewer sees it
    local before end=$((SECONDS + patience))
    before=$(step)
    until [ "$(step)" -gt $((before + 3)) ]; do [ $SECONDS -lt $end ] || return 1; sleep 0.05; done
}

attach 4 --readonly
waits_for "who came to watch takes no seat" 'WATCHING'
attach 1
waits_for "the first viewer that may drives" 'LIVE'
attach 2
waits_for "the second watches, and sees it" 'WATCHING'
keys Space
waits_for "... is told so when it sends a command" 'another viewer drives'
viewer 1
keys Space
waits_for "the first pauses the run" 'PAUSED'
viewer 2
waits_for "... for both" 'PAUSED'
viewer 1
keys ,
waits_for "one operation" 'before op 1 '
viewer 2
waits_for "... for both" 'before op 1 '
viewer 1
keys Space
waits_for "and goes on" 'RUNNING'
kill -STOP "$(pid)"
viewer 2
goes_on
ok "a viewer that stands still holds up nobody" $?
viewer 1
kill -9 "$(pid)"
viewer 2
goes_on
ok "nor does one that was killed" $?
ok "a watcher stays one" "$(shows WATCHING; echo $?)"
attach 3
waits_for "the next to come drives" 'LIVE'
keys 3
viewer 2
waits_for "... and is obeyed" 'ZeRO stage 3'
viewer 3
kill "$run"
waits_for "the end is seen by all" 'stopped|ENDED'
viewer 2
waits_for "... of them" 'stopped|ENDED'
finished() { local end=$((SECONDS + patience)); until grep -q '"outcome":.*"stopped"' run.json 2>/dev/null; do [ $SECONDS -lt $end ] || return 1; sleep 0.05; done; }
finished
ok "the report is whole" $?
done_testing
