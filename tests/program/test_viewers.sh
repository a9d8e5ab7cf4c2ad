#!/bin/bash
# Several viewers of one run: the first that may drives and others see that they watch; one that stands still or dies holds up
# nobody; when the driver has left, the next to come drives.
. "$(dirname "$0")/../support/screen.sh"
"$zerolab" train --detach $threads $paced --report run.json >detached 2>&1
ok "a run that goes on by itself" $?
run=$("$zerolab" attach --json | grep -o '"run":[0-9]*' | grep -o '[0-9]*')
at_end() { kill $run 2>/dev/null; end_screens; }

# Each viewer has a terminal of its own; `viewer N` says which one is looked at and typed to.
viewer() { server=$1; }
attach() { # number [options]
    viewer "$1"
    start_another "$zerolab" attach $run ${2-}
}
goes_on() { eventually goes_past $(($(step) + 3)); } # trains on, as the looked-at viewer sees it

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
keys , ,
waits_for "one operation" 'before op 1 '
viewer 2
waits_for "... for both" 'before op 1 '
viewer 1
keys Space
waits_for "and goes on" 'RUNNING'
kill -STOP "$(pane_pid)"
viewer 2
goes_on
ok "a viewer that stands still holds up nobody" $?
viewer 1
kill -9 "$(pane_pid)"
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
eventually grep -q '"outcome":.*"stopped"' run.json
ok "the report is whole" $?
finish
