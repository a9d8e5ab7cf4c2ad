#!/bin/bash
# Runs on two hosts, which network, PID, UTS and mount namespaces imitate (tests/support/two_hosts.sh): the bits of one machine, what is
# missing on a host, the link taken down and a host killed, and that nothing stays. Needs root, or user namespaces.
here=$(dirname "$(realpath "$0")") agent=$(dirname "$(realpath "$0")")/../support/two_hosts.sh
if [ -z "${TWO_HOSTS_STATE:-}" ]; then
    why=$(command -v mpirun ip unshare >/dev/null || echo "needs mpirun, ip and unshare")
    [ -n "$why" ] || why=$("$agent" true 2>&1 | head -n 1 | tr -d '\n')
    [ -z "$why" ] || { echo "1..0 # SKIP two hosts cannot be imitated here (it needs root or user namespaces): $why"; exit 0; }
    exec timeout -s KILL 200 "$agent" "$0"
fi
. "$here/../support/tap.sh"
export TWO_HOSTS_PRIVATE=$XDG_RUNTIME_DIR # b sees no run's folder of a
mkdir tmp && export TMPDIR=$work/tmp # Open MPI's files
two="--hosts a:2,b:2 --launch-agent $agent"
counted() { awk '{ sum += $1 } END { print sum }' /sys/class/net/v0/statistics/[rt]x_"$1"; } # bytes or packets, both ways
has() { grep -qE -- "$2" "$1" || { echo "# $1 lacks $2"; return 1; }; }
refused() { # STATUS PATTERN ARGS...: one line on standard error that matches, and this exit status
    local wanted=$1 pattern=$2
    shift 2
    timeout 60 "$zerolab" train --headless "$@" >out 2>err
    local status=$?
    [ $status -eq "$wanted" ] && [ "$(grep -c . err)" -eq 1 ] && grep -qE -- "$pattern" err && return
    echo "# status $status: $(cat err)"
    return 1
}
alive() { ps -e -o comm= | grep -qE '^(zerolab|orted|mpirun)'; } # on a
quiet() { ! alive && nothing_left && [ ! -e "$TMPDIR/ompi.a.$(id -u)" ]; }

ids() { readlink /proc/self/ns/pid; sh "$agent" b readlink /proc/self/ns/pid; }
check "two machines: two hosts have two PID namespaces" [ "$(ids | sort -u | wc -l)" -eq 2 ]
hops=zero_optimization.mics_hierarchical_params_gather
run=(--steps 8 --set zero_optimization.stage=1 --at "2:set $hops=true" --at "4:stage=3" --at "6:set $hops=false" --at "7:set zero_optimization.mics_shard_size=2"
    --set data.validation_fraction=0)
check "one machine, two virtual nodes" train one $tiny "${run[@]}" --set topology.ranks_per_node=2
check "two hosts, stage 1, with two hops, then 3, with one, then hybrid" train two $tiny "${run[@]}" $two --trace two.zlt --log log
check "... have the bits of one machine" same_bits one two

# Bytes of twenty steps of stage 3: what the interface counts in 24 steps, less what it counts in 4. The report is of one machine, which has
# the records of all ranks; it gives means over ranks and steps.
stage3="$tiny --set zero_optimization.stage=3 --set data.validation_fraction=0"
steps() { # STEPS ARGS...: sets bytes and packets
    bytes=$(counted bytes) packets=$(counted packets)
    train crossed $stage3 $two --steps "$@"
    bytes=$(($(counted bytes) - bytes)) packets=$(($(counted packets) - packets))
}
steps 4; few_bytes=$bytes few_packets=$packets
steps 24; all_bytes=$bytes bytes=$(((bytes - few_bytes) / 20)) headers=$(((packets - few_packets) * 66 / 20)) # of Ethernet, IP, and TCP with timestamps
train ours $stage3 --steps 4 --set topology.ranks_per_node=2
ours=$(tr -d ' \t\n' <ours.json | grep -oE '"link":"inter","count":[0-9.]*,"sent_bytes_per_step":[0-9.]*' | awk -F: '{ sum += $4 } END { printf "%.0f", sum * 4 }')
control=$((bytes - headers - ours)) # the messages with which ranks meet at the begin of each collective
echo "# a step: the interface counts $bytes bytes, the report $ours between nodes; $headers are headers, $control are control messages"
check "their data crosses the interface, and little else" holds "$ours > 100000 && $control > 0 && $control < $ours / 20"
steps 24 --set $hops=true
echo "# 24 steps: $all_bytes bytes, in two hops $bytes"
check "... half of it in two hops" holds "$bytes > $all_bytes * 0.5 && $bytes < $all_bytes * 0.55"
check "nothing is left" quiet

