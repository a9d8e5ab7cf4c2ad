/* Sixteen floats in one AVX-512 register. See vector.h for what each function must do. */
#include <immintrin.h>

typedef __m512 vec;
typedef struct { __m512d low, high; } vec_double;

enum { TILE_ROWS = 4, TILE_VECS = 4 }; /* of the attention micro-kernel: 16 accumulators of 32 registers */

static inline __mmask16 lane_mask(int64_t n)
{
    return n >= VEC_LANES ? (__mmask16)0xffff : (__mmask16)((1u << n) - 1);
}

static inline vec vec_set(float x) { return _mm512_set1_ps(x); }
static inline vec vec_add(vec a, vec b) { return _mm512_add_ps(a, b); }
static inline vec vec_sub(vec a, vec b) { return _mm512_sub_ps(a, b); }
static inline vec vec_mul(vec a, vec b) { return _mm512_mul_ps(a, b); }
static inline vec vec_div(vec a, vec b) { return _mm512_div_ps(a, b); }
static inline vec vec_fma(vec a, vec b, vec c) { return _mm512_fmadd_ps(a, b, c); }
static inline vec vec_fused(vec a, vec b, vec c) { return _mm512_fmadd_ps(a, b, c); }
static inline vec vec_larger(vec a, vec b) { return _mm512_max_ps(a, _mm512_abs_ps(b)); }
static inline vec vec_round(vec a) { return _mm512_roundscale_ps(a, 8); }
static inline vec vec_sqrt(vec a) { return _mm512_sqrt_ps(a); }
static inline vec vec_max(vec a, vec b) { return _mm512_max_ps(a, b); }
static inline vec vec_min(vec a, vec b) { return _mm512_min_ps(a, b); }
static inline vec vec_scale2(vec a, vec n) { return _mm512_scalef_ps(a, n); }
static inline float vec_sum(vec a) { return _mm512_reduce_add_ps(a); }
static inline float vec_highest(vec a) { return _mm512_reduce_max_ps(a); }
static inline float vec_largest(vec a) { return vec_highest(a); }

static inline vec vec_first(vec a, int64_t n, float rest)
{
    return _mm512_mask_mov_ps(_mm512_set1_ps(rest), lane_mask(n), a);
}

static inline vec vec_sign(vec a)
{
    const vec positive = _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(a, _mm512_setzero_ps(), _CMP_GT_OQ), vec_set(1));
    return _mm512_mask_mov_ps(positive, _mm512_cmp_ps_mask(a, _mm512_setzero_ps(), _CMP_LT_OQ), vec_set(-1));
}

static inline vec vec_load(const float *x) { return _mm512_loadu_ps(x); }
static inline void vec_store(float *y, vec a) { _mm512_storeu_ps(y, a); }
static inline vec vec_load_part(const float *x, int64_t n) { return _mm512_maskz_loadu_ps(lane_mask(n), x); }
static inline void vec_store_part(float *y, vec a, int64_t n) { _mm512_mask_storeu_ps(y, lane_mask(n), a); }

static inline vec vec_load_bf16_part(const uint16_t *x, int64_t n)
{
    __m512i wide = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(lane_mask(n), x));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}

static inline void vec_store_bf16_part(uint16_t *y, vec a, int64_t n)
{
    __m512i bits = _mm512_castps_si512(a);
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    __mmask16 nan = _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q);
    rounded = _mm512_mask_or_epi32(rounded, nan, bits, _mm512_set1_epi32(0x400000));
    _mm256_mask_storeu_epi16(y, lane_mask(n), _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16)));
}

static inline vec vec_load_f16_part(const uint16_t *x, int64_t n)
{
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(lane_mask(n), x));
}

static inline void vec_store_f16_part(uint16_t *y, vec a, int64_t n)
{
    _mm256_mask_storeu_epi16(y, lane_mask(n), _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

/* Of the 32 elements of a pair, pair[0] gets those with the indices `these`, pair[1] those with the indices these + next. */
INLINE void pick(vec pair[2], __m512i these, int next)
{
    const vec first = _mm512_permutex2var_ps(pair[0], these, pair[1]);
    pair[1] = _mm512_permutex2var_ps(pair[0], _mm512_add_epi32(these, _mm512_set1_epi32(next)), pair[1]);
    pair[0] = first;
}

static inline void vec_split(vec pair[2])
{
    pick(pair, _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30), 1);
}

static inline void vec_join(vec pair[2])
{
    pick(pair, _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23), 8);
}

