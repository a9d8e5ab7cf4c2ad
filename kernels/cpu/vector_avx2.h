/* Sixteen floats in two AVX registers. See vector.h for what each function must do. */
#include <immintrin.h>
#include <string.h>

typedef struct { __m256 low, high; } vec;
typedef struct { __m256d part[4]; } vec_double;

enum { TILE_ROWS = 4, TILE_VECS = 1 }; /* of the attention micro-kernel: 8 accumulators of 16 registers */

#define BOTH(function, a, b) ((vec){function((a).low, (b).low), function((a).high, (b).high)})

static inline vec vec_set(float x) { return (vec){_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
static inline vec vec_add(vec a, vec b) { return BOTH(_mm256_add_ps, a, b); }
static inline vec vec_sub(vec a, vec b) { return BOTH(_mm256_sub_ps, a, b); }
static inline vec vec_mul(vec a, vec b) { return BOTH(_mm256_mul_ps, a, b); }
static inline vec vec_div(vec a, vec b) { return BOTH(_mm256_div_ps, a, b); }
static inline vec vec_max(vec a, vec b) { return BOTH(_mm256_max_ps, a, b); }
static inline vec vec_min(vec a, vec b) { return BOTH(_mm256_min_ps, a, b); }
static inline vec vec_round(vec a) { return (vec){_mm256_round_ps(a.low, 8), _mm256_round_ps(a.high, 8)}; }
static inline vec vec_sqrt(vec a) { return (vec){_mm256_sqrt_ps(a.low), _mm256_sqrt_ps(a.high)}; }

static inline vec vec_fma(vec a, vec b, vec c)
{
    return (vec){_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}

static inline vec vec_fused(vec a, vec b, vec c) { return vec_fma(a, b, c); }

/* Magnitudes are twice their bits: no mask takes a register, and four pipes compare integers, two compare floats. */
INLINE __m256 larger(__m256 a, __m256 b)
{
    const __m256i bits = _mm256_castps_si256(b);
    return _mm256_castsi256_ps(_mm256_max_epu32(_mm256_castps_si256(a), _mm256_add_epi32(bits, bits)));
}

static inline vec vec_larger(vec a, vec b) { return BOTH(larger, a, b); }

static inline __m256 power_of_two(__m256 n)
{
    __m256i biased = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
    return _mm256_castsi256_ps(_mm256_slli_epi32(biased, 23));
}

static inline vec vec_scale2(vec a, vec n)
{
    return (vec){_mm256_mul_ps(a.low, power_of_two(n.low)), _mm256_mul_ps(a.high, power_of_two(n.high))};
}

static inline float vec_sum(vec a)
{
    __m256 eight = _mm256_add_ps(a.low, a.high);
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

static inline float vec_highest(vec a)
{
    __m256 eight = _mm256_max_ps(a.low, a.high);
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
}

static inline float vec_largest(vec a)
{
    const __m256i bits = _mm256_max_epu32(_mm256_castps_si256(a.low), _mm256_castps_si256(a.high));
    const __m256 eight = _mm256_castsi256_ps(_mm256_srli_epi32(bits, 1));
    return vec_highest((vec){eight, eight});
}

/* All ones in the lanes below n of eight lanes that start at `from`. */
static inline __m256i lane_mask(int64_t n, int from)
{
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n - from), lane);
}

static inline vec vec_first(vec a, int64_t n, float rest)
{
    const __m256 other = _mm256_set1_ps(rest);
    return (vec){_mm256_blendv_ps(other, a.low, _mm256_castsi256_ps(lane_mask(n, 0))),
                 _mm256_blendv_ps(other, a.high, _mm256_castsi256_ps(lane_mask(n, 8)))};
}

static inline __m256 sign_of(__m256 a)
{
    const __m256 zero = _mm256_setzero_ps(), one = _mm256_set1_ps(1);
    return _mm256_sub_ps(_mm256_and_ps(_mm256_cmp_ps(a, zero, _CMP_GT_OQ), one),
                         _mm256_and_ps(_mm256_cmp_ps(a, zero, _CMP_LT_OQ), one));
}

static inline vec vec_sign(vec a) { return (vec){sign_of(a.low), sign_of(a.high)}; }

static inline vec vec_load(const float *x) { return (vec){_mm256_loadu_ps(x), _mm256_loadu_ps(x + 8)}; }

static inline void vec_store(float *y, vec a)
{
    _mm256_storeu_ps(y, a.low);
    _mm256_storeu_ps(y + 8, a.high);
}

static inline vec vec_load_part(const float *x, int64_t n)
{
    if (n >= VEC_LANES) return vec_load(x);
    return (vec){_mm256_maskload_ps(x, lane_mask(n, 0)), _mm256_maskload_ps(x + 8, lane_mask(n, 8))};
}

static inline void vec_store_part(float *y, vec a, int64_t n)
{
    if (n >= VEC_LANES) {
        vec_store(y, a);
        return;
    }
    _mm256_maskstore_ps(y, lane_mask(n, 0), a.low);
    _mm256_maskstore_ps(y + 8, lane_mask(n, 8), a.high);
}

static inline __m256 widen(__m128i eight)
{
    const __m256i place = _mm256_setr_epi8(-1, -1, 0, 1, -1, -1, 2, 3, -1, -1, 4, 5, -1, -1, 6, 7, -1, -1, 8, 9, -1, -1, 10, 11,
                                           -1, -1, 12, 13, -1, -1, 14, 15);
    return _mm256_castsi256_ps(_mm256_shuffle_epi8(_mm256_broadcastsi128_si256(eight), place));
}

/* Sixteen halves in two registers; AVX2 masks no 16-bit lanes, so a part goes through memory. */
typedef struct { __m128i low, high; } halves;

static inline halves load_halves(const uint16_t *x, int64_t n)
{
    uint16_t some[VEC_LANES];
    if (n < VEC_LANES) {
        memset(some, 0, sizeof some);
        memcpy(some, x, (size_t)n * sizeof *x);
        x = some;
    }
    return (halves){_mm_loadu_si128((const __m128i *)x), _mm_loadu_si128((const __m128i *)(x + 8))};
}

static inline void store_halves(uint16_t *y, __m256i all, int64_t n)
{
    if (n >= VEC_LANES) {
        _mm256_storeu_si256((__m256i *)y, all);
        return;
    }
    uint16_t some[VEC_LANES];
    _mm256_storeu_si256((__m256i *)some, all);
    memcpy(y, some, (size_t)n * sizeof *y);
}

static inline vec vec_load_bf16_part(const uint16_t *x, int64_t n)
{
    halves in = load_halves(x, n);
    return (vec){widen(in.low), widen(in.high)};
}

static inline __m256i narrow(__m256 a)
{
    __m256i bits = _mm256_castps_si256(a);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    return _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
}

static inline __m256i quiet(__m256 a, __m256i rounded)
{
    __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(a, a, _CMP_UNORD_Q));
    return _mm256_blendv_epi8(rounded, _mm256_or_si256(_mm256_castps_si256(a), _mm256_set1_epi32(0x400000)), nan);
}

/* Rounding would change a NaN. A NaN is rare, so a branch costs less than the blends. */
static inline void vec_store_bf16_part(uint16_t *y, vec a, int64_t n)
{
    __m256i low = narrow(a.low), high = narrow(a.high);
    if (__builtin_expect(_mm256_movemask_ps(_mm256_cmp_ps(a.low, a.high, _CMP_UNORD_Q)), 0)) {
        low = quiet(a.low, low);
        high = quiet(a.high, high);
    }
    __m256i all = _mm256_packus_epi32(_mm256_srli_epi32(low, 16), _mm256_srli_epi32(high, 16));
    store_halves(y, _mm256_permute4x64_epi64(all, 0xd8), n);
}

static inline vec vec_load_f16_part(const uint16_t *x, int64_t n)
{
    halves in = load_halves(x, n);
    return (vec){_mm256_cvtph_ps(in.low), _mm256_cvtph_ps(in.high)};
}

static inline void vec_store_f16_part(uint16_t *y, vec a, int64_t n)
{
    enum { NEAREST = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC };
    store_halves(y, _mm256_set_m128i(_mm256_cvtps_ph(a.high, NEAREST), _mm256_cvtps_ph(a.low, NEAREST)), n);
}

INLINE vec joined(__m256 even, __m256 odd)
{
    const __m256 a = _mm256_unpacklo_ps(even, odd), b = _mm256_unpackhi_ps(even, odd);
    return (vec){_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31)};
}