echo "a slots=2 # first
b slots=2 max_slots=4" >hostfile
check "a hostfile, and fewer ranks than slots" train three $tiny --steps 3 -n 3 --hostfile hostfile --launch-agent "$agent"
echo "c slots=x" >>hostfile
slurm() { SLURM_JOB_NODELIST=a,b SLURM_TASKS_PER_NODE='2(x2)' train "$@"; }
check "the variables of a Slurm allocation" slurm four $tiny "${run[@]}" --launch-agent "$agent"
check "... have the same bits" same_bits one four
check "a wrong line is named" refused 2 'hostfile, line 3: "slots=x" is not a number' --hostfile hostfile
check "more ranks than slots" refused 2 'hosts have 4 slots' -n 5 $two
check "this machine must be among the hosts" refused 2 'this machine is not among the hosts' --hosts b:2
check "two hops, and a host with fewer ranks" refused 2 "$hops = true: needs as many ranks on each node; 2 nodes have up to 2 of 3 ranks" $stage3 $two -n 3 --set $hops=true
check "a launch agent that fails" refused 4 'connection to host b was lost, or could not be made: false ended with status 1' $tiny --hosts a:1,b:1 --launch-agent false

# What must be on every host: the program, texts, checkpoints.
mkdir own && cp "$root/data/default.txt" own/text
lack() { TWO_HOSTS_PRIVATE="$XDG_RUNTIME_DIR $work/own" "$@"; } # b has a folder "own" of its own
check "a text that b lacks" lack refused 3 'on host b: .*own/text' $tiny $two --set data.path=own/text --log log
check "... all ranks leave, so mpirun ends none" [ "$(grep -c . log)" -eq "$(grep -c '^zerolab: status 3: rank [23] on host b: ' log)" ]
sed 's/0\.1\.0/0.1.9/g' "$zerolab" >other && chmod +x other
export TWO_HOSTS_BIND=$work/other:$zerolab
check "another version on b" refused 2 'host b has zerolab 0.1.9, host a has 0.1.0' $tiny $two
unset TWO_HOSTS_BIND
cp "$root/configs/README.md" other && export TWO_HOSTS_BIND=$work/other:$work/own/text
check "another text on b" refused 3 'own/text: host b and host a have different files' $tiny $two --set data.path=own/text
unset TWO_HOSTS_BIND
check "a folder for checkpoints that b does not see" lack refused 2 'host b does not see what host a writes there, so shards 2, 3 of 4 would be lost' \
    $tiny $two --set checkpoint.path=own/ck
check "... which nobody has made" [ "$(ls -A own)" = text ]
check "... set in a run: the save is refused, the run goes on" lack train late $tiny $two --steps 4 --at 2:set\ checkpoint.path=own/ck --at 3:stage=3 \
    --at "3:fault=held 2" --at "4:fault=held 0"
check "... by name" has late.out 'host b does not see what host a writes there'
check "a rank cannot be held: far ones" has late.out 'command fault=held 2 refused: .*share no memory with rank 0'
check "... nor others, because far ones could not be released" has late.out 'command fault=held 0 refused: .*share no memory with rank 0'

doctor() { TWO_HOSTS_PRIVATE="$XDG_RUNTIME_DIR $work/own" "$zerolab" doctor --launch-agent "$agent" "$@" >out 2>err; }
check "doctor looks at both" doctor --hosts a,b --path "$work"
check "... their versions, clocks, folders and link" has out '^good  b +zerolab [0-9.]+, as on a$'
check "... the clock, which the two share" has out '^good  clock b +-?0\.[0-9]+ ms (behind|ahead of) a, within 0\.|^good  clock b +[0-9.]+ ms'
check "... a shared folder" has out "^good  folder b +$work is one folder"
check "... the link" has out '^good  a, b +[0-9]+ us until both have a message, [0-9.]+ GB/s each way'
doctor --hosts a,b --path "$work/own" --json
check "... one that is not" has out 'own is not that of a'
doctor --hosts a,c
check "... a host that is not there is bad" [ $? -eq 1 ]
check "... by name" has out '^bad   a, c +the connection to host c'

