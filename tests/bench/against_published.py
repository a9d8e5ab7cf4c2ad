#!/usr/bin/env python3
"""Simulated and published, side by side: each row of published.tsv is a training whose speed somebody published. The
script runs `zerolab simulate` for its setup on the built-in profile of its hardware, and prints the ratio of the
simulated time of a step to the published one; then the spread of these ratios. Nothing is tuned: setups of one name
have equal settings (SETUPS), and where a row's network differs from the profile's, the published rate replaces
inter.bandwidth.

    tests/bench/against_published.py [-v]        -v: the command line of each row, too
"""
import json
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
ZEROLAB = os.environ.get("ZEROLAB", os.path.join(ROOT, "build/release/zerolab"))
Z = "zero_optimization."

# layers, hidden, heads, vocabulary; also heads of keys and values, and width of the MLP: llama
MODELS = {
    "mpt-125m": (12, 768, 12, 50368), "mpt-350m": (24, 1024, 16, 50368), "mpt-760m": (24, 1536, 12, 50368),
    "mpt-1b": (24, 2048, 16, 50368), "mpt-3b": (32, 2560, 20, 50368), "mpt-7b": (32, 4096, 32, 50368),
    "mpt-13b": (40, 5120, 40, 50368), "mpt-30b": (48, 7168, 56, 50368), "mpt-70b": (80, 8192, 64, 50368),
    "gpt-124m": (12, 768, 12, 50304), "gpt-350m": (24, 1024, 16, 50304), "gpt-774m": (36, 1280, 20, 50304),
    "gpt-1558m": (48, 1600, 25, 50304), "zero-1.5b": (34, 1920, 16, 50304), "zero-13b": (62, 4096, 32, 50304),
    "gpt-175b": (96, 12288, 96, 50304), "gpt-530b": (105, 20480, 128, 50304), "gpt-1t": (128, 25600, 160, 50304),
    "gpt-2t": (160, 32768, 128, 50304),
    "llama-2-7b": (32, 4096, 32, 32000, 32, 11008), "llama-2-13b": (40, 5120, 40, 32000, 40, 13824),
    "llama-34b": (48, 8192, 64, 32000, 8, 22016), "llama-2-70b": (80, 8192, 64, 32000, 8, 28672),
    "llama-3-70b": (80, 8192, 64, 128256, 8, 28672),
}

# FSDP gathers a block ahead, reduces block by block, and keeps no block gathered from forward to backward. BLOCK: the
# parameters of a block.
FSDP = [Z + "stage=3", Z + "stage3_max_reuse_distance=0", Z + "stage3_param_persistence_threshold=0",
        Z + "stage3_prefetch_bucket_size=BLOCK", Z + "reduce_bucket_size=BLOCK"]
FULL = ["model.recompute=full"]
SETUPS = {
    "ddp": [Z + "stage=0"],
    "zero1": [Z + "stage=1"],
    "zero2-ac": [Z + "stage=2"] + FULL,
    "fsdp": FSDP,
    "fsdp-keep": FSDP + [Z + "stage3_max_reuse_distance=1e15", Z + "stage3_max_live_parameters=1e15"],  # SHARD_GRAD_OP
    "fsdp-ac": FSDP + FULL,
    "hsdp": FSDP + [Z + "mics_shard_size=8"],  # shards within a node, replicas across nodes
    "zero3-offload-ac": [Z + "stage=3", Z + "offload_optimizer.device=cpu", Z + "offload_optimizer.pin_memory=true",
                         "activation_checkpointing.cpu_checkpointing=true"] + FULL,
}


def read_rows():
    with open(os.path.join(HERE, "published.tsv"), encoding="utf-8") as file:
        lines = [line.rstrip("\n").split("\t") for line in file if line.strip() and not line.startswith("#")]
    return [dict(zip(lines[0], line)) for line in lines[1:]]


def block_of(model):
    layers, hidden, heads, vocabulary, *rest = model
    if not rest:
        return 12 * hidden * hidden + 13 * hidden
    return 2 * hidden * hidden + 2 * hidden * hidden // heads * rest[0] + 3 * hidden * rest[1] + 2 * hidden


