# For tests that drive the real program, sourced by them: TAP output, a folder of their own, and waiting for a condition.
#
#     check "name of the test" command...      ok if the command succeeds
#     ok "name of the test" $?                 ... if this status is 0
#     finish                                   the plan line, and the exit status
set -u
root=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../..")
zerolab=$(realpath "${ZEROLAB:-$root/build/release/zerolab}")
work=$(mktemp -d "${TMPDIR:-/tmp}/zerolab-script-XXXXXX")
export HOME=$work XDG_RUNTIME_DIR=$work/runtime TERM=dumb
# Where no CONFIG is given: what these tests say is about nano. A copy, which other users can read where the checkout is private.
export ZEROLAB_CONFIG=$work/.nano.json
cp "$root/configs/nano.json" "$ZEROLAB_CONFIG" && chmod 644 "$ZEROLAB_CONFIG" || exit 1
mkdir -m 700 "$XDG_RUNTIME_DIR"
threads="--set topology.ranks_as=threads"
# For a run that is there to be looked at: a step of nano takes 0.1 s, and the processors are left to others.
paced="--set topology.device_flops=1e10"
# A model whose steps take next to no time.
tiny="--set model.name=custom --set model.layers=2 --set model.hidden=32 --set model.heads=2 --set model.context=32 \
--set data.sequence_length=32 --set model.vocabulary=256"

at_end() { :; } # what a script ends before its folder is removed
on_failure() { :; } # what a failed test prints besides its name
trap 'at_end; rm -rf "$work"' EXIT
cd "$work" || exit 1
count=0 failures=0

check() {
    local name=$1
    count=$((count + 1))
    shift
    if "$@"; then echo "ok $count - $name"; else
        echo "not ok $count - $name"
        failures=$((failures + 1))
        on_failure
    fi
}

ok() {
    check "$1" [ "$2" -eq 0 ]
}

skip() {
    count=$((count + 1))
    echo "ok $count - $1 # SKIP $2"
}

finish() {
    echo "1..$count"
    [ $failures -eq 0 ]
    exit
}

# Waits until the command succeeds. The limit is long, because on a busy machine everything comes late.
patience=${PATIENCE:-90}
eventually() {
    local end=$((SECONDS + patience))
    until "$@" >/dev/null 2>&1; do
        [ $SECONDS -lt $end ] || { echo "# not in $patience s: $*"; return 1; }
        sleep 0.05
    done
}

# Runs headless with the report in NAME.json: train NAME ARGS...
train() {
    local name=$1
    shift
    "$zerolab" train --headless --report "$name.json" "$@" >"$name.out" 2>"$name.err" || { sed 's/^/# /' "$name.err"; return 1; }
}

# What must be equal bit by bit: the losses of all steps, what was skipped at which scale, and the hash of the state.
bits() {
    sed -nE '/"(loss_bits|loss_scale|skipped|state_hash)"/ { s/[ \t,]//g; p }' "$1.json"
}

same_bits() {
    local one other
    one=$(bits "$1") other=$(bits "$2")
    [ -n "$one" ] || { echo "# $1 has no losses"; return 1; }
    [ "$one" != "$other" ] || return 0
    diff <(echo "$one") <(echo "$other") | sed 's/^/# /'
    return 1
}

# The steps of B are the last ones of A, bit for bit, and so is the state.
ends_like() {
    local steps lines
    steps=$(grep -c '"loss_bits"' "$2.json")
    lines=$((3 * steps + 1)) # of a step three, and the state
    [ "$steps" -gt 0 ] || { echo "# $2 has no losses"; return 1; }
    diff <(bits "$1" | tail -n $lines) <(bits "$2" | tail -n $lines) >differences || { sed 's/^/# /' differences; return 1; }
}

same_hash() {
    local one two
    one=$(bits "$1" | grep state_hash) two=$(bits "$2" | grep state_hash)
    [ -n "$one" ] && [ "$one" = "$two" ] || { echo "# $1 $one, $2 $two"; return 1; }
}

# holds EXPRESSION: of numbers
holds() { awk "BEGIN { exit !($1) }" || { echo "# not so: $1"; return 1; }; }

# Whether no run has left anything in the folder of runs.
nothing_left() { [ -z "$(ls -A "$XDG_RUNTIME_DIR")" ] || { ls -AR "$XDG_RUNTIME_DIR" | sed 's/^/# /'; return 1; }; }

# ---- processes ----

children() { cat /proc/"$1"/task/*/children 2>/dev/null; } # PID
family() { # PID: it and all that descend from it
    local child
    echo "$1"
    for child in $(children "$1"); do family "$child"; done
}
gone() { # PID...: all have ended; a zombie waits for its parent only
    local pid
    for pid in "$@"; do
        [ ! -e "/proc/$pid" ] || grep -q '^State:.*Z' "/proc/$pid/status" 2>/dev/null || return 1
    done
}