INLINE void vec_join(vec pair[2])
{
    const vec first = joined(pair[0].low, pair[1].low);
    pair[1] = joined(pair[0].high, pair[1].high);
    pair[0] = first;
}

INLINE __m256 halves_of(__m256 a, __m256 b, int odd)
{
    const __m256 lanes = odd ? _mm256_shuffle_ps(a, b, 0xdd) : _mm256_shuffle_ps(a, b, 0x88);
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(lanes), 0xd8));
}

INLINE void vec_split(vec pair[2])
{
    const vec even = {halves_of(pair[0].low, pair[0].high, 0), halves_of(pair[1].low, pair[1].high, 0)};
    pair[1] = (vec){halves_of(pair[0].low, pair[0].high, 1), halves_of(pair[1].low, pair[1].high, 1)};
    pair[0] = even;
}

INLINE void vec_load_bf16_pair(const uint16_t *x, vec pair[2])
{
    const __m256i low = _mm256_loadu_si256((const __m256i *)x), high = _mm256_loadu_si256((const __m256i *)x + 1),
                  top = _mm256_set1_epi32((int)0xffff0000);
    pair[0] = (vec){_mm256_castsi256_ps(_mm256_slli_epi32(low, 16)), _mm256_castsi256_ps(_mm256_slli_epi32(high, 16))};
    pair[1] = (vec){_mm256_castsi256_ps(_mm256_and_si256(low, top)), _mm256_castsi256_ps(_mm256_and_si256(high, top))};
}

