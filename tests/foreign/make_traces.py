#!/usr/bin/env python3
"""Makes tests/foreign/traces: profiles of small training jobs of other programs, with what each job counted itself.

    pip install torch deepspeed==0.19.8 numpy && python3 tests/foreign/make_traces.py
    python3 tests/foreign/make_traces.py --out DIR zero3-2 --hidden 256 --layers 4 --zero '{"stage3_max_reuse_distance": 0}'

Each job trains a GPT-2 of random weights on random tokens, on the CPU, with gloo, one process a rank. `--list` prints the jobs.
A job writes into DIR/NAME:

- rankN.json.gz: torch.profiler's export (Kineto's Chrome JSON) with shapes, memory events and ProfilerStep#N annotations. The
  schedule is wait 1, warmup 1, active --steps. With --stacks also Python frames.
- truth.json: the counts of the job, none of which is from the profiler. `steps` has an object for each rank and profiled step:

  | field | what it is |
  |---|---|
  | step, rank | the number is that of ProfilerStep#N |
  | seconds | time.perf_counter() around forward, backward and optimizer |
  | begin_ns, end_ns | time.time_ns() there (clock of the system) |
  | loss | of this rank's micro-batch, before the update |
  | collectives | in call order: kind, function, input and output elements, dtype, group size, async, phase |
  | rss_bytes | resident memory of the process at the end of the step (/proc/self/statm) |

  Collectives of Python are counted by wrapping the functions of torch.distributed; calls inside a counted call are not counted.
  DDP's all-reduces of gradients start in C++. They are counted from the bucket sizes of _get_ddp_logging_data().

  `memory` has an object for each rank, from one more step after the profiled ones: bytes of this rank's parameters, gradients and
  optimizer state (sizes of the tensors that the rank holds at the end of the step), and peak_new_bytes, the peak of the storages
  that operations made during that step (a TorchDispatchMode that follows the life of each storage; what C++ code allocates below
  the dispatcher is missing).

The committed traces are the defaults. JSON of gzip level 9, without a time stamp in the gzip header.
"""
import argparse
import functools
import gzip
import json
import os
import pathlib
import shutil
import socket
import tempfile
import threading
import time
import weakref

import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing
from torch import nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

CONTEXT, BATCH = 32, 2
WARM = 2  # steps of the schedule before the first that is recorded

# Every parameter is sharded: the default threshold of 100000 elements would keep each of this small model on every rank.
STAGE3 = {"stage": 3, "overlap_comm": False, "stage3_param_persistence_threshold": 0}

# Name: wrapper, ranks, DeepSpeed's zero_optimization.
JOBS = {
    "ddp-2": ("ddp", 2, None),
    "ddp-4": ("ddp", 4, None),
    "fsdp2-2": ("fsdp2", 2, None),
    "fsdp2-4": ("fsdp2", 4, None),
    "fsdp1-2": ("fsdp1", 2, None),
    "zero1-2": ("deepspeed", 2, {"stage": 1}),
    "zero1-4": ("deepspeed", 4, {"stage": 1}),
    "zero2-2": ("deepspeed", 2, {"stage": 2, "overlap_comm": False}),
    "zero2-4": ("deepspeed", 4, {"stage": 2, "overlap_comm": False}),
    "zero2-overlap-2": ("deepspeed", 2, {"stage": 2, "overlap_comm": True}),
    "zero3-2": ("deepspeed", 2, {**STAGE3, "stage3_prefetch_bucket_size": 200000}),
    "zero3-4": ("deepspeed", 4, {**STAGE3, "stage3_prefetch_bucket_size": 200000}),
    "zero3-no-prefetch-2": ("deepspeed", 2, {**STAGE3, "stage3_prefetch_bucket_size": 0}),
    "zero3-overlap-2": ("deepspeed", 2, {**STAGE3, "overlap_comm": True, "stage3_prefetch_bucket_size": 200000}),
}
COMMITTED = ["ddp-2", "fsdp2-2", "zero1-2", "zero3-2", "zero3-no-prefetch-2"]  # on the CPU, stage 2 has the events of stage 1

