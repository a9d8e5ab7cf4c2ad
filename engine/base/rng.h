/* Counter-based random numbers: a value is a pure function of (seed, stream, index). So a tensor can be initialised
 * shard by shard, on any rank, at any stage, with the same result. The samples of a step are chosen in the same way.
 * The mixer is SplitMix64's finalizer (Steele, Lea, Flood 2014), applied to each of the three inputs in turn. */
#pragma once

#include <math.h>
#include <stdint.h>

static inline uint64_t rng_mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static inline uint64_t rng_u64(uint64_t seed, uint64_t stream, uint64_t index)
{
    return rng_mix(rng_mix(rng_mix(seed) ^ stream) ^ index);
}

/* Uniform in (0, 1], 53 bits: never 0, so that its logarithm is finite. */
static inline double rng_uniform(uint64_t seed, uint64_t stream, uint64_t index)
{
    return (double)((rng_u64(seed, stream, index) >> 11) + 1) * 0x1.0p-53;
}

/* Two standard normals (Box and Muller) from one pair of uniforms: numbers 2 * pair and 2 * pair + 1 of the stream. */
static inline void rng_normal_pair(uint64_t seed, uint64_t stream, uint64_t pair, double normal[2])
{
    double radius = sqrt(-2.0 * log(rng_uniform(seed, stream, 2 * pair)));
    double angle = 6.283185307179586 * rng_uniform(seed, stream, 2 * pair + 1);
    normal[0] = radius * cos(angle);
    normal[1] = radius * sin(angle);
}