static inline void vec_load_bytes(const void *x, vec pair[2])
{
    const __m512i both = _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(x)), 16);
    pair[0] = _mm512_cvtepi32_ps(_mm512_slli_epi32(both, 8));
    pair[1] = _mm512_cvtepi32_ps(_mm512_and_si512(both, _mm512_set1_epi32((int)0xff000000)));
}

static inline void vec_load_nibbles(const void *x, vec pair[2])
{
    const __m512i both = _mm512_slli_epi32(_mm512_cvtepu8_epi32(_mm_loadu_si128(x)), 24);
    pair[0] = _mm512_cvtepi32_ps(_mm512_and_si512(both, _mm512_set1_epi32((int)0xf0000000)));
    pair[1] = _mm512_cvtepi32_ps(_mm512_slli_epi32(both, 4));
}

/* The lower of two elements, which may be negative, borrows from the upper: a bias prevents it, and xor takes it back. */
INLINE __m512i unborrowed(vec a, int bias)
{
    const __m512i all = _mm512_set1_epi32(bias);
    return _mm512_xor_si512(_mm512_add_epi32(_mm512_cvtps_epi32(a), all), all);
}

static inline void vec_store_bytes(void *y, vec a) { _mm256_storeu_si256(y, _mm512_cvtepi32_epi16(unborrowed(a, 128))); }
static inline void vec_store_nibbles(void *y, vec a) { _mm_storeu_si128(y, _mm512_cvtepi32_epi8(unborrowed(a, 8))); }

static inline vec_double vec_double_zero(void)
{
    return (vec_double){_mm512_setzero_pd(), _mm512_setzero_pd()};
}

static inline vec_double vec_add_squares(vec_double sum, vec a)
{
    __m512d low = _mm512_cvtps_pd(_mm512_castps512_ps256(a)), high = _mm512_cvtps_pd(_mm512_extractf32x8_ps(a, 1));
    return (vec_double){_mm512_fmadd_pd(low, low, sum.low), _mm512_fmadd_pd(high, high, sum.high)};
}

static inline double vec_double_sum(vec_double a)
{
    return _mm512_reduce_add_pd(_mm512_add_pd(a.low, a.high));
}

static inline void vec_transpose(vec row[VEC_LANES])
{
    vec pair[VEC_LANES];
    for (int i = 0; i < 16; i += 2) {
        pair[i] = _mm512_unpacklo_ps(row[i], row[i + 1]);
        pair[i + 1] = _mm512_unpackhi_ps(row[i], row[i + 1]);
    }
    for (int i = 0; i < 16; i += 4) { /* row[i + c]: columns c, c + 4, c + 8, c + 12 of rows i .. i + 3 */
        row[i] = _mm512_shuffle_ps(pair[i], pair[i + 2], 0x44);
        row[i + 1] = _mm512_shuffle_ps(pair[i], pair[i + 2], 0xee);
        row[i + 2] = _mm512_shuffle_ps(pair[i + 1], pair[i + 3], 0x44);
        row[i + 3] = _mm512_shuffle_ps(pair[i + 1], pair[i + 3], 0xee);
    }
    for (int c = 0; c < 4; c++) {
        pair[c] = _mm512_shuffle_f32x4(row[c], row[c + 4], 0x88);
        pair[c + 4] = _mm512_shuffle_f32x4(row[c], row[c + 4], 0xdd);
        pair[c + 8] = _mm512_shuffle_f32x4(row[c + 8], row[c + 12], 0x88);
        pair[c + 12] = _mm512_shuffle_f32x4(row[c + 8], row[c + 12], 0xdd);
    }
    for (int c = 0; c < 4; c++) {
        row[c] = _mm512_shuffle_f32x4(pair[c], pair[c + 8], 0x88);
        row[c + 8] = _mm512_shuffle_f32x4(pair[c], pair[c + 8], 0xdd);
        row[c + 4] = _mm512_shuffle_f32x4(pair[c + 4], pair[c + 12], 0x88);
        row[c + 12] = _mm512_shuffle_f32x4(pair[c + 4], pair[c + 12], 0xdd);
    }
}
