/* Sixteen floats in the compiler's own vectors, which any processor has. Used on processors without AVX2 and AVX-512, and
 * as the reference in tests. There is no fused multiply-add here: without the instruction it would be a library call per element. */
#include <math.h>
#include <string.h>

typedef float vec __attribute__((vector_size(VEC_LANES * 4)));
typedef double vec_double __attribute__((vector_size(VEC_LANES * 8)));
typedef uint32_t vec_bits __attribute__((vector_size(VEC_LANES * 4)));
typedef int32_t vec_ints __attribute__((vector_size(VEC_LANES * 4)));
typedef uint16_t vec_halves __attribute__((vector_size(VEC_LANES * 2)));

enum { TILE_ROWS = 4, TILE_VECS = 1 };

#define EACH(expression)                                                                                       \
    vec result;                                                                                                \
    for (int i = 0; i < VEC_LANES; i++) result[i] = (expression);                                              \
    return result

static inline vec vec_set(float x) { return x - (vec){0}; }
static inline vec vec_add(vec a, vec b) { return a + b; }
static inline vec vec_sub(vec a, vec b) { return a - b; }
static inline vec vec_mul(vec a, vec b) { return a * b; }
static inline vec vec_div(vec a, vec b) { return a / b; }
static inline vec vec_fma(vec a, vec b, vec c) { return a * b + c; }

static inline vec vec_round(vec a) { return a + 12582912.0f - 12582912.0f; } /* 1.5 x 2^23, whose neighbours are integers */

/* Uses an array, so that the compiler vectorizes the loop. */
static inline vec vec_sqrt(vec a)
{
    float x[VEC_LANES];
    memcpy(x, &a, sizeof x);
    for (int i = 0; i < VEC_LANES; i++) x[i] = sqrtf(x[i]);
    memcpy(&a, x, sizeof a);
    return a;
}

static inline vec vec_fused(vec a, vec b, vec c) { EACH(fmaf(a[i], b[i], c[i])); }
static inline vec vec_max(vec a, vec b) { EACH(a[i] > b[i] ? a[i] : b[i]); }
static inline vec vec_min(vec a, vec b) { EACH(a[i] < b[i] ? a[i] : b[i]); }
static inline vec vec_larger(vec a, vec b) { return vec_max(a, (vec)((vec_bits)b & 0x7fffffff)); }
static inline vec vec_sign(vec a) { EACH(a[i] > 0 ? 1 : a[i] < 0 ? -1 : 0); }
static inline vec vec_first(vec a, int64_t n, float rest) { EACH(i < n ? a[i] : rest); }

static inline float float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t bits_of_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* A NaN in n only comes with a NaN in a; the conversion to an integer needs a number all the same. */
static inline float power_of_two(float n)
{
    return n == n ? float_of_bits((uint32_t)((int32_t)n + 127) << 23) : 1;
}

static inline vec vec_scale2(vec a, vec n) { EACH(a[i] * power_of_two(n[i])); }

static inline float vec_sum(vec a)
{
    for (int half = VEC_LANES / 2; half; half /= 2)
        for (int i = 0; i < half; i++) a[i] += a[i + half];
    return a[0];
}

static inline float vec_highest(vec a)
{
    float highest = a[0];
    for (int i = 1; i < VEC_LANES; i++) highest = a[i] > highest ? a[i] : highest;
    return highest;
}

static inline float vec_largest(vec a) { return vec_highest(a); }

static inline vec vec_load(const float *x)
{
    vec all;
    memcpy(&all, x, sizeof all);
    return all;
}

static inline vec vec_load_part(const float *x, int64_t n)
{
    if (n >= VEC_LANES) return vec_load(x);
    EACH(i < n ? x[i] : 0);
}

static inline void vec_store(float *y, vec a) { memcpy(y, &a, sizeof a); }

static inline void vec_store_part(float *y, vec a, int64_t n)
{
    if (n >= VEC_LANES) vec_store(y, a);
    else
        for (int i = 0; i < n; i++) y[i] = a[i];
}

static inline vec vec_load_bf16_part(const uint16_t *x, int64_t n)
{
    vec_halves some = {0};
    if (n >= VEC_LANES) memcpy(&some, x, sizeof some);
    else memcpy(&some, x, (size_t)n * sizeof *x);
    return (vec)(__builtin_convertvector(some, vec_bits) << 16);
}

/* Rounds to nearest, ties to even. A NaN becomes a quiet NaN. */
static inline vec_halves bf16_of(vec a)
{
    const vec_bits bits = (vec_bits)a, nan = (vec_bits)((vec_ints)(0x7f800000 - (bits & 0x7fffffff)) >> 31);
    const vec_bits rounded = bits + (bits >> 16 & 1) + 0x7fff, quiet = bits | 0x400000;
    return __builtin_convertvector(((rounded & ~nan) | (quiet & nan)) >> 16, vec_halves);
}