/* Stores 32 elements, none of which is NaN: pair[0] has the even ones, pair[1] the odd ones. */
INLINE void vec_store_bf16_pair(uint16_t *y, const vec pair[2])
{
    const __m256i low = _mm256_srli_epi32(narrow(pair[0].low), 16), high = _mm256_srli_epi32(narrow(pair[0].high), 16);
    _mm256_storeu_si256((__m256i *)y, _mm256_blend_epi16(low, narrow(pair[1].low), 0xaa));
    _mm256_storeu_si256((__m256i *)y + 1, _mm256_blend_epi16(high, narrow(pair[1].high), 0xaa));
}

/* top_of(): the top `bits` bits of each 32-bit lane, as a signed number. next_of(): the bits below them, likewise. */
INLINE vec top_of(__m256i low, __m256i high, int bits)
{
    const __m256i top = _mm256_set1_epi32((int)(~0u << (32 - bits)));
    return (vec){_mm256_cvtepi32_ps(_mm256_and_si256(low, top)), _mm256_cvtepi32_ps(_mm256_and_si256(high, top))};
}

INLINE vec next_of(__m256i low, __m256i high, int bits)
{
    return (vec){_mm256_cvtepi32_ps(_mm256_slli_epi32(low, bits)), _mm256_cvtepi32_ps(_mm256_slli_epi32(high, bits))};
}

INLINE void vec_load_bytes(const void *x, vec pair[2])
{
    const __m256i low = _mm256_castps_si256(widen(_mm_loadu_si128(x))),
                  high = _mm256_castps_si256(widen(_mm_loadu_si128((const __m128i *)x + 1)));
    pair[0] = next_of(low, high, 8);
    pair[1] = top_of(low, high, 8);
}

static inline __m256i spread(const void *eight_bytes)
{
    const __m256i place = _mm256_setr_epi8(-1, -1, -1, 0, -1, -1, -1, 1, -1, -1, -1, 2, -1, -1, -1, 3, -1, -1, -1, 4, -1, -1, -1,
                                           5, -1, -1, -1, 6, -1, -1, -1, 7);
    int64_t bytes;
    memcpy(&bytes, eight_bytes, sizeof bytes);
    return _mm256_shuffle_epi8(_mm256_set1_epi64x(bytes), place);
}