# torch.distributed's functions: kind, and the positions and names of output and input.
FUNCTIONS = {
    "all_reduce": ("all_reduce", (0, "tensor"), (0, "tensor")),
    "all_reduce_coalesced": ("all_reduce", (0, "tensors"), (0, "tensors")),
    "broadcast": ("broadcast", (0, "tensor"), (0, "tensor")),
    "reduce": ("reduce", (0, "tensor"), (0, "tensor")),
    "all_gather": ("all_gather", (0, "tensor_list"), (1, "tensor")),
    "all_gather_into_tensor": ("all_gather", (0, "output_tensor"), (1, "input_tensor")),
    "all_gather_single": ("all_gather", (0, "output_tensor"), (1, "input_tensor")),
    "_all_gather_base": ("all_gather", (0, "output_tensor"), (1, "input_tensor")),
    "reduce_scatter": ("reduce_scatter", (0, "output"), (1, "input_list")),
    "reduce_scatter_tensor": ("reduce_scatter", (0, "output"), (1, "input")),
    "reduce_scatter_single": ("reduce_scatter", (0, "output"), (1, "input")),
    "_reduce_scatter_base": ("reduce_scatter", (0, "output"), (1, "input")),
    "all_to_all": ("all_to_all", (0, "output_tensor_list"), (1, "input_tensor_list")),
    "all_to_all_single": ("all_to_all", (0, "output"), (1, "input")),
    "barrier": ("barrier", None, None),
    "all_gather_object": ("all_gather_object", None, None),
    "broadcast_object_list": ("broadcast_object", None, None),
}


class Counter:
    """The collectives of this rank, in call order."""

    def __init__(self):
        self.calls, self.phase, self.inside = [], "start", threading.local()
        for name in FUNCTIONS:
            original = getattr(dist, name, None)
            if original:
                wrapped = self.wrap(name, original)
                setattr(dist, name, wrapped)
                setattr(dist.distributed_c10d, name, wrapped)

    def wrap(self, name, original):
        kind, output, source = FUNCTIONS[name]

        def value(where, args, kwargs):
            tensors = None if where is None else args[where[0]] if len(args) > where[0] else kwargs.get(where[1])
            return [tensors] if isinstance(tensors, torch.Tensor) else list(tensors or [])

        @functools.wraps(original)
        def call(*args, **kwargs):
            if getattr(self.inside, "depth", 0):
                return original(*args, **kwargs)
            outputs, inputs = value(output, args, kwargs), value(source, args, kwargs)
            self.calls.append({
                "kind": kind, "function": name, "input_elems": sum(t.numel() for t in inputs),
                "output_elems": sum(t.numel() for t in outputs), "dtype": str(inputs[0].dtype)[6:] if inputs else None,
                "group_size": dist.get_world_size(kwargs.get("group")), "async": bool(kwargs.get("async_op")),
                "phase": self.phase})
            self.inside.depth = 1
            try:
                return original(*args, **kwargs)
            finally:
                self.inside.depth = 0

        return call

    def take(self):
        calls, self.calls = self.calls, []
        return calls


class StorageWatch(TorchDispatchMode):
    """Bytes of storages that operations make while the mode is on."""

    def __init__(self):
        super().__init__()
        self.known, self.now, self.peak = set(), 0, 0

    def gone(self, key, size):
        self.known.discard(key)
        self.now -= size

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        given = {t.untyped_storage()._cdata for t in args if type(t) is torch.Tensor}
        for t in result if isinstance(result, (tuple, list)) else [result]:
            if type(t) is not torch.Tensor:
                continue
            storage = t.untyped_storage()
            key = storage._cdata
            if key in given or key in self.known:
                continue
            self.known.add(key)
            self.now += storage.nbytes()
            self.peak = max(self.peak, self.now)
            weakref.finalize(storage, self.gone, key, storage.nbytes())
        return result