static inline void vec_store_bf16_part(uint16_t *y, vec a, int64_t n)
{
    const vec_halves all = bf16_of(a);
    if (n >= VEC_LANES) memcpy(y, &all, sizeof all);
    else memcpy(y, &all, (size_t)n * sizeof *y);
}

/* fp16 as F16C converts it: subnormals are kept, what rounds to 2^16 or more is infinite, a NaN stays one and is quiet. */
static inline float float_of_f16(uint16_t half)
{
    const uint32_t sign = (uint32_t)(half & 0x8000) << 16, magnitude = half & 0x7fff;
    if (magnitude > 0x7c00) return float_of_bits(sign | 0x7fc00000 | magnitude << 13);
    if (magnitude == 0x7c00) return float_of_bits(sign | 0x7f800000);
    if (magnitude >= 0x400) return float_of_bits(sign | ((magnitude << 13) + 0x38000000));
    return float_of_bits(sign | bits_of_float((float)magnitude * 0x1p-24f));
}

static inline uint16_t f16_of_float(float value)
{
    const uint32_t bits = bits_of_float(value), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) return (uint16_t)(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
    if (magnitude >= 0x477ff000) return (uint16_t)(sign | 0x7c00); /* 65520 */
    if (magnitude >= 0x38800000)
        return (uint16_t)(sign | (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13);
    /* Subnormals of fp16 are multiples of 2^-24, the spacing of fp32 in [0.5, 1). So adding 0.5 rounds to one of them. */
    return (uint16_t)(sign | (bits_of_float(float_of_bits(magnitude) + 0.5f) - 0x3f000000));
}

static inline vec vec_load_f16_part(const uint16_t *x, int64_t n) { EACH(i < n ? float_of_f16(x[i]) : 0); }

static inline void vec_store_f16_part(uint16_t *y, vec a, int64_t n)
{
    for (int i = 0; i < VEC_LANES && i < n; i++) y[i] = f16_of_float(a[i]);
}

static inline void vec_join(vec pair[2])
{
    const vec first = __builtin_shufflevector(pair[0], pair[1], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    pair[1] = __builtin_shufflevector(pair[0], pair[1], 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    pair[0] = first;
}

static inline void vec_split(vec pair[2])
{
    const vec first = __builtin_shufflevector(pair[0], pair[1], 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    pair[1] = __builtin_shufflevector(pair[0], pair[1], 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    pair[0] = first;
}

static inline void vec_load_bytes(const void *x, vec pair[2])
{
    for (int i = 0; i < 2 * VEC_LANES; i++) pair[i % 2][i / 2] = 0x1p24f * ((const int8_t *)x)[i];
}

static inline void vec_load_nibbles(const void *x, vec pair[2])
{
    for (int i = 0; i < 2 * VEC_LANES; i++)
        pair[i % 2][i / 2] = 0x1p28f * ((int8_t)(((const uint8_t *)x)[i / 2] << i % 2 * 4) >> 4);
}

/* The lower of two elements, which may be negative, borrows from the upper: a bias prevents it, and xor takes it back. */
static inline void vec_store_bytes(void *y, vec a)
{
    const vec_halves both = __builtin_convertvector((__builtin_convertvector(a, vec_ints) + 128) ^ 128, vec_halves);
    memcpy(y, &both, sizeof both);
}

static inline void vec_store_nibbles(void *y, vec a)
{
    typedef uint8_t bytes __attribute__((vector_size(VEC_LANES)));
    const bytes both = __builtin_convertvector((__builtin_convertvector(a, vec_ints) + 8) ^ 8, bytes);
    memcpy(y, &both, sizeof both);
}

static inline vec_double vec_double_zero(void) { return (vec_double){0}; }

static inline vec_double vec_add_squares(vec_double sum, vec a)
{
    vec_double wide = __builtin_convertvector(a, vec_double);
    return sum + wide * wide;
}

static inline double vec_double_sum(vec_double a)
{
    for (int half = VEC_LANES / 2; half; half /= 2)
        for (int i = 0; i < half; i++) a[i] += a[i + half];
    return a[0];
}

static inline void vec_transpose(vec row[VEC_LANES])
{
    for (int i = 0; i < VEC_LANES; i++)
        for (int j = 0; j < i; j++) {
            float swap = row[i][j];
            row[i][j] = row[j][i];
            row[j][i] = swap;
        }
}
