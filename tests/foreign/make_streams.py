"""Runs small real training jobs with tools/zerolab_torch.py and counts by itself what the stream has to say. Needs PyTorch, and
DeepSpeed for zero1 to zero3; no test runs this. CPU and gloo only. Each rank is a process of this script.

    python tests/foreign/make_streams.py record --folder tests/foreign/streams/fsdp2-2 --steps 3
        FOLDER/rankN.jsonl, and FOLDER/truth.json: of each step and rank the collectives (kind, bytes) that functions of
        torch.distributed were called for, the seconds, the loss; the bytes of parameters, gradients and optimizer
    python tests/foreign/make_streams.py record --job zero3 --folder JOB --steps 500 --pause 0.05
        to look at with zerolab attach JOB; --to unix:PATH instead writes to a reader that listens
    python tests/foreign/make_streams.py cost --folder JOB --layers 12 --hidden 768 --context 64 --steps 1 --pairs 8
        one job, in which the watch is on and off in paired blocks of steps: what it adds to elapsed and to CPU time
    python tests/foreign/make_streams.py bits --folder JOB
        all losses with and without the watch: they have to be the same bits
"""
import argparse
import json
import os
import socket
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

sys.path[:0] = [os.path.join(os.path.dirname(__file__), "../../tools"), os.path.dirname(__file__)]
import make_traces  # noqa: E402: the model, the wrappers and the counter of collectives
import zerolab_torch  # noqa: E402

JOBS = {"ddp": ("ddp", None), "fsdp2": ("fsdp2", None)} | {
    f"zero{stage}": ("deepspeed", {"stage": stage, "stage3_prefetch_bucket_size": 0, "stage3_param_persistence_threshold": 0})
    for stage in (1, 2, 3)}


def open_job(options, rank):
    torch.manual_seed(7)
    model = make_traces.GPT2(options.layers, options.hidden, options.vocabulary)
    model, backward, update, optimizer = make_traces.open_job(*JOBS[options.job], model, rank, options.ranks)
    generator = torch.Generator().manual_seed(100 + rank)

    def train():
        loss = model(torch.randint(options.vocabulary, (make_traces.BATCH, make_traces.CONTEXT + 1), generator=generator))
        backward(loss)
        update()
        return loss

    return model, optimizer, train


def watch(options, model, optimizer):
    zerolab_torch.watch(model, model.optimizer if options.job.startswith("zero") else optimizer, to=options.to or options.folder)


