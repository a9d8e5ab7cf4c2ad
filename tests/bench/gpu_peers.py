"""What PyTorch, and llm.c where LLMC names its train_gpt2cu, reach on this GPU at the sizes at which zerolab is measured.

    gpu_peers.py [MODEL=BATCH...]        at these batches, and at smaller ones only where PyTorch has no memory for them; else gpt2=64

A GPT-2 of our own, as one would write it for speed in PyTorch: bf16 by autocast over fp32 weights, scaled_dot_product_attention,
fused AdamW, the vocabulary padded to a multiple of 128. Medians of steps after some that warm up; MFU as gpu_engine_speed.sh
counts it. SMALL=1 runs all of it on the processor with sizes that mean nothing.
"""
import os
import re
import subprocess
import sys
import tempfile
import time

import torch
from torch import nn
from torch.nn import functional as F

SMALL = os.environ.get("SMALL") == "1"
DEVICE = "cpu" if SMALL else "cuda"
PEAKS = (("H100 PCIe", 756e12), ("H100", 989.5e12), ("H200", 989.5e12), ("A100", 312e12))  # bf16, dense, as the vendor states it
MODELS = {"gpt2": (12, 12, 768), "gpt2-xl": (48, 25, 1600), "small": (2, 2, 32)}  # layers, heads, width


def peak():
    name = "" if SMALL else torch.cuda.get_device_name()
    return next((rate for part, rate in PEAKS if all(word in name for word in part.split())), None)


def wait():
    if not SMALL:
        torch.cuda.synchronize()


class Block(nn.Module):
    def __init__(self, heads, width):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc, self.proj = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (part.view(B, T, self.heads, -1).transpose(1, 2) for part in self.qkv(self.norm1(x)).split(C, dim=2))
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(B, T, C))
        return x + self.proj(F.gelu(self.fc(self.norm2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self, layers, heads, width, context, vocabulary=50304):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(heads, width) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens, targets):
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), targets.flatten())


def median_seconds(step, warm, count):
    seconds = []
    for i in range(warm + count):
        wait()
        begin = time.perf_counter()
        step()
        wait()
        if i >= warm:
            seconds.append(time.perf_counter() - begin)
    return sorted(seconds)[count // 2]


def training_step(model, B, T):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    tokens = torch.randint(50257, (B, T + 1), device=DEVICE)

    def step():
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            loss = model(tokens[:, :-1], tokens[:, 1:])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def say(name, B, T, who, rate, operations):
    share = f"  MFU {100 * rate * operations / peak():5.1f} %" if peak() else ""
    print(f"  {name:<12} B={B:<3} T={T:<5} {who:<30} {rate:10.0f} tokens/s{share}", flush=True)


def train(name, T, batches, compiled):
    layers, heads, width = MODELS[name]
    for B in batches:
        try:
            torch.manual_seed(1)
            torch.compiler.reset()
            model = GPT(layers, heads, width, T).to(DEVICE)
            operations = 6 * sum(p.numel() for p in model.parameters()) + 6 * layers * width * T
            step = training_step(torch.compile(model) if compiled else model, B, T)
            seconds = median_seconds(step, 5, 10)
            say(name, B, T, f"PyTorch {torch.__version__.split('+')[0]}, {'torch.compile' if compiled else 'eager'}", B * T / seconds, operations)
            return
        except torch.OutOfMemoryError:
            print(f"  {name} B={B}: PyTorch is out of memory", flush=True)
        finally:
            model = step = None
            if not SMALL:
                torch.cuda.empty_cache()


def attention(B, H, T, D):
    """Per backend: the products of causal attention, forward 2, backward 5, over the time."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    shape = (B, H, T, D)
    q, k, v = (torch.randn(shape, device=DEVICE, dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
    gradient = torch.randn(shape, device=DEVICE, dtype=torch.bfloat16)
    forward_operations = 4 * B * H * T * D * T / 2
    for backend in (SDPBackend.MATH,) if SMALL else (SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION):
        try:
            with sdpa_kernel(backend):
                run = lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True)
                forward = median_seconds(lambda: [run() for _ in range(4)], 3, 9) / 4
                out = run()
                backward = median_seconds(
                    lambda: [torch.autograd.grad(out, (q, k, v), gradient, retain_graph=True) for _ in range(4)], 3, 9
                ) / 4
        except RuntimeError as error:
            print(f"  attention, PyTorch {backend.name}: {str(error).splitlines()[0]}")
            continue
        for what, seconds, operations in (("forward", forward, 1), ("backward", backward, 2.5)):
            print(f"  attention {what:<9} PyTorch {backend.name:<16} {seconds * 1e3:9.3f} ms  "
                  f"{operations * forward_operations / seconds * 1e-12:7.1f} TFLOP/s", flush=True)


def llmc(program, B, T):
    """llm.c prints a line for each step, with its milliseconds in it. Once as it is, and once with GELU kept and in the products."""
    import array

    with tempfile.TemporaryDirectory() as folder:
        shard = os.path.join(folder, "tokens.bin")
        count = 40 * B * T
        with open(shard, "wb") as file:
            array.array("i", [20240520, 1, count] + [0] * 253).tofile(file)
            torch.randint(50257, (count,), dtype=torch.int32).to(torch.uint16).numpy().tofile(file)
        command = f"{program} -i {shard} -j {shard} -e d12 -b {B} -t {T} -d {B * T} -x 20 -v 1000000 -m 1 -s 0"
        for more in "", " -r 0 -ge 2":
            said = subprocess.run((command + more).split(), capture_output=True, text=True, timeout=240)
            times = [float(ms) for ms in re.findall(r"([0-9.]+) ms", said.stdout)]
            if len(times) < 20:
                print(f"  llm.c{more}: status {said.returncode}, {(said.stderr or said.stdout).strip().splitlines()[-1:]}")
                continue
            say("gpt2", B, T, "llm.c " + os.path.basename(program)[12:] + more, B * T / sorted(times[3:20])[8] * 1e3, 6 * 124475904 + 6 * 12 * 768 * T)


def main():
    torch.backends.cuda.matmul.allow_tf32 = True
    if SMALL:
        train("small", 16, [2], False)
        attention(1, 2, 64, 16)
        return
    wanted = dict(argument.split("=") for argument in sys.argv[1:]) or {"gpt2": 64}
    batches = {name: [int(most)] + [B for B in (32, 24, 16, 12, 8, 4) if B < int(most)] for name, most in wanted.items()}
    if "gpt2" in batches:
        attention(batches["gpt2"][0], 12, 1024, 64)
    for name in batches:  # the compiled ones first: they are the faster, and time may end
        for compiled in (True, False):
            if name == "gpt2" or compiled or os.environ.get("XL") == "1":
                train(name, 1024, batches[name], compiled)
    if "gpt2" in batches:
        for program in os.environ.get("LLMC", "").split():
            llmc(program, batches["gpt2"][0], 1024)
        if "LLMC" not in os.environ:
            print("  llm.c: not here (LLMC=path/to/train_gpt2cu)")


if __name__ == "__main__":
    sys.exit(main())
