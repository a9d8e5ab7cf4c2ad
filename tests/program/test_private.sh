#!/bin/bash
# What other users of the machine can reach of a run: no port, and nothing in its folder (docs/SECURITY.md). What somebody who
# was there first can spoil, and what is left by commands that only look.
. "$(dirname "$0")/../support/tap.sh"

# The internet sockets of processes, by their inodes in the kernel's tables: of all rows, or of those that an awk condition takes.
sockets_of() {
    local pid inodes
    inodes=$(awk "FNR > 1 && ${2:-1} { print \$10 }" /proc/net/tcp /proc/net/tcp6 /proc/net/udp /proc/net/udp6 2>/dev/null)
    for pid in $1; do
        ls -l /proc/"$pid"/fd 2>/dev/null | sed -n 's/.*socket:\[\([0-9]*\)\].*/\1/p'
    done | sort -u | grep -xFf <(echo "$inodes")
}
internet_sockets() { sockets_of "$(family "$1")"; } # of a run
listens='$4 == "0A"' on_all_interfaces='$2 ~ /^0+:/'
start() {
    rm -f out err
    "$zerolab" train --headless --steps 100000 "$@" >out 2>err </dev/null &
    front=$!
    eventually grep -q "^step " out
}
stop() { kill -INT $front; wait $front; }

check "a run" start
run=$XDG_RUNTIME_DIR/zerolab-$front
check "no process of it has an internet socket" [ -z "$(internet_sockets $front)" ]
check "its folder is its user's alone" [ "$(stat -c %a "$run")" = 700 ]
check "so is the socket that rank 0 calls at" [ "$(stat -c %a "$run/home")" = 600 ]
check "so is the socket of viewers" [ "$(stat -c %a "$run/socket")" = 600 ]
nothing_else() { [ "$(ls "$run" | grep -vxE 'home|socket|lock|run.json|saves' | tr '\n' ' ')" = "" ] || { ls "$run" | sed 's/^/# /'; return 1; }; }
check "... and nothing else lies there" nothing_else
if [ "$(id -u)" -eq 0 ] && command -v setpriv >/dev/null; then
    rank=$(children "$(children $front | tr -d ' ')" | cut -d ' ' -f 1)
    refused_to_others() { ls "$1" >out 2>&1 && ! setpriv --reuid=64321 --regid=64321 --clear-groups ls "$1" >out 2>&1 && grep -q 'Permission denied' out; }
    check "no other user can look into its folder" refused_to_others "$run"
    check "... nor at the memory that its ranks share" refused_to_others /proc/"$rank"/fd
fi
stop
check "a run whose ranks are threads" start --set topology.ranks_as=threads
check "... has no internet socket either" [ -z "$(internet_sockets $front)" ]
stop
if command -v mpirun >/dev/null; then # the check can fail: mpirun has some, and SECURITY.md says so
    check "a run under mpirun" start --set topology.ranks_as=mpirun
    check "... has internet sockets" [ -n "$(internet_sockets $front)" ]
    launcher=$(children $front | tr -d ' ') run=$XDG_RUNTIME_DIR/zerolab-$front
    check "... mpirun listens on all interfaces" [ -n "$(sockets_of "$launcher" "$listens && $on_all_interfaces")" ]
    ranks=$(children "$launcher")
    check "... its ranks have some, too" [ -n "$(sockets_of "$ranks")" ]
    check "... but do not listen" [ -z "$(sockets_of "$ranks" "$listens")" ]
    check "... its folder is its user's alone, too" [ "$(stat -c %a "$run")" = 700 ]
    check "... and has the files of Open MPI 4 or 5" eval 'ls -d "$run"/*_segment.* >out && ls -d "$run"/ompi.* "$run"/prterun.* 2>/dev/null | grep -q .'
    stop
fi

# Started by somebody else's mpirun or srun, several times, as if that had another MPI: the processes do not meet.
elsewhere() { env TMPDIR="$work" "$@" "$zerolab" train --headless --steps 1 >out 2>err; [ $? -eq 4 ] && [ "$(grep -c . err)" -eq 1 ] && grep -q "^zerolab: MPI has started 1 rank, not 8; start zerolab with the mpirun" err; }
if command -v mpirun >/dev/null; then
    check "as a rank of another mpirun it does not train alone" elsewhere OMPI_COMM_WORLD_SIZE=8 OMPI_COMM_WORLD_RANK=3
    check "... nor as rank 0" elsewhere OMPI_COMM_WORLD_SIZE=8 OMPI_COMM_WORLD_RANK=0
    check "... nor as a task of srun" elsewhere SLURM_STEP_NUM_TASKS=8 SLURM_PROCID=1
    timeout 60 mpirun --allow-run-as-root --oversubscribe -n 2 "$zerolab" train --headless --steps 1 --report two.json >out 2>err
    check "as a rank of this mpirun it trains with the others" [ $? -eq 0 ]
    check "... as one run" [ "$(grep -c '^report: ' out)" -eq 1 ]
else
    skip "a rank of another launcher" "needs mpirun"
fi
check "alone in a step of srun it runs" env SLURM_STEP_NUM_TASKS=1 SLURM_PROCID=0 "$zerolab" train --headless --steps 1 -n 1

# ---- as somebody without XDG_RUNTIME_DIR, whose folder in /tmp is missing or taken ----

other=64321 base=/tmp/zerolab-64321
if [ "$(id -u)" -ne 0 ] || [ -e $base ] || ! command -v setpriv >/dev/null; then skip "another user" "needs root and setpriv"; finish; fi
at_end() { rm -rf $base; }
chmod 755 "$work"
mkdir -m 777 "$work/open"
cp "$zerolab" "$work/program" && zerolab=$work/program # another user may not come to where the checkout lies
as_other() { (cd "$work/open" && env -u XDG_RUNTIME_DIR HOME="$work/open" setpriv --reuid=$other --regid=$other --clear-groups "$@"); }
as_other "$zerolab" --version >out || { skip "another user" "who may not run a program in TMPDIR"; finish; }
as_other "$zerolab" attach >out 2>&1
as_other "$zerolab" attach --json >out 2>&1
check "attach leaves no folder" [ ! -e $base ]
check "a run makes one" as_other "$zerolab" train --headless --steps 1 -n 2
check "... and takes it away" [ ! -e $base ]

mkdir -m 777 $base # root was there first
as_other "$zerolab" train --headless --steps 1 -n 2 >out 2>err
check "a folder of that name that is another's is refused" [ $? -eq 4 ]
check "... with what its victim can do" grep -qxE "zerolab: $base belongs to another user \(0\), so your runs cannot be kept there; set XDG_RUNTIME_DIR to a folder of yours with mode 0700" err
check "... which helps" as_other sh -c 'mkdir -m 700 own && XDG_RUNTIME_DIR=$PWD/own "$0" train --headless --steps 1 -n 2' "$zerolab"
as_other sh -c 'mkdir -m 755 loose && XDG_RUNTIME_DIR=$PWD/loose "$0" train --headless --steps 1 -n 2' "$zerolab" >out 2>err
check "... unless others may enter it, too" grep -q "^zerolab: $base belongs to another user" err
rmdir $base
ln -s "$work/open/own" $base
as_other "$zerolab" train --headless --steps 1 -n 2 >out 2>err
check "so is a link" grep -q "^zerolab: $base belongs to another user (0)" err
rm $base
as_other mkdir -m 755 $base
as_other "$zerolab" train --headless --steps 1 -n 2 >out 2>err
check "one that others may enter is refused, too" grep -q "$base must be a folder that only you may enter; remove it, or: chmod 700 $base" err
finish
