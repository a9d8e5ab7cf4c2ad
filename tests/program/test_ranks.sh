#!/bin/bash
# Other ranks in the middle of a run: the same bits where nothing else changed, the same state wherever it is loaded, one trace
# and one report, refusals that change nothing, and a way back when the new ranks cannot start.
. "$(dirname "$0")/../support/tap.sh"
has() { tr -d ' \t\n' <"$1" | grep -qE -- "$2" || { echo "# $1 lacks $2"; return 1; }; }
losses() { grep '"loss_bits"' "$1.json" | sed -n "$2"; }

check "a run that never stops" train whole $tiny --steps 8 $threads --at 4:stage=3
check "one that starts again with as many ranks" train again $tiny --steps 8 $threads --at 4:stage=3 --at 6:ranks=4 --trace again.zlt
check "... has the same bits" same_bits whole again
check "... nothing is left of what it saved" nothing_left
for precision in bf16 fp16; do
    train whole16 $tiny --steps 6 $threads --set $precision.enabled=true
    check "$precision" train again16 $tiny --steps 6 $threads --set $precision.enabled=true --at 4:ranks=4
    check "... has the same bits" same_bits whole16 again16
done

check "a run to hold others against" train stopped $tiny --steps 30 $threads --at 6:stop
delayed="--set bf16.enabled=true --set zero_optimization.stage=2 --set zero_optimization.offload_optimizer.device=cpu \
--set schedule.delayed_update=true --set schedule.delayed_update_after=2"
check "delayed updates" train whole_late $tiny --steps 6 $threads $delayed
check "... whose pending gradients go along" train again_late $tiny --steps 6 $threads $delayed --at 4:ranks=4
check "... have the same bits" same_bits whole_late again_late
check "4, 2, 3, 1, 4 ranks between two steps" train hops $tiny --steps 30 $threads --at 6:ranks=2 --at 6:ranks=3 --at 6:stage=2 --at 6:ranks=1 --at 6:ranks=4 --at 6:stop
check "... and the state is the same" same_hash stopped hops

check "4, then 2, then 3 ranks" train parts $tiny --steps 12 $threads --at 5:ranks=2 --at 9:ranks=3 --trace parts.zlt
check "... are in the report, with an array of each length" has parts.json '"parts":\[\{"first_step":1,"ranks":4\},\{"first_step":5,"ranks":2\},\{"first_step":9,"ranks":3\}\]'
check "... and what was changed" has parts.json '"kind":"ranks","detail":\{"from":2,"to":3,'
lengths() { tr -d ' \t\n' <parts.json | grep -oE '"sent_bytes":\[[0-9,]*\]' | awk -F, '{ printf "%d", NF }'; }
check "... of each step" [ "$(lengths)" = 444422223333 ]
"$zerolab" check parts.zlt >out
check "the trace is whole" [ $? -eq 0 ]
check "... and says its parts" grep -q 'part 2: 2 ranks, steps 5 to 8' out
"$zerolab" analyze parts.zlt >out
check "an analysis has a section for each" [ "$(grep -cE '^ZeRO stage 0, [423] ranks, steps' out)" -eq 3 ]
check "... and names them" grep -q '4, then 2, then 3 ranks' out
frame() { "$zerolab" replay "$1" --frame 80x24 --view "$2" --at "$3" >"$4" 2>err; }
for view in overview timeline memory shards schedule buckets collectives why; do
    check "$view before, between and after" eval "frame parts.zlt $view step:4 a && frame parts.zlt $view step:8 b && frame parts.zlt $view end c"
done
frame parts.zlt overview step:4 out && check "before, there are four" grep -q '4 ranks' out
frame parts.zlt overview step:8 out && check "then two" grep -q '2 ranks' out
frame parts.zlt memory step:8 out && check "... in the view of memory" eval '! grep -qE "^ +[23] \[" out'

