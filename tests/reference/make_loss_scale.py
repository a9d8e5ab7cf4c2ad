#!/usr/bin/env python3
"""Prints the rows of `long_runs` in tests/unit/test_loss_scale.c: 5,000 steps of DeepSpeed's own loss scaler for each setting.

    pip install torch deepspeed && python3 tests/reference/make_loss_scale.py

Steps overflow as training does: the larger the scale the more often, and now and then several in a row, so the sequence depends on
what the scaler made of the steps before. overflows() is the same function as in the test.
"""
import math

import torch
from deepspeed.runtime.fp16 import loss_scaler

STEPS = 5000
MASK = (1 << 64) - 1
SETTINGS = [  # initial power, window, hysteresis, consecutive
    (16, 1000, 2, False), (16, 50, 1, False), (24, 100, 2, False), (16, 20, 3, True), (10, 7, 4, False), (16, 100, 2, True)]


def mix(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def overflows(run, step, scale):
    power = int(math.log2(scale))
    for back in range(4 if power >= 6 else 0):  # a burst of up to four began not long ago
        x = mix(run * 1000003 + step - back) if step >= back else 1
        if x % 53 == 0 and (x >> 32) % 4 >= back:
            return True
    return power + mix(run * 1000003 + step) % 12 >= 27


def checksum(text, value):
    for byte in text.encode():
        value = ((value ^ byte) * 1099511628211) & MASK
    return value


loss_scaler.dist.get_rank = lambda: 1  # no process group, no messages
loss_scaler.logger.disabled = True
for run, (power, window, hysteresis, consecutive) in enumerate(SETTINGS):
    scaler = loss_scaler.CreateLossScaler(
        dtype=torch.half, static_loss_scale=0, dynamic_scaling=True,
        dynamic_loss_args={'init_scale': 2.0**power, 'scale_window': window, 'min_scale': 1, 'delayed_shift': hysteresis,
                           'consecutive_hysteresis': consecutive})
    sum_, skipped, raised, lowered = 14695981039346656037, 0, 0, 0
    for step in range(STEPS):
        before = scaler.loss_scale
        overflow = overflows(run, step, before)
        scaler.update_scale(overflow)
        skipped += overflow
        raised += scaler.loss_scale > before
        lowered += scaler.loss_scale < before
        sum_ = checksum('%d %.0f\n' % (overflow, scaler.loss_scale), sum_)
    print('    {{true, 0, %d, %d, %d, %s, 1}, %d, %d, %d, 0x%016x},' %
          (power, window, hysteresis, str(consecutive).lower(), skipped, raised, lowered, sum_))
