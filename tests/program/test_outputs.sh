#!/bin/bash
# Where output goes: files, pipes, devices, and what says so when it could not be written. SHORT=1: ranks as threads only.
. "$(dirname "$0")/../support/tap.sh"
run="train --headless --steps 2 $threads $tiny"

# ends STATUS LINE COMMAND...: it says this line alone on standard error, "": nothing.
ends() {
    local want=$1 line=$2 status
    shift 2
    timeout -k 1 60 "$@" 2>err </dev/null
    status=$?
    [ $status -eq "$want" ] && [ "$(cat err)" = "${line:+zerolab: $line}" ] && return
    sed "s/^/# status $status, said: /" err >&2
    return 1
}

# ---- a trace is a file ----

mkfifo pipe
file="give a file, which can be read while it grows"
check "a trace into a pipe" ends 2 "cannot write the trace pipe: it is a pipe; $file" "$zerolab" $run --trace pipe
check "... into a device" ends 2 "cannot write the trace /dev/full: it is a device; $file" "$zerolab" $run --trace /dev/full
check "... nowhere" eval 'ends 0 "" "$zerolab" $run --trace /dev/null >out'

# ---- all else may go into a pipe, which has its reader from the start ----

# through COMMAND...: what goes into `pipe`
through() {
    timeout 60 cat pipe >copy &
    local reader=$! status
    timeout -k 1 60 "$@" >out 2>err </dev/null
    status=$?
    wait $reader
    [ $status -eq 0 ] || { sed 's/^/# /' err; return 1; }
}
check "a report into a pipe" through "$zerolab" $run --report pipe
check "... is whole" grep -q '"outcome":.*"finished"' copy
check "a report for another program" eval '"$zerolab" $run --report >(cat >passed) >out && eventually grep -q "\"outcome\":.*\"finished\"" passed'
check "a report on standard output" eval '"$zerolab" $run --report /dev/stdout 2>err | grep -q "\"outcome\":.*\"finished\""'
check "a log into a pipe" through "$zerolab" $run --log pipe
check "figures into a pipe" through "$zerolab" plan --model nano -o pipe
check "... are whole" eval '"$zerolab" plan --model nano | cmp - copy'

# ---- standard output that cannot be written ----

to_full() { ends "$@" >/dev/full; }
full="cannot write standard output: No space left on device"
check "help onto a full disk" to_full 4 "$full" "$zerolab" --help
check "the version" to_full 4 "$full" "$zerolab" --version
check "keys" to_full 4 "$full" "$zerolab" --list-keys
check "a plan" to_full 4 "$full" "$zerolab" plan --model nano
check "labs" to_full 4 "$full" "$zerolab" lab list
check "a run" to_full 4 "$full" "$zerolab" $run
check "a run that is refused has nothing to write" to_full 2 "no command trian; did you mean train?" "$zerolab" trian
# What has no reader any more from the start: fd 3.
exec 3> >(exit)
wait $!
check "a reader that has seen enough" eval 'ends 0 "" "$zerolab" $run >&3'
exec 3>&-

# ---- a place that cannot be written is found out, and is the command line's fault ----

mkdir folder
check "a log" ends 2 "cannot write the log folder: Is a directory" "$zerolab" $run --log folder
check "... of a lab" eval 'ends 2 "cannot write the log folder: Is a directory" "$zerolab" lab check sixteen-bytes --log folder >out'
check "a plan into a folder" ends 2 "cannot write folder: Is a directory" "$zerolab" plan --model nano -o folder
check "figures into a folder" ends 2 "cannot write folder: Is a directory" "$zerolab" data info "$root/README.md" -o folder
check "tokens" ends 2 "cannot write folder: Is a directory" "$zerolab" data encode "$root/README.md" -o folder
check "... where no folder is" ends 2 "cannot write absent/tokens.bin: No such file or directory" "$zerolab" data encode "$root/README.md" -o absent/tokens.bin
check "... in place of a pipe" ends 2 "cannot write pipe: it is no file" "$zerolab" data encode "$root/README.md" -o pipe
check "a run to export" eval '"$zerolab" $run --set checkpoint.path=ck >out'
check "weights" ends 2 "cannot write folder: Is a directory" "$zerolab" checkpoint export ck --to llmc -o folder
check "... in place of a pipe" ends 2 "cannot write pipe: it is no file" "$zerolab" checkpoint export ck --to llmc -o pipe
check "... into a folder, whose name may end as it likes" eval '"$zerolab" checkpoint export ck -o new// | grep -q " new/model.safetensors;" && [ -f new/config.json ]'
check "an NVMe tier" ends 2 "no file for the NVMe tier in absent: No such file or directory; make it (mkdir -p), or set nvme_path to one that is there" \
    "$zerolab" $run --set zero_optimization.stage=3 --set zero_optimization.reduce_bucket_size=1000 \
    --set zero_optimization.offload_optimizer.device=nvme --set zero_optimization.offload_optimizer.nvme_path=absent
check "no ranks" ends 2 "--ranks 0: give a whole number from 1 to 65536" "$zerolab" $run -n 0
check "too many" ends 2 "topology.ranks = 65: a run has at most 64 ranks; zerolab plan takes more" "$zerolab" $run -n 65

# ---- descriptors that are closed ----

check "no standard output" ends 4 "cannot write standard output: Bad file descriptor" sh -c '"$0" "$@" >&-' "$zerolab" --version
check "... is no other file's" ends 4 "cannot write standard output: Bad file descriptor" \
    sh -c '"$0" "$@" >&-' "$zerolab" plan "$root/configs/nano.json"
"$zerolab" $run --trace closed.zlt --report closed.json <&- >&- 2>&-
check "none of the three: it trains" [ $? -eq 4 ]
check "... and leaves what it should" eval '"$zerolab" check closed.zlt >out && grep -q "\"outcome\":.*\"finished\"" closed.json'

# ---- a run that is ended by force ----

if [ -n "${SHORT:-}" ]; then skip "ended by force" "short"; finish; fi
"$zerolab" train --headless -n 2 --steps 1000000 $tiny --trace forced.zlt --report forced.json >out 2>err </dev/null &
front=$!
check "a run" eventually grep -q "^step 1/" out
launcher=$(cat /proc/$front/task/*/children | tr -d " ")
ranks=($(cat /proc/"$launcher"/task/*/children))
kill -STOP "${ranks[1]}" # it hears of no end
kill -INT $front
check "... is to stop" eventually grep -q "^stopping after this step" out
kill -INT $front
wait $front
check "... is ended by force" [ $? -eq 4 ]
forced() { grep -qxE "zerolab: the run was ended by force after step [0-9]+, as you asked; kept: the trace( up to where it was written)?, the report" err || { sed 's/^/# /' err; return 1; }; }
check "... and says so, and what is left" forced
check "... which is there" eval '"$zerolab" replay forced.zlt --frame 80x24 >out && [ -s forced.json ]'
finish
