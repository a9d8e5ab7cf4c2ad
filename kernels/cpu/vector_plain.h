/* Sixteen floats in an array, in plain C: what runs where neither AVX2 nor AVX-512 is, and what the others are tested
 * against. There is no fused multiply-add here: without the instruction it would be a library call per element. */
#include <math.h>
#include <string.h>

typedef struct { float lane[VEC_LANES]; } vec;
typedef struct { double lane[VEC_LANES]; } vec_double;

enum { TILE_ROWS = 4, TILE_VECS = 1 };

#define EACH(expression)                                                                                       \
    vec result;                                                                                                \
    for (int i = 0; i < VEC_LANES; i++) result.lane[i] = (expression);                                         \
    return result

static inline vec vec_set(float x) { EACH(x); }
static inline vec vec_add(vec a, vec b) { EACH(a.lane[i] + b.lane[i]); }
static inline vec vec_sub(vec a, vec b) { EACH(a.lane[i] - b.lane[i]); }
static inline vec vec_mul(vec a, vec b) { EACH(a.lane[i] * b.lane[i]); }
static inline vec vec_div(vec a, vec b) { EACH(a.lane[i] / b.lane[i]); }
static inline vec vec_fma(vec a, vec b, vec c) { EACH(a.lane[i] * b.lane[i] + c.lane[i]); }
static inline vec vec_sqrt(vec a) { EACH(sqrtf(a.lane[i])); }
static inline vec vec_max(vec a, vec b) { EACH(a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]); }
static inline vec vec_min(vec a, vec b) { EACH(a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i]); }
static inline vec vec_first(vec a, int64_t n, float rest) { EACH(i < n ? a.lane[i] : rest); }

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

static inline vec vec_scale2(vec a, vec n) { EACH(a.lane[i] * power_of_two(n.lane[i])); }

static inline float vec_sum(vec a)
{
    for (int half = VEC_LANES / 2; half; half /= 2)
        for (int i = 0; i < half; i++) a.lane[i] += a.lane[i + half];
    return a.lane[0];
}

static inline float vec_highest(vec a)
{
    float highest = a.lane[0];
    for (int i = 1; i < VEC_LANES; i++) highest = a.lane[i] > highest ? a.lane[i] : highest;
    return highest;
}

static inline vec vec_load(const float *x) { EACH(x[i]); }
static inline vec vec_load_part(const float *x, int64_t n) { EACH(i < n ? x[i] : 0); }

static inline void vec_store_part(float *y, vec a, int64_t n)
{
    for (int i = 0; i < VEC_LANES && i < n; i++) y[i] = a.lane[i];
}

static inline void vec_store(float *y, vec a) { vec_store_part(y, a, VEC_LANES); }

static inline vec vec_load_bf16_part(const uint16_t *x, int64_t n)
{
    EACH(i < n ? float_of_bits((uint32_t)x[i] << 16) : 0);
}

static inline uint16_t bf16_of_float(float value)
{
    uint32_t bits = bits_of_float(value);
    if (value != value) return (uint16_t)((bits | 0x400000) >> 16);
    return (uint16_t)((bits + (bits >> 16 & 1) + 0x7fff) >> 16);
}

static inline void vec_store_bf16_part(uint16_t *y, vec a, int64_t n)
{
    for (int i = 0; i < VEC_LANES && i < n; i++) y[i] = bf16_of_float(a.lane[i]);
}

static inline vec_double vec_double_zero(void) { return (vec_double){{0}}; }

static inline vec_double vec_add_squares(vec_double sum, vec a)
{
    for (int i = 0; i < VEC_LANES; i++) sum.lane[i] += (double)a.lane[i] * a.lane[i];
    return sum;
}

static inline double vec_double_sum(vec_double a)
{
    for (int half = VEC_LANES / 2; half; half /= 2)
        for (int i = 0; i < half; i++) a.lane[i] += a.lane[i + half];
    return a.lane[0];
}

static inline void vec_transpose(vec row[VEC_LANES])
{
    for (int i = 0; i < VEC_LANES; i++)
        for (int j = 0; j < i; j++) {
            float swap = row[i].lane[j];
            row[i].lane[j] = row[j].lane[i];
            row[j].lane[i] = swap;
        }
}
