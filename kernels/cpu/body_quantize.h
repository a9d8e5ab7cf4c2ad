/* Block quantizers (engine/base/dtype.h has the layout of blocks). A block's scale is its largest magnitude over 127 or 7. An element
 * becomes the nearest integer to x / scale, so its error is at most scale / 2. (DeepSpeed's scale is 2a / 2^bits for the largest
 * magnitude a; there +a itself saturates, with an error of a whole scale.)
 *
 * A scale keeps 14 significant bits. Then integer * scale is exact in fp32, and so is the error x - integer * scale: every instruction
 * set has the same bits, with and without fused multiply-add, and quantizing what was dequantized changes nothing. The error of a 16-bit
 * element is never above scale / 2. Proof: an integer is wrong only if rounding carries x / scale over the middle m + 1/2 of two integers.
 * The product (2 * m + 1) * scale has 22 bits at most, 8 + 14, and x has fewer. So 2 * x and the product are equal or differ by at least
 * 2^-22 of their size. Rounding changes x / scale by at most 2^-23 of its size. */

enum { QUANT_STEP = 2 * VEC_LANES };

/* Figures of a block: the largest |error|, and the sums of error^2 and x^2 in units of scale^2, so that none overflows or vanishes. */
struct quantized { vec largest, errors, squares; };

INLINE float quantize_scale(float highest, int bits)
{
    const float most = bits == 8 ? 127 : 7;
    float scale = highest / most;
    uint32_t as_bits;
    __builtin_memcpy(&as_bits, &scale, sizeof scale);
    const int kept = 14, present = as_bits < 1u << 23 ? 32 - __builtin_clz(as_bits | 1) : 24;
    if (present > kept) as_bits &= ~0u << (present - kept);
    else if (scale * most < highest) as_bits++; /* a tiny denormal that was rounded down: integers would exceed `most` */
    __builtin_memcpy(&scale, &as_bits, sizeof scale);
    return scale;
}

/* The largest magnitude of n elements. Magnitudes are compared as integers, where NaN is above infinity. */
INLINE float quantize_peak(enum dtype dtype, const void *x, int64_t n)
{
    typedef int16_t __attribute__((may_alias)) half;
    typedef int32_t __attribute__((may_alias)) word;
    int32_t top = 0;
    int16_t top_half = 0;
    const int64_t quarter = n / 4;
    float peak[VEC_LANES];
#pragma GCC unroll 4
    for (int64_t i = 0; i < n && dtype == DTYPE_F32; i++) {
        const int32_t magnitude = ((const word *)x)[i] & 0x7fffffff;
        top = magnitude > top ? magnitude : top;
    }
    for (int64_t i = 0; i < quarter && dtype != DTYPE_F32; i++) { /* compares in pairs: a chain of them all would take long */
        const half *at_i = (const half *)x + i;
        const int16_t a = at_i[0] & 0x7fff, b = at_i[quarter] & 0x7fff, c = at_i[2 * quarter] & 0x7fff,
                      d = at_i[3 * quarter] & 0x7fff, ab = a > b ? a : b, cd = c > d ? c : d, abcd = ab > cd ? ab : cd;
        top_half = abcd > top_half ? abcd : top_half;
    }
    for (int64_t i = 4 * quarter; i < n && dtype != DTYPE_F32; i++) {
        const int16_t magnitude = ((const half *)x)[i] & 0x7fff;
        top_half = magnitude > top_half ? magnitude : top_half;
    }
    if (dtype == DTYPE_F16) {
        uint16_t all[VEC_LANES];
        for (int i = 0; i < VEC_LANES; i++) all[i] = (uint16_t)top_half;
        vec_store(peak, load(dtype, all, 0, VEC_LANES));
        return peak[0];
    }
    if (dtype == DTYPE_BF16) top = top_half << 16;
    __builtin_memcpy(peak, &top, sizeof top);
    return peak[0];
}

