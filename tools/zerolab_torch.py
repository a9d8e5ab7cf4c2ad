"""Writes what a PyTorch training job does as JSON lines, while it runs. docs/STREAM.md describes each line.

    import zerolab_torch
    zerolab_torch.watch(model, optimizer)      # after DDP, fully_shard or deepspeed.initialize
    ...
    zerolab_torch.step(loss)                   # optional, after each step: gives the loss

The environment's ZEROLAB_STREAM, or watch(..., to=...), says where to: a file, a folder (FOLDER/rankN.jsonl), or unix:PATH, a
Unix socket on which a reader listens. With several ranks a file gets the suffix .rankN. Without a target nothing is watched.

The job is not disturbed. A thread writes; a full queue drops lines and counts them; an error turns the watch off with one line on
stderr. Times are those of the host: on a GPU that is when work is given to the device, not when it ends.

Needs PyTorch alone. Checked with PyTorch 2.15.0 and DeepSpeed 0.19.8. Where another version lacks what is marked "internal", that
part or the watch is off, with one line on stderr.
"""
import atexit
import collections
import contextlib
import functools
import inspect
import json
import math
import os
import socket
import sys
import threading
import time
import weakref

import torch
import torch.distributed as dist

VERSION, QUEUE_LINES, FLUSH_SECONDS = 1, 1 << 16, 0.05  # more lines that wait for a slow reader are dropped and counted

# Functions of torch.distributed by kind. The first argument is the output, the second the input. IN_PLACE: the first is both.
COLLECTIVES = {
    "all_reduce": "all_reduce all_reduce_coalesced",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "all_gather": "all_gather all_gather_into_tensor all_gather_single _all_gather_base",
    "reduce_scatter": "reduce_scatter reduce_scatter_tensor reduce_scatter_single _reduce_scatter_base",
    "all_to_all": "all_to_all all_to_all_single",
    "barrier": "barrier",
}
IN_PLACE = ("all_reduce", "broadcast", "reduce")

_watch = None
now = time.monotonic_ns


def say(text):
    with contextlib.suppress(Exception):
        print(f"zerolab_torch: {text}", file=sys.stderr, flush=True)