check "what cannot be is refused, and the run goes on" train refused --steps 6 $threads \
    --at "2:set model.layers=5" --at "2:set bf16.enabled=true" --at "3:set topology.ranks_per_node=3" --at "3:set data.path=/nowhere" \
    --at "4:set memory.device_budget=1e6" --at 5:ranks=3
check "... another model" grep -q 'step 2: command set model.layers=5 refused: this would be another model' refused.out
check "... another precision" grep -q 'enabled=true refused: precision and optimizer' refused.out
check "... nodes that do not come out even" grep -q 'ranks_per_node=3 refused: .*must divide' refused.out
check "... a text that is not there" grep -q 'data.path=/nowhere refused: .*No such file' refused.out
check "... what is possible is done" grep -q 'step 5: ranks: from 4, to 3' refused.out
if [ "$(awk '/^MemAvailable/ { print int($2 / 1048576) }' /proc/meminfo)" -lt 100 ]; then
    check "more ranks than there is memory for" train many --steps 2 -n 1 $threads --set train_micro_batch_size_per_gpu=1023 --at 1:ranks=64 --at 1:stop
    check "... are refused too" grep -q 'ranks=64 refused: 64 ranks of .* do not fit' many.out
else skip "more ranks than there is memory for" "there is"; fi
check "the batch stays where it can, and else it is said" grep -q "from step 9 on a step is 24 samples, not 16" parts.out
check "threads of a rank, and what ranks are, are changed in the same way" train as --steps 6 $threads \
    --at "3:set topology.threads_per_rank=2" --at "5:set data.seed=7"
check "... and said" grep -q 'step 3: set: key topology.threads_per_rank, from 1, to 2' as.out

check "out of memory, more ranks are a way out" train oom --steps 6 $threads --set zero_optimization.stage=3 --at 3:budget=13.5MB --at oom:ranks=8
check "... and the step is taken again" has oom.json '"outcome":"finished"'
check "not even the state fits" train tight --steps 3 -n 1 $threads --set zero_optimization.stage=3 --set memory.device_budget=13MB --at oom:ranks=8
check "... more ranks begin the run" has tight.json '"parts":\[\{"first_step":1,"ranks":1\},\{"first_step":1,"ranks":8\}\]'

check "ranks are processes" train processes $tiny --steps 8 --at 4:stage=3 --at 6:ranks=4
check "... the same bits" same_bits whole processes
check "from threads to processes and back" train both $tiny --steps 8 $threads --at 4:stage=3 --at "5:set topology.ranks_as=processes" --at "7:set topology.ranks_as=threads"
check "... the same bits" same_bits whole both

if ! command -v mpirun >/dev/null; then skip "an mpirun that fails" "no mpirun"; finish; fi
under_mpirun="--set topology.ranks_as=mpirun"
check "from processes to mpirun and back" train mpirun $tiny --steps 8 --at 4:stage=3 --at "5:set topology.ranks_as=mpirun" --at "7:set topology.ranks_as=processes"
check "... the same bits" same_bits whole mpirun

# As many ranks of one thread as there are cores: a rank computes on its own.
children() { cat /proc/"$1"/task/*/children 2>/dev/null; }
rank_cores() { # how many cores the engine's threads may use, each number once
    local engine rank
    for engine in $(children "$front"); do
        for rank in $(children "$engine"); do sed -n 's/^Cpus_allowed_list:\t//p' /proc/"$rank"/task/*/status; done
    done 2>/dev/null | sort -u
}
cores_are() { [ "$(rank_cores | xargs)" = "$1" ]; }
bound() { # CORES SETTINGS...: of the threads of a run
    "$zerolab" train --headless $tiny --steps 1000000 "${@:2}" >out 2>err </dev/null &
    front=$!
    eventually cores_are "$1"
    local status=$?
    kill -INT $front
    wait $front
    return $status
}
cores=$(nproc) all=$(sed -n 's/^Cpus_allowed_list:\t//p' /proc/self/status)
if [ "$cores" -gt 1 ] && [ "$cores" -le 64 ] && [ "$cores" -eq "$(getconf _NPROCESSORS_ONLN)" ]; then
    on="--set topology.bind_cores=true"
    check "each rank computes on its own core" bound "$( (seq 0 $((cores - 1)) && echo "$all") | sort -u | xargs)" -n "$cores" $on
    check "... but one that leaves a core over on any" bound "$all" -n $((cores + 1)) $on
    check "... and where that is not asked for" bound "$all" -n "$cores"