/* What to measure in a block. SUMS: the sums. LARGEST: the largest error, too. EXACT: both, and errors above scale / 2 are corrected. */
enum care { CARE_SUMS, CARE_LARGEST, CARE_EXACT };

/* The integers of sixteen elements, as floats. Because x / scale is rounded, some may not be the nearest: their
 * error is above scale / 2. */
INLINE vec quantize_vector(struct quantized *sums, vec x, float scale, float inverse, enum care care)
{
    const vec u = vec_mul(x, vec_set(inverse)), minus = vec_set(-scale);
    vec q = vec_round(u);
    if (care == CARE_EXACT) {
        const vec error = vec_fma(q, minus, x),
                  nearest = vec_min(vec_set(scale / 2), vec_max(vec_set(-scale / 2), error));
        q = vec_add(q, vec_sign(vec_sub(error, nearest)));
    }
    sums->squares = vec_fused(u, u, sums->squares);
    const vec rest = vec_sub(u, q);
    sums->errors = vec_fused(rest, rest, sums->errors);
    if (care != CARE_SUMS) sums->largest = vec_larger(sums->largest, vec_fma(q, minus, x));
    return q;
}

INLINE void quantize_step(struct quantized *sums, int bits, enum dtype dtype, const void *x, int64_t i, int64_t left,
                          float scale, float inverse, enum care care, void *integers)
{
    vec pair[2];
    load_pair(dtype, x, i, left, pair);
    const vec even = quantize_vector(sums, pair[0], scale, inverse, care), odd = quantize_vector(sums, pair[1], scale, inverse, care);
    if (bits == 8) vec_store_bytes(integers, vec_fma(odd, vec_set(256), even));
    else vec_store_nibbles(integers, vec_fma(even, vec_set(16), odd));
}

INLINE struct quantized quantize_elements(int bits, enum dtype dtype, const void *x, int64_t n, float scale,
                                          float inverse, enum care care, uint8_t *integers)
{
    struct quantized sums = {vec_set(0), vec_set(0), vec_set(0)};
    int64_t i = 0;
    for (; i + QUANT_STEP <= n; i += QUANT_STEP) {
        fetch_ahead(dtype, x, i);
        if (dtype == DTYPE_F32) fetch_ahead(dtype, x, i + VEC_LANES);
        quantize_step(&sums, bits, dtype, x, i, QUANT_STEP, scale, inverse, care, integers + i * bits / 8);
    }
    if (i < n) {
        uint8_t some[QUANT_STEP];
        quantize_step(&sums, bits, dtype, x, i, n - i, scale, inverse, care, some);
        __builtin_memcpy(integers + i * bits / 8, some, (size_t)((n - i) * bits + 7) / 8);
    }
    return sums;
}

INLINE float quantize_inverse(float scale)
{
    return scale > 0 ? 1 / scale : 0;
}

/* Quantizes a block by way of a copy in `some`. In the copy, elements that are not finite become 0, and elements are multiplied by 2^64
 * if the scale is below 2^-126, where its inverse may overflow; *unit is the inverse of this factor. Corrects errors above scale / 2. */
static __attribute__((noinline)) struct quantized quantize_with_care(int bits, enum dtype dtype, const void *x,
                                                                     int64_t n, float *some, float *scale, float *unit,
                                                                     uint8_t *integers, int64_t *not_finite)
{
    for (int64_t i = 0; i < n; i += VEC_LANES) vec_store_part(some + i, load(dtype, x, i, n - i), n - i);
    for (int64_t i = 0; i < n; i++)
        if (some[i] - some[i] != 0) some[i] = 0, ++*not_finite;
    *scale = quantize_scale(quantize_peak(DTYPE_F32, some, n), bits);
    *unit = *scale < 0x1p-126f ? 0x1p-64f : 1;
    for (int64_t i = 0; i < n && *unit != 1; i++) some[i] *= 0x1p64f;
    *scale /= *unit;
    return bits == 8 ? quantize_elements(8, DTYPE_F32, some, n, *scale, quantize_inverse(*scale), CARE_EXACT, integers)
                     : quantize_elements(4, DTYPE_F32, some, n, *scale, quantize_inverse(*scale), CARE_EXACT, integers);
}