# Four emulated GPUs (make fake), two of which are the first and the second of each host.
emulated=$root/build/fake/zerolab
if [ -x "$emulated" ] && [[ $zerolab = *release* ]]; then
    export FAKE_FOLDER=$work FAKE_PEERS=0
    gpus="$tiny --steps 3 --set topology.backend=cuda --set bf16.enabled=true --set train_micro_batch_size_per_gpu=1 --set zero_optimization.stage=3"
    FAKE_GPUS=4 zerolab=$emulated check "four GPUs of one machine" train gpus-one -n 4 $gpus
    FAKE_GPUS=2 zerolab=$emulated check "two of each host" train gpus-two $two $gpus --set topology.collectives=nccl
    check "... have the same bits" same_bits gpus-one gpus-two
else skip "GPUs of two hosts" "no emulated ones (make fake), or another build"; fi

# A lost host: the run ends in time, says which, and goes on from its checkpoint.
lose() { # HOW
    rm -rf ck lost.json
    timeout 60 "$zerolab" train --headless $tiny $two --steps 100000 --report lost.json --trace lost.zlt --set checkpoint.path=ck --set checkpoint.every=20 >out 2>err &
    local pid=$! begun
    eventually [ -e ck/latest ] || { cat out err; kill $pid; return 1; }
    echo "$1" >/run/control
    begun=$SECONDS
    wait $pid
    local status=$?
    echo "# $1: status $status after $((SECONDS - begun)) s: $(grep zerolab: err)"
    [ $status -eq 4 ] && [ $((SECONDS - begun)) -le 30 ] && has err 'host b was lost' && has lost.json '"error":.*host b was lost' &&
        "$zerolab" replay lost.zlt --frame 160x40 --at end >lost && has lost 'ENDED +failed: .*host b was lost'
}
check "the link taken down" lose down
check "... leaves nothing" eventually quiet
echo up >/run/control
check "a host killed" lose kill
check "... leaves nothing" eventually quiet
step=$(sed 's/step-//' ck/latest)
cp -r ck own/
check "... from a checkpoint that b does not see" lack refused 3 'on host b: .*own/ck' --resume own/ck --steps $((step + 2)) $two
check "it goes on from its checkpoint" train on --resume ck --steps $((step + 2)) $two
check "... as one machine does" train alone --resume "ck/step-$step" --steps $((step + 2)) --set checkpoint.path=
check "... with the same bits" same_bits on alone

"$zerolab" train --headless $tiny $two --steps 100000 --trace lost.zlt >out 2>err &
front=$!
eventually test -s lost.zlt
kill -9 $front
wait $front 2>/dev/null
check "the front end killed: all end" eventually eval '! alive'
check "the next run" train next $tiny $two --steps 1
check "... sweeps what is left" quiet

# Ranks that the user's own mpirun starts.
outer() { timeout 60 mpirun --host a:2,b:2 --map-by slot --oversubscribe --mca plm_rsh_agent "$agent" --mca btl self,tcp -n 4 "$zerolab" train --headless "$@" >out 2>err; }
check "ranks of another mpirun" outer $tiny "${run[@]}" --report outer.json --trace outer.zlt
check "... have the same bits" same_bits one outer
check "... one report of one front end" [ "$(grep -c '^report: ' out)" -eq 1 ]
outer $tiny "${run[@]}" --detach
check "... cannot be detached" [ $? -eq 2 ]
check "... by name" has err 'another launcher has started 4 ranks'
check "... cannot be started again" outer $tiny --steps 4 --at 2:ranks=2 --report refused.json
check "... by name" has out 'ranks on several hosts, or of another launcher, cannot be started again'
check "nothing is left" quiet

finish
