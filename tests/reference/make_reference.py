#!/usr/bin/env python3
"""Makes tiny_gpt.bin: what PyTorch says about a tiny GPT-2 and about ten AdamW steps, for test_gpt.c and test_optimizers.c.

    pip install torch numpy && python3 tests/reference/make_reference.py

The model is computed by PyTorch's own operators and autograd in float64, then stored as float32. Its parameters are
multiples of 2^-7 times a power of two with at most 8 significant bits, so they are the same numbers in fp32 and in bf16, and one
reference serves both: what a bf16 run differs by is its own rounding of activations and gradients (PyTorch's own bf16 run
of this model differs by up to 1.06e-2 of a gradient's norm from its float64 run; ours must stay under 7.8e-3). They come from the
counter-based generator of engine/base/rng.h, written again here.

File: float32, little endian, no header: logits [N, V], losses [N], gradients of every unit in the order of
engine/plan/tensors.def, parameters after each of the ten AdamW steps [10, ADAM].
"""
import math
import pathlib

import numpy as np
import torch
import torch.nn.functional as F

L, C, NH, X, V, B, T = 2, 24, 2, 21, 37, 2, 19
ADAM, ADAM_STEPS = 37, 10
SEED = 7
MASK = (1 << 64) - 1


def mix(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def u64(seed, stream, index):
    return mix(mix(mix(seed) ^ stream) ^ index)


def signed(stream, count):
    """Whole numbers from -127 to 127."""
    return np.array([u64(SEED, stream, i) % 255 - 127 for i in range(count)], dtype=np.float64)


def parameter(stream, name, shape):
    values = signed(stream, math.prod(shape))
    if name.startswith("ln") and name.endswith(".w"):
        values = 1 + np.floor(values / 4) / 128
    else:
        values = values / 128 * (0.5 if name in ("wte", "wpe") else 0.125)
    return torch.tensor(values.reshape(shape), dtype=torch.float64, requires_grad=True)


EMBED = [("wte", (V, C)), ("wpe", (X, C))]
BLOCK = [("mlp.fc.w", (4 * C, C)), ("mlp.proj.w", (C, 4 * C)), ("attn.qkv.w", (3 * C, C)), ("attn.proj.w", (C, C)),
         ("mlp.fc.b", (4 * C,)), ("attn.qkv.b", (3 * C,)), ("ln1.w", (C,)), ("ln1.b", (C,)), ("attn.proj.b", (C,)),
         ("ln2.w", (C,)), ("ln2.b", (C,)), ("mlp.proj.b", (C,))]
NORM = [("lnf.w", (C,)), ("lnf.b", (C,))]


def model_parameters():
    units, stream = [], 0
    for rows in [EMBED] + [BLOCK] * L + [NORM]:
        unit = {}
        for name, shape in rows:
            unit[name] = parameter(stream, name, shape)
            stream += 1
        units.append(unit)
    return units


def forward(units, tokens):
    embed, blocks, norm = units[0], units[1:-1], units[-1]
    x = embed["wte"][tokens] + embed["wpe"][:T]
    for b in blocks:
        h = F.layer_norm(x, (C,), b["ln1.w"], b["ln1.b"], 1e-5)
        q, k, v = F.linear(h, b["attn.qkv.w"], b["attn.qkv.b"]).split(C, dim=2)
        heads = [t.view(B, T, NH, C // NH).transpose(1, 2) for t in (q, k, v)]
        a = F.scaled_dot_product_attention(*heads, is_causal=True).transpose(1, 2).reshape(B, T, C)
        x = x + F.linear(a, b["attn.proj.w"], b["attn.proj.b"])
        h = F.layer_norm(x, (C,), b["ln2.w"], b["ln2.b"], 1e-5)
        h = F.gelu(F.linear(h, b["mlp.fc.w"], b["mlp.fc.b"]), approximate="tanh")
        x = x + F.linear(h, b["mlp.proj.w"], b["mlp.proj.b"])
    x = F.layer_norm(x, (C,), norm["lnf.w"], norm["lnf.b"], 1e-5)
    return F.linear(x, embed["wte"])


def adamw_steps():
    p = torch.tensor(signed(1000, ADAM) / 128, dtype=torch.float32, requires_grad=True)
    optimizer = torch.optim.AdamW([p], lr=1e-2, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.1)
    after = []
    for step in range(ADAM_STEPS):
        p.grad = torch.tensor(signed(1001 + step, ADAM) / 128, dtype=torch.float32)
        optimizer.step()
        after.append(p.detach().numpy().copy())
    return np.concatenate(after)


def main():
    units = model_parameters()
    tokens = torch.tensor([u64(SEED + 1, 0, n) % V for n in range(B * T)]).view(B, T)
    targets = torch.tensor([u64(SEED + 1, 1, n) % V for n in range(B * T)])
    logits = forward(units, tokens)
    losses = F.cross_entropy(logits.view(B * T, V), targets, reduction="none")
    losses.mean().backward()
    parts = [logits.detach().numpy().ravel(), losses.detach().numpy().ravel()]
    parts += [tensor.grad.numpy().ravel() for unit in units for tensor in unit.values()]
    parts.append(adamw_steps())
    out = pathlib.Path(__file__).with_name("tiny_gpt.bin")
    out.write_bytes(np.concatenate([p.astype("<f4") for p in parts]).tobytes())
    print(out, out.stat().st_size, "bytes; mean loss", losses.mean().item(), "torch", torch.__version__)


main()
