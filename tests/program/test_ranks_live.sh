#!/bin/bash
# Other ranks while one watches: by key, at the prompt and among the knobs; the view stays, as do whoever else watches, the
# pause, the curve and the trace; and what is seen live is what a replay shows.
. "$(dirname "$0")/../support/screen.sh"

# While $work/held is there, mpirun does not go on: so that what is shown meanwhile can be seen.
mkdir bin
under_mpirun=
real=$(command -v mpirun) && under_mpirun="--set topology.ranks_as=mpirun" && printf '#!/bin/bash\nwhile [ -e %q ]; do sleep 0.05; done\nexec %q "$@"\n' "$work/held" "$real" >bin/mpirun && chmod +x bin/mpirun

# ---- a run of one's own

start 80 24 NO_COLOR=1 TERM=screen-256color PATH="$work/bin:$PATH" -- "$zerolab" train --trace live.zlt --report live.json $under_mpirun
comes 'step [3-9]'
touch held
keys '#'
waits_for "# asks for a number of ranks" '^ command +ranks='
keys 2 Enter
waits_for "what happens is said: it is saved, started and loaded" 'STARTING AGAIN +(saving|starting|loading)'
rm held
waits_for "two ranks are there" '· 2 ranks'
waits_for "... and go on" 'RUNNING'
keys Space
waits_for "paused" 'PAUSED'
keys : 'ranks 0' Enter
waits_for "a number that cannot be is said at once" 'ranks = 0: must be an integer 1..65536'
keys : 'ranks 3' Enter
waits_for "typed at the prompt: three" '· 3 ranks'
waits_for "... still paused" 'PAUSED +as before'
settled >/dev/null
before=$(($(step) + 1))
keys .
waits_for "one step" "step $before "
waits_for "... and no more" 'PAUSED +after one step'
for view in overview:overview M:memory H:tiers T:timeline B:buckets P:shards O:schedule i:why C:collectives L:loss; do
    [ "$view" = overview:overview ] || keys "${view%:*}"
    settled | body >"live.${view%:*}"
    [ "$view" = overview:overview ] || keys Escape
done
keys BSpace
waits_for "back a step: two ranks" '· 2 ranks'
keys BSpace BSpace BSpace BSpace BSpace BSpace g
waits_for "to the beginning: four" '· 4 ranks'
keys F
waits_for "and to now" '· 3 ranks'
keys o / topology.ranks Enter
waits_for "the knob says what it costs" 'Enter changes it: saves, starts again, loads \(last time [0-9.]+ s\)'
keys Enter
waits_for "... asks" '^ ranks +3'
keys BSpace 4 Enter Escape
waits_for "... and four ranks are there" '· 4 ranks'
waits_for "... still paused" 'PAUSED'
waits_for "the step is still the same" "step $before "
keys q
waits_for "leaves" 'status 0'
"$zerolab" check live.zlt >checked
ok "one whole trace" $?
[ "$(grep -c '  part ' checked)" -eq 4 ]
ok "... of four parts" $?
tr -d ' \t\n' <live.json | grep -q '"parts":\[{"first_step":1,"ranks":4},{"first_step":[0-9]*,"ranks":2},{"first_step":[0-9]*,"ranks":3},{"first_step":[0-9]*,"ranks":4}\]'
ok "... and so says the report" $?
for view in overview:overview M:memory H:tiers T:timeline B:buckets P:shards O:schedule i:why C:collectives L:loss; do
    "$zerolab" replay live.zlt --frame 80x24 --view "${view#*:}" --at "step:$before" | body >replayed
    diff "live.${view%:*}" replayed | sed 's/^/# /'
    cmp -s "live.${view%:*}" replayed
    ok "the live ${view#*:} equals the replayed one" $?
done
[ -z "$(ls -A "$XDG_RUNTIME_DIR")" ]
ok "nothing is left" $?

start 80 24 TERM=screen-256color PATH="$work/bin:$PATH" -- "$zerolab" train --trace left.zlt
comes 'step [3-9]'
touch held
keys '#' 2 Enter
comes 'STARTING AGAIN'
keys q
rm held
waits_for "one may leave while it starts again" 'status 0'
"$zerolab" check left.zlt | grep -q 'the run ended: stopped'
ok "... its trace is whole" $?
[ -z "$(ls -A "$XDG_RUNTIME_DIR")" ]
ok "... and nothing is left" $?

# ---- a run that goes on by itself, and its viewers

"$zerolab" train --detach --set topology.ranks_as=threads --report run.json --trace run.zlt >detached 2>&1
ok "a run that goes on by itself" $?
run=$("$zerolab" attach --json | grep -o '"run":[0-9]*' | grep -o '[0-9]*')
at_end() { kill $run 2>/dev/null; end_screens; }
viewer() { server=$1; }
attach() {
    viewer "$1"
    start_another "$zerolab" attach $run
}
tm kill-server
attach 11
waits_for "one drives" 'LIVE'
attach 12
waits_for "another watches" 'WATCHING'
viewer 11
keys '#' 3 Enter
waits_for "who drives asks for three ranks" '· 3 ranks'
viewer 12
waits_for "who watches sees them" '· 3 ranks'
waits_for "... and still watches" 'WATCHING'
viewer 11
keys Space
waits_for "who drove still drives" 'PAUSED'
attach 13
waits_for "who comes later sees three ranks" '· 3 ranks'
waits_for "... paused" 'PAUSED'
viewer 11
keys '#' 1 Enter
viewer 13
waits_for "one rank, for all" '· 1 rank '
kill "$run"
eventually grep -q '"outcome":.*"stopped"' run.json
ok "its number still stops it" $?
tr -d ' \t\n' <run.json | grep -q '"ranks":1},*\]'
ok "... with a report of all parts" $?
"$zerolab" check run.zlt >/dev/null
ok "... and a whole trace" $?
finish
