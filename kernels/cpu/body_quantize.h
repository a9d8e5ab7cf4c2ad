/* Block quantizers (engine/base/dtype.h has the layout of blocks). A block's scale is its largest magnitude over 127 or 7. An element
 * becomes the nearest integer to x / scale, so its error is at most scale / 2. (DeepSpeed's scale is 2a / 2^bits for the largest
 * magnitude a; there +a itself saturates, with an error of a whole scale.)
 *
 * A scale keeps 17 significant bits. Then integer x scale is exact in fp32, and so is the error x - integer x scale: every instruction
 * set has the same bits, with and without fused multiply-add, and quantizing what was dequantized changes nothing. */

enum { QUANT_STEP = 2 * VEC_LANES };

/* Of a block: the largest |error|, and the sums of error^2 and x^2 in units of scale^2, which neither overflow nor vanish. */
struct quantized { vec largest, errors, squares; };

INLINE float quantize_scale(float highest, int bits)
{
    const float most = bits == 8 ? 127 : 7;
    float scale = highest / most;
    uint32_t as_bits;
    __builtin_memcpy(&as_bits, &scale, sizeof scale);
    if (as_bits >= 1u << 17) as_bits &= ~127u;
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
    float peak[VEC_LANES];
#pragma GCC unroll 4
    for (int64_t i = 0; i < n && dtype == DTYPE_F32; i++) {
        const int32_t magnitude = ((const word *)x)[i] & 0x7fffffff;
        top = magnitude > top ? magnitude : top;
    }
#pragma GCC unroll 4
    for (int64_t i = 0; i < n && dtype != DTYPE_F32; i++) {
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

/* The integers of elements [i, i + 16). `exact` corrects those that the rounding of x / scale put beyond scale / 2. */
INLINE vec_integers quantize_vector(struct quantized *sums, vec x, float scale, float inverse, bool exact)
{
    const vec u = vec_mul(x, vec_set(inverse)), minus = vec_set(-scale);
    vec q = vec_round(u);
    if (exact) {
        const vec error = vec_fma(q, minus, x),
                  nearest = vec_min(vec_set(scale / 2), vec_max(vec_set(-scale / 2), error));
        q = vec_add(q, vec_sign(vec_sub(error, nearest)));
    }
    sums->largest = vec_max(sums->largest, vec_abs(vec_fma(q, minus, x)));
    sums->squares = vec_fused(u, u, sums->squares);
    const vec rest = vec_sub(u, q);
    sums->errors = vec_fused(rest, rest, sums->errors);
    return vec_integers_of(q);
}

INLINE void quantize_step(struct quantized *sums, int bits, enum dtype dtype, const void *x, int64_t i, int64_t left,
                          float scale, float inverse, bool exact, void *integers)
{
    const int64_t more = left > VEC_LANES ? left - VEC_LANES : 0;
    const vec_integers first = quantize_vector(sums, load(dtype, x, i, left), scale, inverse, exact),
                       second = quantize_vector(sums, load(dtype, x, i + VEC_LANES, more), scale, inverse, exact);
    if (bits == 8) vec_store_bytes(integers, first, second);
    else vec_store_nibbles(integers, first, second);
}

INLINE struct quantized quantize_elements(int bits, enum dtype dtype, const void *x, int64_t n, float scale, bool exact,
                                          uint8_t *integers)
{
    struct quantized sums = {vec_set(0), vec_set(0), vec_set(0)};
    const float inverse = scale > 0 ? 1 / scale : 0;
    int64_t i = 0;
    for (; i + QUANT_STEP <= n; i += QUANT_STEP) {
        fetch_ahead(dtype, x, i);
        if (dtype == DTYPE_F32) fetch_ahead(dtype, x, i + VEC_LANES);
        quantize_step(&sums, bits, dtype, x, i, QUANT_STEP, scale, inverse, exact, integers + i * bits / 8);
    }
    if (i < n) {
        uint8_t some[QUANT_STEP];
        quantize_step(&sums, bits, dtype, x, i, n - i, scale, inverse, exact, some);
        __builtin_memcpy(integers + i * bits / 8, some, (size_t)((n - i) * bits + 7) / 8);
    }
    return sums;
}

/* Quantizes a block in `some`, where elements that are not finite become 0, and where elements are multiplied by 2^64 if the scale's
 * inverse would overflow. *unit takes this factor back. Corrects errors above scale / 2. */
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
    return bits == 8 ? quantize_elements(8, DTYPE_F32, some, n, *scale, true, integers)
                     : quantize_elements(4, DTYPE_F32, some, n, *scale, true, integers);
}

INLINE float quantize_block_scale(int bits, enum dtype dtype, const void *x, int64_t block, int64_t elems)
{
    const int64_t i = block * QUANT_BLOCK, n = elems - i;
    x = at(dtype, x, i);
    return quantize_scale(n >= QUANT_BLOCK ? quantize_peak(dtype, x, QUANT_BLOCK) : quantize_peak(dtype, x, n), bits);
}

/* Quantizes a block with a scale. Few blocks need care: not finite, tiny, or with an error above scale / 2. Returns their *unit. */
INLINE float quantize_block(int bits, enum dtype dtype, const void *x, int64_t n, float scale, float *some,
                            float *scale_to, uint8_t *integers, struct quantize_error *error)
{
    float unit = 1;
    bool usual = scale == 0 || (scale >= 0x1p-126f && scale - scale == 0);
    struct quantized sums;
    if (usual) {
        sums = quantize_elements(bits, dtype, x, n, scale, false, integers);
        usual = vec_highest(sums.largest) <= scale / 2;
    }
    if (!usual) sums = quantize_with_care(bits, dtype, x, n, some, &scale, &unit, integers, &error->not_finite);
    *scale_to = scale * unit;
    const double largest = (double)vec_highest(sums.largest) * unit, square = (double)*scale_to * *scale_to;
    if (largest > error->largest) error->largest = largest;
    error->squares += square * vec_sum(sums.errors);
    error->of_squares += square * vec_sum(sums.squares);
    return unit;
}

/* Integers of elements [i, i + 16) of a block, cut at n. i is even. */
INLINE vec quantized_load(int bits, const uint8_t *integers, int64_t i, int64_t n)
{
    const uint8_t *from = integers + i * bits / 8;
    uint8_t some[VEC_LANES] = {0};
    if (n < VEC_LANES) from = __builtin_memcpy(some, from, (size_t)(n * bits + 7) / 8);
    return bits == 8 ? vec_load_bytes(from) : vec_load_nibbles(from);
}

/* Error feedback (LoCo, Xie et al. 2024): quantizes y = x + e. Then e becomes beta x e + (1 - beta) x (error of y). */
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
    unit = quantize_block(bits, DTYPE_F32, some, n, quantize_block_scale(bits, DTYPE_F32, some, 0, n), some, scale,
                          integers, a->error);
    const vec keep = vec_set(a->feedback->beta), share = vec_set(1 - a->feedback->beta);
    for (int64_t i = 0; i < n; i += VEC_LANES) {
        const vec y = vec_mul(vec_load(some + i), vec_set(unit)),
                  error = vec_sub(y, vec_mul(quantized_load(bits, integers, i, n - i), vec_set(*scale))),
                  old = anew ? vec_set(0) : load(DTYPE_BF16, e, i, n - i);
        store(DTYPE_BF16, e, i, vec_add(vec_mul(old, keep), vec_mul(error, share)), n - i);
    }
}

