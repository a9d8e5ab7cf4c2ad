/* 16-bit numbers as the GPU's conversion instructions treat them; written apart from the CPU's kernels that they are compared
 * with. */
#pragma once

#include <math.h>
#include <string.h>

static inline float fake_float(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint32_t fake_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* Of a normal float: -126 to 127. Built from its bits, because ldexpf() and frexpf() take most of a product's time. */
static inline float fake_power_of_two(int exponent)
{
    return fake_float((uint32_t)(exponent + 127) << 23);
}

static inline float to_float(bf16 x)
{
    return fake_float((uint32_t)x.bits << 16);
}

static inline void from_float(bf16 *y, float x)
{
    const uint32_t bits = fake_bits(x);
    y->bits = x != x ? 0x7fff : (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* With its exponent moved to a float's place, the number is smaller by 2^112 than it is, subnormal ones, too. */
static inline float to_float(fp16 x)
{
    const uint32_t size = (uint32_t)(x.bits & 0x7fff) << 13;
    const float y = size < 0x0f800000 ? fake_float(size) * 0x1p112f : fake_float(size | 0x7f800000);
    return fake_float(fake_bits(y) | (uint32_t)(x.bits & 0x8000) << 16);
}

/* The step between neighbours is a power of two; a float counts in it exactly, and rintf() rounds to even. */
static inline void from_float(fp16 *y, float x)
{
    const uint16_t sign = (uint16_t)(fake_bits(x) >> 16 & 0x8000);
    const float size = fabsf(x);
    if (x != x) {
        y->bits = 0x7fff;
        return;
    }
    if (size == 0) {
        y->bits = sign;
        return;
    }
    if (size >= 65520) {
        y->bits = (uint16_t)(sign | 0x7c00);
        return;
    }
    int exponent = (int)(fake_bits(size) >> 23) - 126; /* size < 2^exponent */
    if (exponent < -13) exponent = -13;
    const int steps = (int)rintf(size * fake_power_of_two(11 - exponent)); /* 1024 .. 2048, or fewer where subnormal */
    y->bits = (uint16_t)(sign | (((exponent + 13) << 10) + steps));
}
