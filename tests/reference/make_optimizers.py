#!/usr/bin/env python3
"""Makes optimizers.bin: ten steps of each optimizer but AdamW (that is in tiny_gpt.bin), for tests/unit/test_optimizers.c.

    pip install torch numpy && python3 tests/reference/make_optimizers.py

PyTorch's own optimizers in fp32 on the CPU. PyTorch has no Lion: its update is written here with PyTorch's operations, from the paper's algorithm
(Chen et al. 2023, Algorithm 2). Parameters and gradients are those of make_reference.py.

File: float32, little endian, no header: parameters after each step [CASES, STEPS, ELEMS].
"""
import pathlib

import numpy as np
import torch

SEED, ELEMS, STEPS = 7, 37, 10
MASK = (1 << 64) - 1


def mix(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & MASK
    return x ^ (x >> 31)


def signed(stream, count):
    """Whole numbers from -127 to 127."""
    return np.array([mix(mix(mix(SEED) ^ stream) ^ i) % 255 - 127.0 for i in range(count)])


class Lion(torch.optim.Optimizer):
    def __init__(self, params, lr, betas, weight_decay):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            lr, (beta1, beta2), decay = group["lr"], group["betas"], group["weight_decay"]
            for p in group["params"]:
                m = self.state[p].setdefault("momentum", torch.zeros_like(p))
                p.mul_(1 - lr * decay)
                p.add_((m * beta1 + p.grad * (1 - beta1)).sign(), alpha=-lr)
                m.mul_(beta2).add_(p.grad, alpha=1 - beta2)


CASES = [
    lambda p: torch.optim.Adam(p, lr=1e-2, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.1),
    lambda p: Lion(p, lr=1e-2, betas=(0.9, 0.99), weight_decay=0.1),
    lambda p: torch.optim.Adagrad(p, lr=1e-2, eps=1e-10, weight_decay=0.1),
    lambda p: torch.optim.SGD(p, lr=1e-1, weight_decay=0.1),
    lambda p: torch.optim.SGD(p, lr=1e-1, momentum=0.9, dampening=0.25, weight_decay=0.1),
    lambda p: torch.optim.SGD(p, lr=1e-1, momentum=0.9, nesterov=True),
]


def main():
    out = []
    for make in CASES:
        p = torch.tensor(signed(1000, ELEMS) / 128, dtype=torch.float32, requires_grad=True)
        optimizer = make([p])
        for step in range(STEPS):
            p.grad = torch.tensor(signed(1001 + step, ELEMS) / 128, dtype=torch.float32)
            optimizer.step()
            out.append(p.detach().numpy().copy())
    path = pathlib.Path(__file__).with_name("optimizers.bin")
    path.write_bytes(np.concatenate(out).astype("<f4").tobytes())
    print(path, path.stat().st_size, "bytes; torch", torch.__version__)


main()
