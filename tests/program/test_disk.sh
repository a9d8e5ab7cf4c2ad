#!/bin/bash
# What becomes of a run when the disk behind its NVMe tier is not what it should be: folders that will not do, one that is removed,
# a disk that is full at the start, in a switch, in a step; no direct I/O; kill -9. On file systems of our own, which need root,
# or namespaces of an ordinary user.
if [ -z "${OWN_MOUNTS:-}" ]; then
    export OWN_MOUNTS=1
    for flags in -m -rm; do
        unshare $flags mount -t tmpfs none /mnt 2>/dev/null && exec unshare $flags bash "$0" "$@"
    done
    OWN_MOUNTS=none
fi
. "$(dirname "$0")/../support/tap.sh"
steps=20
three="$threads --set zero_optimization.stage=3 --set model.name=custom --set model.layers=3 --set model.hidden=64 --set model.heads=4 \
--set model.context=32 --set data.sequence_length=32 --set model.vocabulary=257"
states="--set zero_optimization.offload_optimizer"
all() { # FOLDER: where everything lies
    echo "$three $states.device=nvme $states.nvme_path=$1 --set zero_optimization.offload_param.device=nvme --set zero_optimization.offload_param.max_in_cpu=0"
}
says() { # "text" FILE: one line, with these words
    [ "$(grep -c . "$2")" -le 1 ] && grep -q "$1" "$2" || { echo "# said: $(cat "$2")"; return 1; }
}
empty() { [ -z "$(ls -A "$1")" ] || { echo "# left: $(ls -A "$1")"; return 1; }; }
refused() { # "text" ARGS...
    local text=$1
    shift
    "$zerolab" train --headless --steps 2 "$@" >out 2>err
    local status=$?
    [ $status -eq 2 ] || { echo "# exit status $status"; return 1; }
    says "$text" err
}
# Starts a run whose disk answers late, so that it takes a while, and waits until it trains.
start() { # NAME ARGS...
    local name=$1
    shift
    "$zerolab" train --headless --report "$name.json" --steps $steps --set topology.links.nvme.latency=5ms "$@" >"$name.out" 2>"$name.err" </dev/null &
    run=$!
    eventually grep -q "^step " "$name.out"
}
ended() { wait $run || { echo "# exit status $?: $(cat ./*.err)"; return 1; }; }

kill_it() { { kill -9 $run $(cat /proc/$run/task/*/children) && wait $run; } 2>/dev/null; }

mkdir folder small plainfile.d
touch plainfile

# Folders that will not do: one line that says what to do.
check "a folder that is not there" refused "no-such: No such file or directory; make it (mkdir -p)" $(all no-such)
check "a file" refused "plainfile: Not a directory; set nvme_path to a folder" $(all plainfile)
if [ "$(id -u)" != 0 ]; then
    chmod 500 small
    check "a folder without permission" refused "Permission denied; set nvme_path to a folder that you may write to" $(all small)
    chmod 700 small
elif command -v setpriv >/dev/null && setpriv --reuid=65534 --regid=65534 --clear-groups true 2>/dev/null; then
    mkdir -p other/runtime && chmod 711 . other && chown 65534 other/runtime && chmod 700 other/runtime small
    cp "$zerolab" other/program && program=$work/other/program # nobody may not come to where the checkout lies
    as_nobody() { XDG_RUNTIME_DIR=$work/other/runtime setpriv --reuid=65534 --regid=65534 --clear-groups "$program" "$@"; }
    as_other() { zerolab=as_nobody refused "$@"; }
    check "a folder without permission" as_other "Permission denied; set nvme_path to a folder that you may write to" $(all "$work/small")
else skip "a folder without permission" "this user has all permissions"; fi

# The folder goes away while the run goes on: it has what it needs.
check "the reference, on the device" train plain --steps $steps $three
mkdir gone
check "a run with all on NVMe" start removed $(all gone)
check "its folder is empty meanwhile" empty gone
check "... and can be removed" rmdir gone
check "... which it does not notice" ended
check "... the same bits" same_bits plain removed

# As processes too, and late.
late="--set schedule.delayed_update=true --set schedule.delayed_update_after=2 --set topology.ranks_as=processes"
check "delayed updates from host memory" train late --steps $steps $three $states.device=cpu $late
check "... with all on NVMe" train later --steps $steps $(all folder) $late
check "... the same bits" same_bits late later
check "the first units' states on the device" train half --steps $steps $(all folder) $states.ratio=0.5
check "... the same bits" same_bits plain half

# kill -9 leaves nothing.
check "a run to kill" start killed $(all folder)
kill_it
check "kill -9 leaves no name in the folder" empty folder

if [ "$OWN_MOUNTS" = none ]; then
    skip "a disk that is full" "no mounts for this user"
    finish
fi

fill() { cat /dev/zero >>"$1/filler" 2>/dev/null; sync -f "$1"; }
free_bytes() { stat -f -c '%a*%S' "$1" | { read -r e; echo $((e)); }; }
full_disks() { # NAME: `small` has some 24 MiB
    local before
    before=$(free_bytes small)
    check "$1: a run with all there" start filled $(all small)
    fill small
    check "... its disk is full now" [ "$(free_bytes small)" -lt 65536 ]
    check "... which it does not notice: its blocks were reserved" ended
    check "... the same bits" same_bits plain filled
    fill small # what the run had
    check "at the start: out of memory of the NVMe tier" bash -c "! '$zerolab' train --headless --steps 4 $(all small) >out 2>err"
    check "... says what to do" grep -q "oom: the disk of small has no .* free some, or set nvme_path" out
    check "... goes on elsewhere" train elsewhere --steps $steps $three $states.device=nvme $states.nvme_path=small \
        --at oom:"set zero_optimization.offload_optimizer.device=cpu"
    check "... the same bits" same_bits plain elsewhere
    check "a switch to it" train switched --steps $steps $three $states.device=cpu $states.nvme_path=small --at 3:"set zero_optimization.offload_optimizer.device=nvme"
    check "... is refused" grep -q "refused: the disk of small has no" switched.out
    check "... and changes no bit" same_bits plain switched
    rm small/filler
    check "room was made: the switch is done" train roomy --steps $steps $three $states.device=cpu $states.nvme_path=small --at 3:"set zero_optimization.offload_optimizer.device=nvme"
    check "... the same bits" same_bits plain roomy
    check "a run to kill" start killed $(all small)
    kill_it
    check "kill -9 leaves no name" [ -z "$(ls small | grep -v lost+found)" ]
    check "... and no block" eventually bash -c "[ \$((\$(stat -f -c '%a*%S' small))) -ge $((before - 65536)) ]"
}
check "a small disk" mount -t tmpfs -o size=24m none small
full_disks "a file system in memory"
umount small
truncate -s 40M image
if command -v mkfs.ext4 >/dev/null && mkfs.ext4 -q -m 0 image && mount -o loop image small 2>/dev/null; then
    full_disks "ext4"
    umount small
else skip "a full ext4" "loop devices are root's"; fi

check "a file system without direct I/O" mount -t ramfs none small
check "... trains" train buffered --steps $steps $(all small)
check "... says so once" [ "$(grep -c 'has no direct I/O' buffered.out)" -eq 1 ]
check "... the same bits" same_bits plain buffered
umount small
finish