class Block(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.attn, self.proj = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.fc, self.out = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def forward(self, x):
        batch, time_, hidden = x.shape
        q, k, v = (t.view(batch, time_, self.heads, -1).transpose(1, 2) for t in self.attn(self.ln_1(x)).split(hidden, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(batch, time_, hidden)
        x = x + self.proj(y)
        return x + self.out(F.gelu(self.fc(self.ln_2(x)), approximate="tanh"))


class GPT2(nn.Module):
    def __init__(self, layers, hidden, vocabulary):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, hidden), nn.Embedding(CONTEXT, hidden)
        self.h = nn.ModuleList(Block(hidden, max(1, hidden // 32)) for _ in range(layers))
        self.ln_f, self.lm_head = nn.LayerNorm(hidden), nn.Linear(hidden, vocabulary, bias=False)
        self.lm_head.weight = self.wte.weight

    def forward(self, tokens):
        x = self.wte(tokens[:, :-1]) + self.wpe(torch.arange(tokens.shape[1] - 1))
        for block in self.h:
            x = block(x)
        return F.cross_entropy(self.lm_head(self.ln_f(x)).flatten(0, 1), tokens[:, 1:].flatten())


def open_job(wrapper, zero, model, rank, ranks):
    """The wrapped model, and functions backward(loss), step() and state()."""
    if wrapper == "deepspeed":
        import deepspeed
        config = {"train_micro_batch_size_per_gpu": BATCH, "zero_optimization": zero, "zero_allow_untested_optimizer": True,
                  "steps_per_print": 1000000}
        adamw = torch.optim.AdamW(model.parameters(), fused=True)
        engine, optimizer, _, _ = deepspeed.initialize(model=model, config=config, optimizer=adamw, dist_init_required=False)
        return engine, engine.backward, engine.step, getattr(optimizer, "optimizer", optimizer)
    if wrapper == "ddp":
        wrapped = nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.25)
    elif wrapper == "fsdp2":
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard
        mesh = init_device_mesh("cpu", (ranks,))
        for block in model.h:
            fully_shard(block, mesh=mesh)
        wrapped = fully_shard(model, mesh=mesh)
    else:
        from torch.distributed.fsdp import FullyShardedDataParallel
        from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy
        policy = functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={Block})
        wrapped = FullyShardedDataParallel(model, auto_wrap_policy=policy, use_orig_params=True, device_id=torch.device("cpu"))
    optimizer = torch.optim.AdamW(wrapped.parameters(), fused=True)

    def step():
        optimizer.step()
        optimizer.zero_grad()

    return wrapped, lambda loss: loss.backward(), step, optimizer


def held(tensors):
    """Bytes of the storages that this rank holds for the tensors; each storage counts once."""
    sizes = {}
    for t in tensors:
        t = getattr(t, "_local_tensor", t)
        sizes[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes()
    return sum(sizes.values())


def states(optimizer):
    return [t for state in optimizer.state.values() for t in state.values() if isinstance(t, torch.Tensor) and t.dim()]


def gradients(model, wrapped):
    """What .grad holds; DeepSpeed keeps gradients elsewhere and reports 0 here."""
    return [p.grad for p in wrapped.parameters() if p.grad is not None]


def rank_main(rank, ranks, name, options, folder, port):
    wrapper, _, zero = JOBS[name]
    zero = zero and {**zero, **options.zero}
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
                      DS_ACCELERATOR="cpu")
    torch.set_num_threads(1)
    counter = Counter()  # before other programs take the functions
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    torch.manual_seed(7)
    model = GPT2(options.layers, options.hidden, options.vocabulary)
    parameters = sum(p.numel() for p in model.parameters())
    wrapped, backward, update, optimizer = open_job(wrapper, zero, model, rank, ranks)
    generator = torch.Generator().manual_seed(100 + rank)
    batch = options.batches[rank % len(options.batches)]

    def train():
        """One step; gives the loss and the bytes of gradients before the update."""
        counter.phase = "forward"
        loss = wrapped(torch.randint(options.vocabulary, (batch, CONTEXT + 1), generator=generator))
        counter.phase = "backward"
        backward(loss)
        grads = held(gradients(model, wrapped))
        counter.phase = "step"
        update()
        counter.phase = "between"
        return loss.item(), grads

    steps = []
    schedule = torch.profiler.schedule(wait=1, warmup=1, active=options.steps, repeat=1)
    os.chdir(folder)  # so that "traceName" in the export is the file's name alone
    path = f"rank{rank}.json"
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], schedule=schedule, record_shapes=True,
                                profile_memory=True, with_stack=options.stacks, with_modules=options.stacks,
                                on_trace_ready=lambda p: p.export_chrome_trace(path)) as profiler:
        for number in range(WARM + options.steps):
            counter.take()
            begin_ns, begin = time.time_ns(), time.perf_counter()
            loss, _ = train()
            seconds, end_ns = time.perf_counter() - begin, time.time_ns()
            if number >= WARM:
                collectives = counter.take()
                if wrapper == "ddp":
                    for size in wrapped._get_ddp_logging_data()["rebuilt_bucket_sizes"].split(","):
                        elems = int(size) // 4
                        collectives.append({"kind": "all_reduce", "function": "C++", "input_elems": elems, "output_elems": elems,
                                            "dtype": "float32", "group_size": ranks, "async": True, "phase": "backward"})
                with open("/proc/self/statm") as f:
                    rss = int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
                steps.append({"step": number, "rank": rank, "seconds": seconds, "begin_ns": begin_ns, "end_ns": end_ns,
                              "loss": loss, "rss_bytes": rss, "collectives": collectives})
            profiler.step()
    with open(path, "rb") as source, open(path + ".gz", "wb") as target:
        with gzip.GzipFile("", "wb", 9, target, mtime=0) as packed:
            shutil.copyfileobj(source, packed)
    os.remove(path)
    with StorageWatch() as watch:
        _, grads = train()
    memory = {"rank": rank, "parameter_bytes": held(wrapped.parameters()), "gradient_bytes": grads,
              "optimizer_bytes": held(states(optimizer)), "peak_new_bytes": watch.peak}
    parts = [None] * ranks
    dist.all_gather_object(parts, (steps, memory))
    if rank == 0:
        import importlib.metadata
        versions = {"torch": torch.__version__}
        if wrapper == "deepspeed":
            versions["deepspeed"] = importlib.metadata.version("deepspeed")
        truth = {"job": name, "wrapper": wrapper, "zero_optimization": zero, "ranks": ranks, "backend": "gloo",
                 "versions": versions, "layers": options.layers, "hidden": options.hidden, "vocabulary": options.vocabulary,
                 "context": CONTEXT, "micro_batch": options.batches[0], "parameters": parameters, "stacks": options.stacks,
                 "counted_by": "wrapped torch.distributed functions; DDP's gradient buckets by _get_ddp_logging_data()",
                 "steps": [s for part, _ in parts for s in part], "memory": [m for _, m in parts]}
        with open("truth.json", "w") as f:
            head = json.dumps({k: v for k, v in truth.items() if k not in ("steps", "memory")}, indent=1)
            rows = [",\n".join("  " + json.dumps(row) for row in truth[key]) for key in ("steps", "memory")]
            f.write(f'{head[:-2]},\n "steps": [\n{rows[0]}\n ],\n "memory": [\n{rows[1]}\n ]\n}}\n')
    dist.barrier()
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("jobs", nargs="*", default=COMMITTED)
    parser.add_argument("--out", default=pathlib.Path(__file__).parent / "traces", type=pathlib.Path)
    parser.add_argument("--layers", default=2, type=int)
    parser.add_argument("--hidden", default=64, type=int)
    parser.add_argument("--vocabulary", default=512, type=int)
    parser.add_argument("--zero", default={}, type=json.loads, help="keys of DeepSpeed's zero_optimization, as JSON")
    parser.add_argument("--batches", default=[BATCH], type=json.loads, help="sequences of each rank, as JSON: [2, 8]")
    parser.add_argument("--steps", default=2, type=int)
    parser.add_argument("--stacks", action="store_true")
    parser.add_argument("--suffix", default="", help="is appended to the folder's name")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    if options.list:
        return print("\n".join(JOBS))
    os.environ["OMP_NUM_THREADS"] = "1"
    for name in options.jobs:
        ranks, target = JOBS[name][1], options.out / (name + options.suffix)
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        with tempfile.TemporaryDirectory() as folder:
            multiprocessing.spawn(rank_main, (ranks, name, options, folder, port), nprocs=ranks)
            target.mkdir(parents=True, exist_ok=True)
            for file in os.listdir(folder):
                shutil.copy(os.path.join(folder, file), target / file)
        print(target, sum(f.stat().st_size for f in target.iterdir()), "bytes", flush=True)


if __name__ == "__main__":
    main()