INLINE float quantize_block_scale(int bits, enum dtype dtype, const void *x, int64_t block, int64_t elems)
{
    const int64_t i = block * QUANT_BLOCK, n = elems - i;
    x = at(dtype, x, i);
    return quantize_scale(n >= QUANT_BLOCK ? quantize_peak(dtype, x, QUANT_BLOCK) : quantize_peak(dtype, x, n), bits);
}

/* Quantizes a block with a scale. Few blocks need care: not finite, tiny, or with an error above scale / 2. Returns the
 * *unit of quantize_with_care(), for other blocks 1.
 * For 16-bit elements the largest error is measured only where it may exceed that of all earlier blocks. */
INLINE float quantize_block(int bits, enum dtype dtype, const void *x, int64_t n, float scale,
                            float inverse, float *some, float *scale_to, uint8_t *integers, struct quantize_error *error)
{
    float unit = 1, largest = 0;
    bool usual = scale == 0 || (scale >= 0x1p-126f && scale - scale == 0);
    struct quantized sums;
    if (usual && dtype != DTYPE_F32 && scale / 2 <= error->largest)
        sums = quantize_elements(bits, dtype, x, n, scale, inverse, CARE_SUMS, integers);
    else {
        if (usual) sums = quantize_elements(bits, dtype, x, n, scale, inverse, CARE_LARGEST, integers);
        if (!usual || vec_largest(sums.largest) > scale / 2)
            sums = quantize_with_care(bits, dtype, x, n, some, &scale, &unit, integers, &error->not_finite);
        largest = vec_largest(sums.largest);
    }
    *scale_to = scale * unit;
    const double square = (double)*scale_to * *scale_to;
    if ((double)largest * unit > error->largest) error->largest = (double)largest * unit;
    error->squares += square * vec_sum(sums.errors);
    error->of_squares += square * vec_sum(sums.squares);
    return unit;
}

/* The inverse of the factor by which vec_load_bytes() and vec_load_nibbles() scale integers. */
INLINE float quantized_unit(int bits)
{
    return bits == 8 ? 0x1p-24f : 0x1p-28f;
}

/* Integers of elements [i, i + 32) of a block, cut at n. */
INLINE void quantized_load(int bits, const uint8_t *integers, int64_t i, int64_t n, vec pair[2])
{
    const uint8_t *from = integers + i * bits / 8;
    uint8_t some[2 * VEC_LANES] = {0};
    if (n - i < 2 * VEC_LANES) from = __builtin_memcpy(some, from, n > i ? (size_t)((n - i) * bits + 7) / 8 : 0);
    if (bits == 8) vec_load_bytes(from, pair);
    else vec_load_nibbles(from, pair);
}

/* Error feedback (LoCo, Xie et al. 2024): quantizes y = x + e. Then e becomes beta * e + (1 - beta) * (error of y). */
INLINE void quantize_with_feedback(const struct quantize_args *a, int bits, enum dtype dtype, int64_t first, int64_t n,
                                   float *scale, uint8_t *integers)
{
    uint16_t *e = a->feedback->errors + first;
    const bool anew = a->feedback->anew;
    float some[QUANT_BLOCK], unit;
    for (int64_t i = 0; i < n; i += VEC_LANES) {
        const vec old = anew ? vec_set(0) : load(DTYPE_BF16, e, i, n - i);
        vec_store(some + i, vec_add(load(dtype, a->x, first + i, n - i), old));
    }
    *scale = quantize_block_scale(bits, DTYPE_F32, some, 0, n);
    unit = quantize_block(bits, DTYPE_F32, some, n, *scale, quantize_inverse(*scale), some, scale, integers, a->error);
    const vec keep = vec_set(a->feedback->beta), share = vec_set(1 - a->feedback->beta);
    for (int64_t i = 0; i < n; i += 2 * VEC_LANES) {
        vec q[2];
        quantized_load(bits, integers, i, n, q);
        vec_join(q);
        for (int64_t v = 0, k = i; v < 2 && k < n; v++, k += VEC_LANES) {
            const vec y = vec_mul(vec_load(some + k), vec_set(unit)), from = vec_mul(q[v], vec_set(quantized_unit(bits))),
                      error = vec_sub(y, vec_mul(from, vec_set(*scale))),
                      old = anew ? vec_set(0) : load(DTYPE_BF16, e, k, n - k);
            store(DTYPE_BF16, e, k, vec_add(vec_mul(old, keep), vec_mul(error, share)), n - k);
        }
    }
}

