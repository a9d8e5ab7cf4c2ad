#!/bin/sh
# Tokens a second of the whole engine on one GPU, at the sizes that others are compared at, and the share of what the GPU could
# multiply at most (MFU): 6 P + 6 L C T operations a token, forward and backward of causal attention counted once (as llm.c counts).
# A median of steps; the first are left out, because they make what later ones use.
#
#     gpu_engine_speed.sh PROGRAM [MODEL BATCH...]                                   the largest batch that fits is taken
#     gpu_engine_speed.sh PROGRAM MODEL LAYERS HIDDEN SEQUENCE STEPS BATCH...        of a model of another size
set -u
program=$1
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
# bf16, dense, as the vendor states it; of other GPUs no share is stated.
case $(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1) in
*H100*PCIe*) peak=756e12 ;;
*H100* | *H200* | *GH200*) peak=989.5e12 ;;
*A100*) peak=312e12 ;;
*) peak=0 ;;
esac

train() { # MODEL SEQUENCE STEPS BATCH
    "$program" train configs/gpt2-bf16.json --headless --steps "$3" -n 1 --report "$place/report.json" --set topology.backend=cuda \
        --set model.name="$1" --set data.synthetic=true --set data.sequence_length="$2" --set train_micro_batch_size_per_gpu="$4" \
        --set zero_optimization.stage=0 --set zero_optimization.reduce_bucket_size=5e8 --set zero_optimization.allgather_bucket_size=5e8 \
        >"$place/said" 2>&1
}

# A step has a line of its tokens and after it one of its seconds.
speed() { # MODEL LAYERS HIDDEN SEQUENCE BATCH
    awk -v name="$1" -v L="$2" -v C="$3" -v T="$4" -v B="$5" -v peak="$peak" '
        /"parameters":\t[0-9]/ && !P { P = $2 + 0 }
        /"tokens":/ { tokens = $2 + 0 }
        /"total":/ && tokens { if (++steps > 3) rate[++n] = tokens / ($2 + 0); tokens = 0 }
        END {
            if (!n) { print "  " name ": too few steps to measure"; exit 1 }
            for (i = 1; i <= n; i++) for (j = i; j > 1 && rate[j] < rate[j - 1]; j--) { t = rate[j]; rate[j] = rate[j - 1]; rate[j - 1] = t }
            median = rate[int((n + 1) / 2)]
            printf "  %-12s B=%-3d T=%-5d zerolab, bf16, stage 0        %10.0f tokens/s", name, B, T, median
            if (peak) printf "  MFU %5.1f %%", 100 * median * (6 * P + 6 * L * C * T) / peak
            printf "\n"
        }' "$place/report.json"
}

measure() { # MODEL LAYERS HIDDEN SEQUENCE STEPS BATCH...
    model=$1 layers=$2 hidden=$3 sequence=$4 steps=$5
    shift 5
    for batch in "$@"; do
        if train "$model" "$sequence" "$steps" "$batch"; then
            speed "$model" "$layers" "$hidden" "$sequence" "$batch"
            return
        fi
        echo "  $model B=$batch: $(tail -n 1 "$place/said")"
    done
    return 1
}

cd "$(dirname "$0")/../.." || exit 1
shift
if [ $# -ge 6 ]; then measure "$@"; exit; fi
known() { # MODEL BATCH...
    case $1 in
    gpt2) shift && measure gpt2 12 768 1024 20 "$@" ;;
    gpt2-xl) shift && measure gpt2-xl 48 1600 1024 8 "$@" ;;
    esac
}
if [ $# -gt 0 ]; then known "$@"; exit; fi
known gpt2 64 32
first=$?
known gpt2-xl 24 16 12 8 4
[ $? -eq 0 ] && [ $first -eq 0 ]
