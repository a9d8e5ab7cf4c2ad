/* GELU in tanh form, of one number. */
#pragma once

#include <cuda_runtime.h>

/* 0.5 (1 + tanh u) is 1 / (1 + e^-2u), so GELU in tanh form is x times that, with u = sqrt(2/pi) (x + 0.044715 x^3). Where
 * e^-2u is beyond a float the gate is 0, and x times that is 0, as it should. */
__device__ __forceinline__ float gelu_gate(float x)
{
    const float twice = 2 * 0.7978845608f;
    return 1 / (1 + expf(-x * (x * x * (twice * 0.044715f) + twice)));
}

__device__ __forceinline__ float gelu_slope(float x)
{
    const float gate = gelu_gate(x), twice = 2 * 0.7978845608f;
    const float slope = x * x * (3 * twice * 0.044715f) + twice; /* 2 du/dx */
    return gate + x * gate * ((1 - gate) * slope);
}