/* Finds the scales of 4 KiB of elements, then quantizes these. So no block waits for its divisions, and fetch_ahead() asks for
 * the next 4 KiB while these, in the L1 cache, are worked on. */
INLINE void quantize_blocks(const struct quantize_args *a, int bits, enum dtype dtype, int64_t first, int64_t end)
{
    enum { MOST = 4 };
    const int64_t at_once = dtype == DTYPE_F32 ? MOST / 2 : MOST;
    float some[QUANT_BLOCK], scales[MOST], inverses[MOST];
    for (int64_t from = first, to; from < end; from = to) {
        to = from + at_once < end ? from + at_once : end;
        for (int64_t block = from; block < to && !a->feedback; block++) {
            scales[block - from] = quantize_block_scale(bits, dtype, a->x, block, a->n);
            inverses[block - from] = quantize_inverse(scales[block - from]);
        }
        for (int64_t block = from; block < to; block++) {
            const int64_t i = block * QUANT_BLOCK, n = a->n - i < QUANT_BLOCK ? a->n - i : QUANT_BLOCK;
            float *scale = &scales[block - from];
            uint8_t *at_block = (uint8_t *)a->blocks + block * dtype_bytes(a->to), *integers = at_block + QUANT_SCALE_BYTES;
            if (a->feedback) quantize_with_feedback(a, bits, dtype, i, n, scale, integers);
            else
                quantize_block(bits, dtype, at(dtype, a->x, i), n, *scale, inverses[block - from], some, scale, integers,
                               a->error);
            __builtin_memcpy(at_block, scale, sizeof *scale);
        }
    }
}

INLINE void quantize_body(const struct quantize_args *a, enum dtype dtype, int64_t first, int64_t end, int thread)
{
    if (a->to == DTYPE_Q8) quantize_blocks(a, 8, dtype, first, end);
    else quantize_blocks(a, 4, dtype, first, end);
}

enum { DEQUANT_STEP = 4 * VEC_LANES };

/* sum += integers x factor, of elements [i, i + 32) of a block, cut at n. With care, nothing is read beyond n. */
INLINE void dequantize_pair(int bits, const uint8_t *at_block, int64_t i, int64_t n, bool care, vec factor, vec sum[2])
{
    vec q[2];
    quantized_load(bits, at_block + QUANT_SCALE_BYTES, i, care ? n : i + 2 * VEC_LANES, q);
    if (care) q[0] = vec_mul(q[0], vec_set(quantized_unit(bits))), q[1] = vec_mul(q[1], vec_set(quantized_unit(bits)));
    sum[0] = vec_fma(q[0], factor, sum[0]);
    sum[1] = vec_fma(q[1], factor, sum[1]);
}

