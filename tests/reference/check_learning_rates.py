#!/usr/bin/env python3
"""Holds the checksums in tests/unit/test_learning_rate.c to two other sources: DeepSpeed's own classes, and the formulas of the
schedules computed with 60 digits. Prints one line for each row.

    pip install torch deepspeed mpmath && python3 tests/reference/check_learning_rates.py

A row's checksum is FNV-1a over "%.9e %.9e\\n" of learning rate and first beta, 10,000 steps.
"""
import pathlib
import re
import sys

import mpmath
import torch
from deepspeed.runtime import lr_schedules
from mpmath import mpf

STEPS, LR, MASK = 10000, '2e-3', (1 << 64) - 1
mpmath.mp.dps = 60


def rows():
    text = (pathlib.Path(__file__).parent.parent / 'test_learning_rate.c').read_text()
    for m in re.finditer(r'\{"(\w+)",\s*((?:"[^"]*"\s*)+),\s*(0x[0-9a-f]+)', text):
        params = ''.join(re.findall(r'"([^"]*)"', m.group(2)))
        yield m.group(1), dict(p.split('=') for p in params.split()), int(m.group(3), 16)


def checksum(values):
    value = 0xcbf29ce484222325
    for rate, beta in values:
        for byte in ('%.9e %.9e\n' % (rate, beta)).encode():
            value = ((value ^ byte) * 0x100000001b3) & MASK
    return value


def deepspeeds(kind, given):
    convert = lambda v: v == 'true' if v in ('true', 'false') else v if v in ('log', 'linear') else \
        int(v) if re.fullmatch(r'\d+', v) else float(v)
    params = {key: convert(value) for key, value in given.items()}
    optimizer = torch.optim.AdamW([torch.zeros(1, requires_grad=True)], lr=float(LR))
    if kind == 'WarmupLR':
        params.setdefault('warmup_max_lr', float(LR))
    schedule = getattr(lr_schedules, kind)(optimizer, **params)
    for _ in range(STEPS):
        group = optimizer.param_groups[0]
        yield group['lr'], group['betas'][0]
        schedule.step()


def formulas(kind, given):
    """By the documented formulas, i = the number of the last iteration; steps and stairs as whole numbers."""
    g = lambda key, default: mpf(given.get(key, default))
    n = lambda key, default: int(given.get(key, default))
    warm = max(2, n('warmup_num_steps', 1000))
    total = n('total_num_steps', 0)
    linear = given.get('warmup_type', 'log') == 'linear'

    def gamma(i):
        return mpf(i) / warm if linear else mpmath.log(i + 1) / mpmath.log(warm)

    def warmup(i):
        low, high = g('warmup_min_lr', 0), g('warmup_max_lr', LR if kind == 'WarmupLR' else '0.001')
        if i < 0:
            return low
        if i < warm:
            return low + (high - low) * gamma(i)
        if kind == 'WarmupLR':
            return high
        return low + (high - low) * max(mpf(0), mpf(total - i) / max(1, total - warm))

    def cosine(i):
        if i < 0:
            return mpf(0)
        if i < warm:
            ratio = g('warmup_min_ratio', 0)
            return mpf(LR) * (ratio + (1 - ratio) * gamma(i))
        low = g('cos_min_ratio', '1e-4')
        p = min(mpf(1), mpf(i - warm + 1) / max(1, total - warm))
        return mpf(LR) * (low + (1 - low) * (1 + mpmath.cos(mpmath.pi * p)) / 2)

    first = n('cycle_first_step_size', 2000)
    second = n('cycle_second_step_size', first)
    stairs_up = n('cycle_first_stair_count', 0)
    stairs_down = n('cycle_second_stair_count', stairs_up)

    def height(i):
        at = (i + 1) % (first + second)
        up = at <= first
        size, left, stairs = (first, at, stairs_up) if up else (second, first + second - at, stairs_down)
        return mpf(left * stairs // size) / stairs if stairs else mpf(left) / size

    def cycle(i):
        low, high = g('cycle_min_lr', 0), g('cycle_max_lr', 0)
        after = i - (first + second) + 1
        if after <= 0:
            return low + (high - low) * height(i)
        size = n('decay_step_size', 0)
        return low / (1 + g('decay_lr_rate', 0) * mpf(after) / size) if size else low

    def beta(i):
        if kind != 'OneCycle':
            return mpf('0.9')
        low, high = g('cycle_min_mom', '0.8'), g('cycle_max_mom', '0.9')
        after = i - (first + second) + 1
        if i < 0:
            return low
        if after <= 0:
            return high - (high - low) * height(i)
        size = n('decay_step_size', 0)
        return high * (1 + g('decay_mom_rate', 0) * mpf(after) / size) if size else high

    def range_test(i):
        size = n('lr_range_test_step_size', 2000)
        rises = mpf((i + 1) // size) if given.get('lr_range_test_staircase') == 'true' else mpf(i + 1) / size
        return g('lr_range_test_min_lr', '1e-3') * (1 + g('lr_range_test_step_rate', 1) * rises)

    rate = {'WarmupLR': warmup, 'WarmupDecayLR': warmup, 'WarmupCosineLR': cosine, 'OneCycle': cycle,
            'LRRangeTest': range_test}[kind]
    for updates in range(STEPS):
        yield rate(updates - 1), beta(updates - 1)


def differing(exact, doubles):
    """Steps whose printed digits differ, and the largest relative difference."""
    worst, count = mpf(0), 0
    for (a, b), (c, d) in zip(exact, doubles):
        worst = max(worst, abs(mpf(c) - a) / (abs(a) or 1), abs(mpf(d) - b) / (abs(b) or 1))
        count += ('%.9e' % a, '%.9e' % b) != ('%.9e' % c, '%.9e' % d)
    return count, worst


failures = 0
for kind, params, expected in rows():
    theirs = list(deepspeeds(kind, params))
    same = checksum(theirs) == expected
    count, worst = differing(formulas(kind, params), theirs)
    failures += not same or count > 0
    print('%-15s %s; against the formulas: %d of %d steps differ in the tenth digit, at most %.1e' %
          (kind, 'as DeepSpeed' if same else 'NOT as DeepSpeed', count, STEPS, worst))
sys.exit(failures > 0)