def profile_of(row, folder):
    """The built-in profile; with the published rate of the network, where the row has one, in Gb/s of a node."""
    if row["network"] == "-":
        return row["hardware"]
    with open(os.path.join(ROOT, "configs/hardware", row["hardware"] + ".json"), encoding="utf-8") as file:
        profile = json.load(file)
    profile["inter.bandwidth"] = [float(row["network"]) * 1e9 / 8, "published with the measurement"]
    name = os.path.join(folder, "%s-%s-gbps.json" % (row["hardware"], row["network"]))
    with open(name, "w", encoding="utf-8") as file:
        json.dump(profile, file)
    return name


def command_of(row, folder):
    model = MODELS[row["model"]]
    keys = dict(zip(("layers", "hidden", "heads", "vocabulary", "kv_heads", "ffn"), model))
    sets = ["model.%s=%d" % item for item in keys.items()] + ["model.context=" + row["sequence"]]
    if len(model) > 4:
        sets += ["model.architecture=llama", "model.tied=false"]
    sets += ["%s.enabled=true" % row["type"], "train_micro_batch_size_per_gpu=" + row["micro"],
             "gradient_accumulation_steps=" + row["accumulation"]]
    sets += [key.replace("BLOCK", str(block_of(model))) for key in SETUPS[row["setup"]]]
    command = [ZEROLAB, "simulate", "--hardware", profile_of(row, folder), "-n", row["gpus"], "--json"]
    for key in sets:
        command += ["--set", key]
    return command


def published_seconds(row):
    """Of a step. TFLOP/s are of Megatron-LM's formula, with recomputation (Narayanan et al. 2021, equation 3)."""
    figure, layers = float(row["published"]), MODELS[row["model"]]
    samples, s = int(row["micro"]) * int(row["accumulation"]), int(row["sequence"])
    if row["unit"] == "s/step":
        return figure
    if row["unit"] == "token/s/GPU":
        return samples * s / figure
    l, h, v = layers[0], layers[1], layers[3]
    return 96 * samples * s * l * h * h * (1 + s / (6 * h) + v / (16 * l * h)) / (figure * 1e12)


def spread(name, ratios):
    ratios = sorted(ratios)
    quarters = statistics.quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else ratios * 3
    near = sum(1 / 1.25 <= ratio <= 1.25 for ratio in ratios)
    print("%-26s %4d  %6.2f  %6.2f %6.2f  %6.2f %6.2f  %4d" %
          (name, len(ratios), quarters[1], quarters[0], quarters[2], ratios[0], ratios[-1], near))


def main():
    groups, lengths, failed = {}, {"to 2,048 tokens": [], "4,096 and 8,192": [], "16,384 and more": []}, 0
    line = "%-16s %-5s %5s %-11s %5s %4s %6s %-16s"
    columns = ("source", "hardware", "gpus", "model", "micro", "accumulation", "sequence", "setup")
    print(line % ("source", "hardw", "GPUs", "model", "micro", "acc", "tokens", "setup") +
          "  published s simulated s  ratio")
    with tempfile.TemporaryDirectory() as folder:
        for row in read_rows():
            command = command_of(row, folder)
            run = subprocess.run(command, capture_output=True, text=True, check=False)
            if "-v" in sys.argv[1:]:
                print("$ zerolab " + " ".join(command[1:]).replace(folder + "/", ""))
            if run.returncode:
                print("%-16s %s %s: %s" % (row["source"], row["model"], row["setup"], run.stderr.strip()))
                failed += 1
                continue
            answer, published = json.loads(run.stdout), published_seconds(row)
            ratio = answer["seconds_per_step"] / published
            groups.setdefault(row["source"] + ", " + row["hardware"], []).append(ratio)
            length = (int(row["sequence"]) > 2048) + (int(row["sequence"]) > 8192)
            lengths[list(lengths)[length]].append(ratio)
            print(line % tuple(row[name] for name in columns) + " %11.4g %11.4g %6.2f%s" %
                  (published, answer["seconds_per_step"], ratio, "" if answer["fits"] else "  does not fit by plan"))
    print("\nsimulated time over published; quarters: half of all rows lie between them")
    print("%-26s %4s  %6s  %13s  %13s  within 1.25" % ("source, hardware", "rows", "median", "quarters", "extremes"))
    for name, ratios in (groups | lengths).items():
        spread(name, ratios)
    spread("all", [ratio for ratios in groups.values() for ratio in ratios])
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