/* Writes elements [i, i + 64) of a block to y. care false: all 64 exist, all scales are usual, and nothing is added to y's old values. */
INLINE void dequantize_step(const struct dequantize_args *a, int bits, enum dtype to, int64_t block, int64_t i, int64_t n,
                            bool care, const float *factors, float after)
{
    const int64_t offset = block * dtype_bytes(a->from), at = block * QUANT_BLOCK + i;
    vec sum[4] = {vec_set(0), vec_set(0), vec_set(0), vec_set(0)};
    for (int s = 0; s < a->count; s++) { /* 64 elements without an inner loop, so that sums stay in registers */
        const uint8_t *at_block = (const uint8_t *)a->sources[s] + offset;
        if (a->count > 1) fetch_ahead(DTYPE_F32, at_block + i * bits / 8, 0);
        dequantize_pair(bits, at_block, i, n, care, vec_set(factors[s]), sum);
        dequantize_pair(bits, at_block, i + 2 * VEC_LANES, n, care, vec_set(factors[s]), sum + 2);
    }
    if (after != 1) {
        sum[0] = vec_mul(sum[0], vec_set(after)), sum[1] = vec_mul(sum[1], vec_set(after));
        sum[2] = vec_mul(sum[2], vec_set(after)), sum[3] = vec_mul(sum[3], vec_set(after));
    }
    if (!care) {
        store_pair(to, a->y, at, sum);
        store_pair(to, a->y, at + 2 * VEC_LANES, sum + 2);
        return;
    }
    vec_join(sum);
    vec_join(sum + 2);
    for (int64_t v = 0, k = i; v < 4 && k < n; v++, k += VEC_LANES) {
        if (a->accumulate) sum[v] = vec_add(load(to, a->y, at + k - i, n - k), rounded(to, sum[v]));
        store(to, a->y, at + k - i, sum[v], n - k);
    }
}

/* Whether a scale is 0, or from 2^-90 to 2^100. Then its product with quantized_unit() and with the factor of a mean is exact, and sums
 * are finite. (In blocks of 4 bits it is exact for 2^18 ranks at most.) */
INLINE bool dequantize_is_usual(uint32_t bits_of_scale)
{
    enum { LOWEST = (127 - 90) << 23, HIGHEST = (127 + 100) << 23 };
    return (bits_of_scale == 0) | (bits_of_scale - LOWEST <= HIGHEST - LOWEST);
}

/* The part of `factor` by which scales are multiplied; sums are multiplied by the rest. `factor` itself if it is a power of two from
 * 2^-20 to 1, as a mean's often is; else 1. */
INLINE float dequantize_factor_before(float factor)
{
    uint32_t as_bits;
    __builtin_memcpy(&as_bits, &factor, sizeof as_bits);
    return factor >= 0x1p-20f && factor <= 1 && !(as_bits & 0x7fffff) ? factor : 1;
}

INLINE void dequantize_blocks(const struct dequantize_args *a, int bits, enum dtype to, int64_t first, int64_t end)
{
    const float before = dequantize_factor_before(a->factor), after = a->factor / before;
    float factors[a->count];
    for (int64_t block = first; block < end; block++) {
        const int64_t left = a->n - block * QUANT_BLOCK, n = left < QUANT_BLOCK ? left : QUANT_BLOCK;
        bool care = a->accumulate || n % DEQUANT_STEP || a->factor != a->factor;
        for (int s = 0; s < a->count; s++) {
            const char *at_block = (const char *)a->sources[s] + block * dtype_bytes(a->from);
            uint32_t as_bits;
            __builtin_memcpy(&as_bits, at_block, sizeof as_bits);
            __builtin_memcpy(&factors[s], at_block, sizeof factors[s]);
            care |= !dequantize_is_usual(as_bits);
        }
        for (int s = 0; s < a->count; s++) factors[s] *= care ? 1 : quantized_unit(bits) * before;
        for (int64_t i = 0; i < n && care; i += DEQUANT_STEP) dequantize_step(a, bits, to, block, i, n, true, factors, a->factor);
        for (int64_t i = 0; i < n && !care; i += DEQUANT_STEP) dequantize_step(a, bits, to, block, i, n, false, factors, after);
    }
}

/* Works on a copy of the arguments. Stores to y cannot change the copy, so it is not read again after each store. */
INLINE void dequantize_body(const struct dequantize_args *arguments, enum dtype to, int64_t first, int64_t end, int thread)
{
    const struct dequantize_args a = *arguments;
    if (a.from == DTYPE_Q8) dequantize_blocks(&a, 8, to, first, end);
    else dequantize_blocks(&a, 4, to, first, end);
}