INLINE void vec_load_nibbles(const void *x, vec pair[2])
{
    const __m256i low = spread(x), high = spread((const char *)x + 8);
    pair[0] = top_of(low, high, 4);
    pair[1] = next_of(low, high, 4);
}

/* Converts to 16-bit integers, in the order of lanes 0-3, 8-11, 4-7, 12-15. */
INLINE __m256i words_of(vec a)
{
    return _mm256_packs_epi32(_mm256_cvtps_epi32(a.low), _mm256_cvtps_epi32(a.high));
}

/* The lower of two elements, which may be negative, borrows from the upper: a bias prevents it, and xor takes it back. */
static inline void vec_store_bytes(void *y, vec a)
{
    const __m256i bias = _mm256_set1_epi16(128), both = _mm256_xor_si256(_mm256_add_epi16(words_of(a), bias), bias);
    _mm256_storeu_si256(y, _mm256_permute4x64_epi64(both, 0xd8));
}

static inline void vec_store_nibbles(void *y, vec a)
{
    const __m128i bias = _mm_set1_epi8(8);
    const __m256i words = words_of(a), bytes = _mm256_packs_epi16(words, words);
    const __m128i both = _mm_unpacklo_epi32(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1));
    _mm_storeu_si128(y, _mm_xor_si128(_mm_add_epi8(both, bias), bias));
}

static inline vec_double vec_double_zero(void)
{
    return (vec_double){{_mm256_setzero_pd(), _mm256_setzero_pd(), _mm256_setzero_pd(), _mm256_setzero_pd()}};
}

static inline vec_double vec_add_squares(vec_double sum, vec a)
{
    const __m128 quarter[4] = {_mm256_castps256_ps128(a.low), _mm256_extractf128_ps(a.low, 1),
                               _mm256_castps256_ps128(a.high), _mm256_extractf128_ps(a.high, 1)};
    for (int q = 0; q < 4; q++) {
        __m256d x = _mm256_cvtps_pd(quarter[q]);
        sum.part[q] = _mm256_fmadd_pd(x, x, sum.part[q]);
    }
    return sum;
}

static inline double vec_double_sum(vec_double a)
{
    double lane[4];
    _mm256_storeu_pd(lane, _mm256_add_pd(_mm256_add_pd(a.part[0], a.part[1]), _mm256_add_pd(a.part[2], a.part[3])));
    return (lane[0] + lane[1]) + (lane[2] + lane[3]);
}

static inline void transpose8(__m256 row[8])
{
    __m256 pair[8];
    for (int i = 0; i < 8; i += 2) {
        pair[i] = _mm256_unpacklo_ps(row[i], row[i + 1]);
        pair[i + 1] = _mm256_unpackhi_ps(row[i], row[i + 1]);
    }
    __m256 four[8];
    for (int i = 0; i < 8; i += 4) {
        four[i] = _mm256_shuffle_ps(pair[i], pair[i + 2], 0x44);
        four[i + 1] = _mm256_shuffle_ps(pair[i], pair[i + 2], 0xee);
        four[i + 2] = _mm256_shuffle_ps(pair[i + 1], pair[i + 3], 0x44);
        four[i + 3] = _mm256_shuffle_ps(pair[i + 1], pair[i + 3], 0xee);
    }
    for (int c = 0; c < 4; c++) {
        row[c] = _mm256_permute2f128_ps(four[c], four[c + 4], 0x20);
        row[c + 4] = _mm256_permute2f128_ps(four[c], four[c + 4], 0x31);
    }
}

static inline void vec_transpose(vec row[VEC_LANES])
{
    __m256 block[2][2][8]; /* [rows][columns] in blocks of 8 x 8 */
    for (int i = 0; i < VEC_LANES; i++) {
        block[i / 8][0][i % 8] = row[i].low;
        block[i / 8][1][i % 8] = row[i].high;
    }
    for (int b = 0; b < 4; b++) transpose8(block[b / 2][b % 2]);
    for (int i = 0; i < VEC_LANES; i++) row[i] = (vec){block[0][i / 8][i % 8], block[1][i / 8][i % 8]};
}