else skip "each rank computes on its own core" "$cores cores"; fi

# Something stands where the state is to be saved: whoever starts the ranks puts it there.
real=$(command -v mpirun)
mkdir full
cat >full/mpirun <<SCRIPT
#!/bin/bash
for run in "\$XDG_RUNTIME_DIR"/zerolab-*/; do echo >"\$run/state"; done
exec $real "\$@"
SCRIPT
chmod +x full/mpirun
PATH=$work/full:$PATH check "a state that cannot be saved does not end the run" train full $tiny $under_mpirun --steps 4 --at 2:ranks=2 --at 4:ranks=3
check "... and is said, every time" [ "$(grep -c 'the state could not be saved, so the run goes on as it was: ' full.out)" -eq 2 ]

# What every engine said.
mkdir talks
printf '#!/bin/bash\necho "an engine comes" >&2\nexec %q "$@"\n' "$real" >talks/mpirun
chmod +x talks/mpirun
echo "of another run" >talks.log
PATH=$work/talks:$PATH check "a log" train talks $tiny $under_mpirun --steps 3 --at 2:ranks=2 --at 3:ranks=3 --log talks.log
check "... is of all engines, and of this run" [ "$(uniq -c talks.log | xargs)" = "3 an engine comes" ]

# How long threads of a rank spin, unless the user says it.
mkdir spins
printf '#!/bin/bash\necho "${GOMP_SPINCOUNT:-no} ${OMP_WAIT_POLICY:-no}" >>%q\nexec %q "$@"\n' "$work/spun" "$real" >spins/mpirun
chmod +x spins/mpirun
spun() { PATH=$work/spins:$PATH train spun $tiny $under_mpirun --steps 1 "$@" && [ "$(tail -n 1 spun)" = "$said" ]; }
said="10000 no" check "threads that wait spin for a moment" spun -n 1 --set topology.threads_per_rank=1
said="no passive" check "... not at all where they outnumber the cores" spun -n 2 --set topology.threads_per_rank="$(nproc)"
said="no active" OMP_WAIT_POLICY=active check "... as the environment says" spun -n 1 --set topology.threads_per_rank=1
said="7 no" GOMP_SPINCOUNT=7 check "... for how long, too" spun -n 1 --set topology.threads_per_rank=1

# An mpirun that does not start three ranks; and one that then starts nothing any more.
mkdir bin
cat >bin/mpirun <<SCRIPT
#!/bin/bash
case " \$* " in *" -n 3 "*) [ -e never ] && touch nothing; echo "zerolab: three are too many" >&2; exit 4 ;; esac
[ -e nothing ] && exit 9
exec $real "\$@"
SCRIPT
chmod +x bin/mpirun
PATH=$work/bin:$PATH
check "where the new ranks do not start" train back $tiny $under_mpirun --steps 8 --at 4:stage=3 --at 6:ranks=3 --trace back.zlt
check "... the run goes on as before" same_bits whole back
check "... and says why" grep -q 'topology.ranks=3 could not be started, so the run goes on as before: three are too many' back.out
touch never
check "where the old ones do not start either, it ends" eval '! train lost $tiny $under_mpirun --steps 8 --at 6:ranks=3 --trace lost.zlt >/dev/null'
check "... with one line, which says how to go on" grep -qE '^zerolab: .*three are too many; nor as before: .*; go on after step 5 with: zerolab train --resume /' lost.err
check "... at a checkpoint that is there" eval 'ls "$(sed "s/.*--resume //" lost.err)"/part-1/manifest.json >/dev/null'
check "... and a trace that says so" grep -q 'the run ended: failed' <("$zerolab" check lost.zlt)
finish
