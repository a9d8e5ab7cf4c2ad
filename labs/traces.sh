#!/usr/bin/env bash
# Records the traces of the labs that are about one: small jobs on the CPU, with gloo, two processes.
#
#     pip install torch deepspeed==0.19.8 numpy && ZEROLAB=build/release/zerolab labs/traces.sh [TRIES [FILE]]
#
# A trace's times depend on what else the machine does. So each job is recorded TRIES times (4), and the one with the shortest steps
# is kept. The labs' texts compute their figures from the trace; read them again after recording (test_lab_frames).
set -euo pipefail
cd "$(dirname "$0")/.."
tries=${1:-4} only=${2:-all} zerolab=${ZEROLAB:-build/release/zerolab}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# The seconds of all steps and ranks, as the job measured them.
seconds() { python3 -c 'import json, sys; print(sum(s["seconds"] for s in json.load(open(sys.argv[1]))["steps"]))' "$1/truth.json"; }

# keep FILE JOB OPTION...
keep()
{
    local file=$1 job=$2 best= least=
    shift 2
    [ "$only" = all ] || [ "$only" = "$file" ] || return 0
    for ((try = 1; try <= tries; try++)); do
        python3 tests/foreign/make_traces.py --out "$folder" "$job" "$@" --suffix=".$try" >&2
        took=$(seconds "$folder/$job.$try")
        if [ -z "$best" ] || [ "$(echo "$took < $least" | bc)" -eq 1 ]; then best=$folder/$job.$try least=$took; fi
    done
    "$zerolab" import "$best" -o "labs/$file" >/dev/null
    rm -rf "$folder/$job".*
    ls -l "labs/$file"
}

keep real-trace/fsdp2.zlt fsdp2-2 --hidden 256 --layers 3
keep wrong-prefetch/slow.zlt zero3-no-prefetch-2 --hidden 128 --layers 3
keep wrong-prefetch/mended.zlt zero3-2 --hidden 128 --layers 3
keep wrong-rank/uneven.zlt ddp-2 --hidden 128 --layers 3 --batches '[8, 32]'