def tensors_in(value, depth=0):
    if isinstance(value, torch.Tensor):
        yield value
    elif depth < 4 and isinstance(value, (list, tuple, dict)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from tensors_in(part, depth + 1)


def held(tensors):
    """Bytes of storages; each counts once."""
    sizes = {}
    for t in tensors:
        if type(t) not in (torch.Tensor, torch.nn.Parameter):
            t = getattr(t, "_local_tensor", t)  # internal: the shard of a DTensor
        storage = t.untyped_storage()
        sizes[storage.data_ptr()] = storage.nbytes()
    return sum(size for address, size in sizes.items() if address)


def elements(parameter):
    return getattr(parameter, "ds_numel", None) or parameter.numel()  # internal: DeepSpeed's size before sharding


class Writer:
    """A bounded queue and the thread that empties it into a file or socket."""

    def __init__(self, target):
        self.live = dist.is_available() and dist.is_initialized()
        self.rank, self.ranks = (dist.get_rank(), dist.get_world_size()) if self.live else (0, 1)
        self.lines, self.lost, self.on, self.closing = collections.deque(), 0, True, threading.Event()
        if target.startswith("unix:"):
            connection = socket.socket(socket.AF_UNIX)
            connection.settimeout(5)
            connection.connect(target[5:])
            connection.settimeout(None)
            self.file = connection.makefile("wb")
        else:
            folder = os.path.isdir(target)
            suffix = f"/rank{self.rank}.jsonl" if folder else f".rank{self.rank}" if self.ranks > 1 else ""
            self.file = open(target + suffix, "wb")
        self.thread = threading.Thread(target=self.run, name="zerolab_torch", daemon=True)
        self.thread.start()

    def put(self, line):
        if len(self.lines) < QUEUE_LINES:
            self.lines.append(line)
        else:
            self.lost += 1

    def run(self):
        try:
            last = False
            while self.on and not last:
                last = self.closing.wait(FLUSH_SECONDS)
                if self.lost:
                    count, self.lost = self.lost, 0
                    self.lines.append({"kind": "lost", "t": now(), "lines": count})
                while self.lines:
                    self.file.write(json.dumps(self.lines.popleft(), separators=(",", ":")).encode() + b"\n")
                self.file.flush()
            self.file.close()
        except Exception as error:
            if self.on:
                say(f"the stream ended: {error}")
        self.on = False
        self.lines.clear()


class Hook:
    """A call that does nothing once the watch is off. An error in it turns the watch off. Copies, as of a module, do nothing."""

    def __init__(self, writer=None, function=None):
        self.writer, self.function = writer, function

    def __call__(self, *args):
        if self.writer and self.writer.on:
            try:
                self.function(*args)
            except Exception as error:
                self.writer.on = False
                say(f"watching ended: {self.function.func.__name__}: {error!r}")

    def __reduce__(self):
        return Hook, ()


class Watch:
    def __init__(self, model, optimizer, writer):
        self.rank, self.ranks, self.writer = writer.rank, writer.ranks, writer
        self.step, self.micro, self.number, self.phase = 0, 0, 0, "start"
        self.step_begin = self.forward_begin = self.backward_begin = self.unit_begin = self.optimizer_begin = 0
        self.unit, self.unit_begins, self.in_backward, self.inside = None, {}, False, threading.local()
        self.model, self.pending, self.off, self.gradient_bytes = weakref.ref(model), {}, [], None
        engine = hasattr(model, "zero_optimization_stage") and hasattr(model, "backward")
        names = {c.__name__ for m in model.modules() for c in type(m).__mro__}
        self.wrapper = ("deepspeed" if engine else "ddp" if isinstance(model, torch.nn.parallel.DistributedDataParallel) else
                        "fsdp2" if "FSDPModule" in names else "fsdp1" if "FullyShardedDataParallel" in names else None)
        self.optimizer = optimizer or (model.optimizer if engine else None)
        self.units = self.find_units(model)
        self.hook_modules(model)
        if self.optimizer is not None:
            self.hook_optimizer(self.optimizer)
        if writer.live:
            self.hook_collectives()
        self.header(model, model.zero_optimization_stage() if engine else None, dist.get_backend() if writer.live else None)
        for part in self.off:
            say(f"this version of PyTorch or DeepSpeed is not known, and not watched: {part}")

    def find_units(self, model):
        """The repeated blocks, and every other module that has parameters of its own: (name, module to hook, module to count)."""
        lists = [m for m in model.modules() if isinstance(m, (torch.nn.ModuleList, torch.nn.Sequential))]
        blocks = {id(b) for b in max(lists, key=lambda m: sum(map(elements, m.parameters())))} if lists else set()
        units = []

        def walk(module, name):
            inner = getattr(module, "_fsdp_wrapped_module", module)  # internal: FSDP1
            if id(module) in blocks or any(True for _ in inner.parameters(recurse=False)):
                clean = [n for n in name if n not in ("module", "_fsdp_wrapped_module", "_orig_mod")]
                units.append((".".join(clean), inner, module))
            else:
                for child, part in module.named_children():
                    walk(part, [*name, child])

        walk(model, [])
        return units

    def count(self, module, seen):
        """Elements of parameters before sharding: new ones, and those that a unit before has too (tied weights)."""
        new = shared = 0
        for part in module.modules():
            flat = getattr(getattr(part, "_handle", None), "flat_param", None)  # internal: FSDP1
            own = [(id(p), elements(p)) for p in part.parameters(recurse=False)]
            if self.wrapper == "fsdp1":  # parameters are views of the flat one
                own = [] if flat is None else [(id(flat), flat._unpadded_unsharded_size.numel())]
            for key, size in own:
                new, shared = (new, shared + size) if key in seen else (new + size, shared)
                seen.add(key)
        return new, shared

    def header(self, model, stage, backend):
        seen, rows = set(), []
        for number, (name, inner, module) in enumerate(self.units):
            new, shared = self.count(module, seen)
            rows.append({"unit": number, "name": name, "class": type(inner).__name__.removeprefix("FSDP"), "parameters": new,
                         "shared_parameters": shared})
        first = next(model.parameters())
        programs = {name: str(sys.modules[name].__version__) for name in ("torch", "deepspeed") if name in sys.modules}
        self.writer.put({
            "kind": "header", "version": VERSION, "t": now(), "rank": self.rank, "ranks": self.ranks, "unix_ns": time.time_ns(),
            "host": socket.gethostname(), "pid": os.getpid(), "programs": programs, "wrapper": self.wrapper, "stage": stage,
            "backend": backend, "device": first.device.type, "dtype": str(first.dtype)[6:],
            "parameters": self.count(model, set())[0], "optimizer": self.optimizer and type(self.optimizer).__name__,
            "units": rows, "off": self.off})

    def guard(self, function, *first):
        return Hook(self.writer, functools.partial(function, *first))

    def line(self, kind, t, **fields):
        self.writer.put({"kind": kind, "t": t, "rank": self.rank, "step": self.step, "micro": self.micro, **fields})

    # Forward and backward. Backward of a unit: from the gradient of its output to that of its input, by hooks on these tensors.

    def hook_modules(self, model):
        self.engine = torch.autograd.Variable._execution_engine  # internal: says when backward ends
        if not hasattr(self.engine, "queue_callback"):
            self.engine = self.off.append("backward")
        model.register_forward_pre_hook(self.guard(self.forward_starts), prepend=True)
        model.register_forward_hook(self.guard(self.forward_stops))
        if type(model).__name__ == "OptimizedModule":
            return  # hooks inside would cut the compiled graph
        for number, (_, module, _) in enumerate(self.units):
            if module is not model:  # after the wrapper's hook that gathers, before its hook that frees
                module.register_forward_pre_hook(self.guard(self.unit_starts, number))
                module.register_forward_hook(self.guard(self.unit_stops, number), prepend=True)

    def on_gradient(self, value, function, *first):
        if torch.is_grad_enabled() and self.engine:
            for tensor in tensors_in(value):
                if tensor.requires_grad:
                    tensor.register_hook(self.guard(function, *first))

    def forward_starts(self, module, inputs):
        t = now()
        if not torch.is_grad_enabled():
            return  # evaluation is no part of a step
        self.backward_ends()  # if its end was not seen
        if not self.step_begin:
            self.step_begin = t
            self.line("begin", t, what="step")
        self.forward_begin, self.phase = t, "forward"
        self.line("begin", t, what="forward")

    def forward_stops(self, module, inputs, output):
        if self.phase == "forward":
            self.line("end", now(), what="forward", begin_t=self.forward_begin)
            self.phase = "backward"
            self.on_gradient(output, self.backward_starts)

    def unit_starts(self, unit, module, inputs):
        t = now()
        if self.phase in ("forward", "backward"):
            self.unit_begins[unit] = t
            self.line("begin", t, what="recompute" if self.in_backward else "forward", unit=unit)
            self.on_gradient(inputs, self.unit_backward_ends, unit)

    def unit_stops(self, unit, module, inputs, output):
        begin = self.unit_begins.pop(unit, None)
        if begin is not None:
            self.line("end", now(), what="recompute" if self.in_backward else "forward", begin_t=begin, unit=unit)
            self.on_gradient(output, self.unit_backward_starts, unit)

    def backward_starts(self, _):
        if not self.in_backward:
            self.in_backward, self.backward_begin = True, now()
            self.engine.queue_callback(self.guard(self.backward_ends))
            self.line("begin", self.backward_begin, what="backward")

    def unit_backward_starts(self, unit, _):
        self.unit_backward_ends(self.unit, None)
        self.unit, self.unit_begin = unit, now()
        self.line("begin", self.unit_begin, what="backward", unit=unit)

    def unit_backward_ends(self, unit, _):
        if unit is not None and self.unit == unit:
            self.line("end", now(), what="backward", begin_t=self.unit_begin, unit=unit)
            self.unit = None

    def backward_ends(self):
        if not self.in_backward:
            return
        self.unit_backward_ends(self.unit, None)
        t = now()
        self.line("end", t, what="backward", begin_t=self.backward_begin)
        self.in_backward, self.phase = False, "between"
        ddp = self.wrapper == "ddp" and self.model().require_backward_grad_sync
        data = self.model()._get_ddp_logging_data() if ddp else {}  # internal: DDP starts all-reduces in C++; times are not known
        for size in filter(None, (data.get("rebuilt_bucket_sizes") or data.get("bucket_sizes", "")).split(",")):
            self.number += 1
            self.line("collective", t, number=self.number, collective="all_reduce", function=None, phase="backward",
                      group_size=self.ranks, dtype=str(next(self.model().parameters()).dtype)[6:], input_bytes=int(size),
                      output_bytes=int(size), issued_t=None, returned_t=None, waited_t=None, **{"async": True})
        self.micro += 1

    def hook_optimizer(self, optimizer):
        starts, stops = self.guard(self.optimizer_starts), self.guard(self.optimizer_stops)
        if isinstance(optimizer, torch.optim.Optimizer):
            optimizer.register_step_pre_hook(starts)
            optimizer.register_step_post_hook(stops)
        else:  # DeepSpeed's optimizers
            original = optimizer.step
            optimizer.step = lambda *args, **kwargs: (starts(), original(*args, **kwargs), stops())[1]

    def optimizer_starts(self, *_):
        self.backward_ends()
        gradients = [p.grad for p in self.model().parameters() if p.grad is not None]
        for name in ("grad_partitions_flat_buffer", "averaged_gradients"):  # internal: DeepSpeed's stage 3, and stages 1 and 2
            gradients += tensors_in(getattr(self.optimizer, name, None))
        self.gradient_bytes = held(gradients)
        self.optimizer_begin, self.phase = now(), "optimizer"
        self.line("begin", self.optimizer_begin, what="optimizer")

    def optimizer_stops(self, *_):
        t = now()
        self.line("end", t, what="optimizer", begin_t=self.optimizer_begin)
        self.step_ends(t)

    def step_ends(self, t):
        self.phase = "between"
        self.memory(t)
        self.line("step", t, begin_t=self.step_begin, seconds=(t - self.step_begin) / 1e9, micro_steps=self.micro)
        self.step, self.micro, self.step_begin = self.step + 1, 0, 0

    def memory(self, t):
        inner = getattr(self.optimizer, "optimizer", self.optimizer)
        mine = list(self.model().parameters())
        known = {id(p) for p in mine}
        state = [*tensors_in(list(getattr(inner, "state", {}).values()))]
        state += [p for g in getattr(inner, "param_groups", []) for p in g["params"] if id(p) not in known]  # DeepSpeed's masters
        fields = {"parameter_bytes": held(mine + [p.ds_tensor for p in mine if hasattr(p, "ds_tensor")]),  # internal: DeepSpeed
                  "gradient_bytes": self.gradient_bytes, "optimizer_bytes": held(state)}
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            fields.update(allocated_bytes=torch.cuda.memory_allocated(), peak_allocated_bytes=torch.cuda.max_memory_allocated(),
                          reserved_bytes=torch.cuda.memory_reserved())
        self.line("memory", t, **fields)

    def hook_collectives(self):
        module = dist.distributed_c10d
        cdb = getattr(sys.modules.get("deepspeed.comm.comm"), "cdb", None)  # internal: holds two of the functions
        if self.wrapper == "deepspeed" and not hasattr(cdb, "all_gather_function"):
            self.off.append("some collectives of DeepSpeed")
        places = [(dist, None), (module, None), (cdb, "all_gather_function"), (cdb, "reduce_scatter_function")]
        for kind, names in COLLECTIVES.items():
            for name in names.split():
                original = getattr(module, name, None)
                wrapped = original and self.wrap_collective(kind, name, original)
                for place, field in places:
                    if original and getattr(place, field or name, None) == original:
                        setattr(place, field or name, wrapped)
        wait, ends, pending = dist.Work.wait, self.guard(self.collective_ends), self.pending

        @functools.wraps(wait)
        def watched_wait(work, *args, **kwargs):
            result = wait(work, *args, **kwargs)
            if id(work) in pending:
                ends(id(work), now())
            return result

        dist.Work.wait = watched_wait  # internal: a C++ class that takes new attributes

    def wrap_collective(self, kind, name, original):
        order = list(inspect.signature(original).parameters)
        inside, note = self.inside, self.guard(self.note_collective)

        @functools.wraps(original)
        def call(*args, **kwargs):
            if torch.compiler.is_compiling() or not self.writer.on or getattr(inside, "call", False):
                return original(*args, **kwargs)  # also a function inside another that is counted
            inside.call, issued, phase = True, now(), self.phase
            try:
                work = original(*args, **kwargs)
            finally:
                inside.call = False
            note(kind, name, issued, phase, work, order, {**dict(zip(order, args)), **kwargs})
            return work

        return call

    def note_collective(self, kind, name, issued, phase, work, order, given):
        returned, asynchronous = now(), bool(given.get("async_op"))
        output = list(tensors_in(given.get(order[0])))  # none for barrier: its first argument is the group
        inputs = output if kind in IN_PLACE else list(tensors_in(given.get(order[1])))
        self.number += 1
        line = {"kind": "collective", "t": returned, "rank": self.rank, "step": self.step, "micro": self.micro,
                "collective": kind, "number": self.number, "function": name, "phase": phase,
                "group_size": dist.get_world_size(given.get("group")), "dtype": str(inputs[0].dtype)[6:] if inputs else None,
                "input_bytes": sum(t.nbytes for t in inputs), "output_bytes": sum(t.nbytes for t in output),
                "issued_t": issued, "returned_t": returned, "waited_t": None if asynchronous else returned, "async": asynchronous}
        if asynchronous and work is not None:
            self.pending[id(work)] = line
            weakref.finalize(work, self.guard(self.collective_ends), id(work), None).atexit = False
        else:
            self.writer.put(line)

    def collective_ends(self, key, waited):
        line = self.pending.pop(key, None)
        if line is not None:
            self.writer.put({**line, "t": waited or now(), "waited_t": waited})

    def user_step(self, loss):
        if loss is not None:
            number, loss = self.step - (self.optimizer is not None), float(getattr(loss, "detach", lambda: loss)())
            self.writer.put({"kind": "loss", "t": now(), "rank": self.rank, "step": number,
                             "loss": loss if math.isfinite(loss) else str(loss)})
        if self.optimizer is None and self.step_begin:
            self.step_ends(now())

    def stop(self):
        for key in list(self.pending):
            self.collective_ends(key, None)
        error = getattr(sys, "last_value", None)  # what nobody caught
        text = None if error is None else f"{type(error).__name__}: {error}".split("\n")[0]
        self.writer.put({"kind": "finish", "t": now(), "rank": self.rank, "error": text})
        self.writer.closing.set()
        self.writer.thread.join(timeout=2)


def watch(model, optimizer=None, to=None):
    """Begins to watch this rank. The optimizer may be left out for DeepSpeed's engine, or where step() is called every step."""
    global _watch
    target, writer = to or os.environ.get("ZEROLAB_STREAM"), None
    if not target:
        return
    if _watch is not None:
        return say("watch() was called before: a process has one stream")
    try:
        writer = Writer(target)
        _watch = Watch(model, optimizer, writer)
        atexit.register(stop)
        os.register_at_fork(after_in_child=functools.partial(setattr, writer, "on", False))  # workers of data loaders
    except Exception as error:
        say(f"nothing is watched: {target}: {error}")
        if writer:
            writer.on = False


def step(loss=None):
    """The loss of the step that has just ended. Without an optimizer in watch(), ends the step. Waits for a loss on a GPU."""
    if _watch is not None:
        _watch.guard(_watch.user_step)(loss)


def stop():
    """Writes what is left and ends the stream. Called at the end of the process."""
    if _watch is not None and _watch.writer.on:
        _watch.stop()