/* Reads one block ahead for its scale, so that no block waits for its divisions. */
INLINE void quantize_blocks(const struct quantize_args *a, int bits, enum dtype dtype, int64_t first, int64_t end)
{
    float next = a->feedback ? 0 : quantize_block_scale(bits, dtype, a->x, first, a->n);
    for (int64_t block = first; block < end; block++) {
        const float now = next;
        const int64_t i = block * QUANT_BLOCK, n = a->n - i < QUANT_BLOCK ? a->n - i : QUANT_BLOCK;
        float some[QUANT_BLOCK], scale;
        uint8_t *at_block = (uint8_t *)a->blocks + block * dtype_bytes(a->to), *integers = at_block + QUANT_SCALE_BYTES;
        if (a->feedback) {
            quantize_with_feedback(a, bits, dtype, i, n, &scale, integers);
        } else {
            if (block + 1 < end) next = quantize_block_scale(bits, dtype, a->x, block + 1, a->n);
            quantize_block(bits, dtype, at(dtype, a->x, i), n, now, some, &scale, integers, a->error);
        }
        __builtin_memcpy(at_block, &scale, sizeof scale);
    }
}

INLINE void quantize_body(const struct quantize_args *a, enum dtype dtype, int64_t first, int64_t end, int thread)
{
    (void)thread;
    if (a->to == DTYPE_Q8) quantize_blocks(a, 8, dtype, first, end);
    else quantize_blocks(a, 4, dtype, first, end);
}

/* Sixteen elements of one source of a sum, cut at n: sum += integers x scale. The `last` source writes y. */
INLINE void dequantize_vector(const struct dequantize_args *a, enum dtype to, int64_t i, vec integers, float scale,
                              float *sum, int64_t n, bool first, bool last)
{
    vec x = first ? vec_mul(integers, vec_set(scale)) : vec_fma(integers, vec_set(scale), vec_load(sum));
    if (!last) {
        vec_store(sum, x);
        return;
    }
    x = vec_mul(x, vec_set(a->factor));
    if (a->accumulate) x = vec_add(load(to, a->y, i, n), rounded(to, x));
    store(to, a->y, i, x, n);
}

/* n elements of one block. */
INLINE void dequantize_source(const struct dequantize_args *a, int bits, enum dtype to, int64_t block, int64_t n,
                              float *sum, int source)
{
    const uint8_t *at_block = (const uint8_t *)a->sources[source] + block * dtype_bytes(a->from);
    const bool first = source == 0, last = source == a->count - 1;
    float scale;
    __builtin_memcpy(&scale, at_block, sizeof scale);
    for (int64_t k = 0; k < n; k += VEC_LANES) {
        __builtin_prefetch(at_block + k * bits / 8 + 4096);
        dequantize_vector(a, to, block * QUANT_BLOCK + k, quantized_load(bits, at_block + QUANT_SCALE_BYTES, k, n - k),
                          scale, sum + k, n - k, first, last);
    }
}

INLINE void dequantize_blocks(const struct dequantize_args *a, int bits, enum dtype to, int64_t first, int64_t end)
{
    float sum[QUANT_BLOCK];
    for (int64_t block = first; block < end; block++) {
        const int64_t left = a->n - block * QUANT_BLOCK, n = left < QUANT_BLOCK ? left : QUANT_BLOCK;
        for (int s = 0; s < a->count; s++) dequantize_source(a, bits, to, block, n, sum, s);
    }
}

INLINE void dequantize_body(const struct dequantize_args *a, enum dtype to, int64_t first, int64_t end, int thread)
{
    (void)thread;
    if (a->from == DTYPE_Q8) dequantize_blocks(a, 8, to, first, end);
    else dequantize_blocks(a, 4, to, first, end);
}