def collectives_of(counter, model, options, rank):
    rows = counter.take()
    if options.job == "ddp":  # PyTorch starts these in C++
        sizes = model._get_ddp_logging_data()["rebuilt_bucket_sizes"].split(",")
        for elems in (int(size) // 4 for size in sizes):
            rows.append({"kind": "all_reduce", "input_elems": elems, "output_elems": elems, "dtype": "float32"})
    return [{key: row[key] for key in ("kind", "input_elems", "output_elems", "dtype")} for row in rows]


def record(options, rank, counter):
    model, optimizer, train = open_job(options, rank)
    if not options.off:
        watch(options, model, optimizer)
    steps = []
    counter.take()
    for number in range(options.steps):
        begin = time.perf_counter()
        loss = train()
        seconds = time.perf_counter() - begin
        collectives = collectives_of(counter, model, options, rank)
        zerolab_torch.step(loss)
        steps.append({"step": number, "rank": rank, "seconds": seconds, "loss": loss.item(), "collectives": collectives})
        time.sleep(options.pause)
    state = [t for part in optimizer.state.values() for t in part.values() if torch.is_tensor(t)]
    memory = {"rank": rank, "parameter_bytes": make_traces.held(model.parameters()), "optimizer_bytes": make_traces.held(state)}
    return steps, memory


def cost(options, rank, counter):
    """Blocks of steps with the watch and without, in pairs: "on off, off on". CPU time is that of the thread that trains."""
    model, optimizer, train = open_job(options, rank)
    watch(options, model, optimizer)
    writer, times = zerolab_torch._watch.writer, {True: [], False: []}
    call, put = zerolab_torch.Hook.__call__, writer.put
    for block in range(2 * options.pairs + 2):
        on = block % 2 == (block // 2) % 2
        zerolab_torch.Hook.__call__, writer.put = (call, put) if on else (lambda *_: None, lambda line: None)
        dist.barrier()
        begin = time.perf_counter(), time.thread_time()
        for _ in range(options.steps):
            train()
        if block >= 2:  # the first pair warms up
            times[on].append((time.perf_counter() - begin[0], time.thread_time() - begin[1]))
    zerolab_torch.Hook.__call__, writer.put = call, put
    parameters = sum(p.numel() for p in make_traces.GPT2(options.layers, options.hidden, options.vocabulary).parameters())
    for what, part in (("elapsed", 0), ("CPU", 1)):
        off, on = ([block[part] / options.steps * 1e3 for block in times[state]] for state in (False, True))
        added = statistics.median(b - a for a, b in zip(off, on))
        print(f"{options.job}, {parameters} parameters, rank {rank}, {what} ms a step: {statistics.median(off):.1f} without, "
              f"the watch adds {added:+.2f} "
              f"({100 * added / statistics.median(off):+.2f} %), median of {len(on)} pairs", flush=True)
    return [], {}


def rank_main(rank, options, port):
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(options.ranks), MASTER_ADDR="127.0.0.1",
                      MASTER_PORT=str(port), DS_ACCELERATOR="cpu")
    torch.set_num_threads(1)
    make_traces.CONTEXT, make_traces.BATCH = options.context, options.batch
    counter = make_traces.Counter()
    dist.init_process_group("gloo", rank=rank, world_size=options.ranks)
    parts = [None] * options.ranks
    dist.all_gather_object(parts, (cost if options.what == "cost" else record)(options, rank, counter))
    if rank == 0 and options.what != "cost":
        lists = {"steps": [s for part, _ in parts for s in part], "memory": [m for _, m in parts]}
        rows = [f' "{key}": [\n' + ",\n".join("  " + json.dumps(row) for row in value) + "\n ]" for key, value in lists.items()]
        head = {"job": options.job, "ranks": options.ranks, "torch": torch.__version__, "layers": options.layers,
                "hidden": options.hidden, "vocabulary": options.vocabulary, "context": options.context}
        with open(os.path.join(options.folder, "truth.json"), "w") as f:
            f.write(json.dumps(head, indent=1)[:-2] + ",\n" + ",\n".join(rows) + "\n}\n")
    zerolab_torch.stop()  # os._exit() of multiprocessing calls no atexit
    dist.destroy_process_group()


def run(options):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    os.makedirs(options.folder, exist_ok=True)
    mp.start_processes(rank_main, (options, port), options.ranks, start_method="spawn")


def losses(options, off):
    options.off = off
    run(options)
    with open(os.path.join(options.folder, "truth.json")) as f:
        return [step["loss"] for step in json.load(f)["steps"]]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("record", "cost", "bits"))
    parser.add_argument("--job", choices=JOBS, default="fsdp2")
    parser.add_argument("--folder", required=True)
    parser.add_argument("--to", help="of the stream, instead of the folder")
    parser.add_argument("--pause", type=float, default=0, help="seconds after each step")
    parser.add_argument("--off", action="store_true", help="without the watch")
    for name, default in {"ranks": 2, "steps": 4, "layers": 2, "hidden": 64, "vocabulary": 512, "context": 32, "batch": 1,
                          "pairs": 8}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    if options.what != "bits":
        return run(options)
    options.what = "record"
    with_watch, without = losses(options, False), losses(options, True)
    print(f"{len(with_watch)} losses, {'the same bits' if with_watch == without else 'DIFFERENT'}")
    sys.exit(with_watch != without)


if __name__ == "__main__":
    main()
