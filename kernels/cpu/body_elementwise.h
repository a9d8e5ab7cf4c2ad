/* Elementwise kernels, and plain sums. */

INLINE void cast_range(const struct cast_args *a, enum dtype to, enum dtype from, int64_t first, int64_t end)
{
    if (a->accumulate)
        for (int64_t i = first; i < end; i += VEC_LANES)
            store(to, a->y, i, vec_add(load(to, a->y, i, end - i), load(from, a->x, i, end - i)), end - i);
    else
        for (int64_t i = first; i < end; i += VEC_LANES) store(to, a->y, i, load(from, a->x, i, end - i), end - i);
}

INLINE void cast_body(const struct cast_args *a, enum dtype to, int64_t first, int64_t end, int thread)
{
    if (a->from == DTYPE_BF16) cast_range(a, to, DTYPE_BF16, first, end);
    else if (a->from == DTYPE_F16) cast_range(a, to, DTYPE_F16, first, end);
    else cast_range(a, to, DTYPE_F32, first, end);
}

INLINE void sum_squares_body(const struct sum_squares_args *a, enum dtype dtype, int64_t first, int64_t end, int thread)
{
    for (int64_t block = first; block < end; block++) {
        int64_t i = block * SUM_BLOCK_ELEMS, stop = i + SUM_BLOCK_ELEMS < a->n ? i + SUM_BLOCK_ELEMS : a->n;
        vec_double sum = vec_double_zero(), other = vec_double_zero();
        for (; i < stop; i += 2 * VEC_LANES) {
            fetch_ahead(dtype, a->x, i);
            if (dtype == DTYPE_F32) fetch_ahead(dtype, a->x, i + VEC_LANES);
            sum = vec_add_squares(sum, load(dtype, a->x, i, stop - i));
            if (i + VEC_LANES < stop)
                other = vec_add_squares(other, load(dtype, a->x, i + VEC_LANES, stop - i - VEC_LANES));
        }
        a->sums[block] = vec_double_sum(sum) + vec_double_sum(other);
    }
}

INLINE vec rounded(enum dtype dtype, vec x)
{
    char stored[4 * VEC_LANES];
    store(dtype, stored, 0, x, VEC_LANES);
    return load(dtype, stored, 0, VEC_LANES);
}

/* A source multiplied by `before` and rounded to its type, as if its rank had stored it so. */
INLINE vec contribution(const struct reduce_args *a, enum dtype dtype, int s, int64_t i, int64_t left)
{
    fetch_ahead(dtype, a->sources[s], i);
    const vec x = load(dtype, a->sources[s], i, left);
    return a->factors.before == 1 ? x : rounded(dtype, vec_mul(x, vec_set(a->factors.before)));
}

/* The last step of a reduction: rounds the result to the sources' type, then to the destination's. */
INLINE void reduce_store(const struct reduce_args *a, enum dtype from, enum dtype to, int64_t i, vec sum, int64_t n)
{
    if (from != DTYPE_F32 && (a->accumulate || from != to)) sum = rounded(from, sum);
    if (a->accumulate) sum = vec_add(load(to, a->destination, i, n), sum);
    store(to, a->destination, i, sum, n);
}

INLINE void reduce_body(const struct reduce_args *a, enum dtype dtype, int64_t first, int64_t end, int thread)
{
    const vec after = vec_set(a->factors.after);
    for (int64_t i = first; i < end; i += VEC_LANES) {
        vec sum = contribution(a, dtype, 0, i, end - i);
        for (int s = 1; s < a->count; s++) sum = vec_add(sum, contribution(a, dtype, s, i, end - i));
        sum = vec_mul(sum, after);
        if (a->to == dtype) reduce_store(a, dtype, dtype, i, sum, end - i);
        else if (a->to == DTYPE_BF16) reduce_store(a, dtype, DTYPE_BF16, i, sum, end - i);
        else if (a->to == DTYPE_F16) reduce_store(a, dtype, DTYPE_F16, i, sum, end - i);
        else reduce_store(a, dtype, DTYPE_F32, i, sum, end - i);
    }
}

/* 64 columns at a time, down all rows. */
INLINE void column_sums_body(const struct column_sums_args *a, enum dtype dtype, int64_t first, int64_t end, int thread)
{
    for (int64_t c = first; c < end; c += 4 * VEC_LANES) {
        vec sum[4];
        for (int j = 0; j < 4; j++) sum[j] = vec_set(0);
        for (int64_t n = 0; n < a->N; n++)
            for (int j = 0; j < 4; j++) {
                int64_t i = c + j * VEC_LANES;
                if (i < end) sum[j] = vec_add(sum[j], load(dtype, a->x, n * a->columns + i, end - i));
            }
        for (int j = 0; j < 4; j++) {
            int64_t i = c + j * VEC_LANES;
            if (i >= end) break;
            if (a->accumulate) sum[j] = vec_add(load(dtype, a->sums, i, end - i), sum[j]);
            store(dtype, a->sums, i, sum[j], end - i);
        }
    }
}

/* 0.5 (1 + tanh u) is 1 / (1 + e^-2u), so GELU in tanh form is x times that, with u = sqrt(2/pi) (x + 0.044715 x^3). */
INLINE vec gelu_gate(vec x, vec square)
{
    vec minus_2u = vec_mul(x, vec_fma(square, vec_set(-2 * 0.7978845608f * 0.044715f), vec_set(-2 * 0.7978845608f)));
    return vec_div(vec_set(1), vec_add(vec_set(1), vec_exp(minus_2u)));
}

INLINE void gelu_forward_body(const struct gelu_forward_args *a, enum dtype dtype, int64_t first, int64_t end, int thread)
{
    for (int64_t i = first; i < end; i += VEC_LANES) {
        vec x = load(dtype, a->x, i, end - i);
        store(dtype, a->y, i, vec_mul(x, gelu_gate(x, vec_mul(x, x))), end - i);
    }
}

INLINE void gelu_backward_body(const struct gelu_backward_args *a, enum dtype dtype, int64_t first, int64_t end, int thread)
{
    for (int64_t i = first; i < end; i += VEC_LANES) {
        vec x = load(dtype, a->x, i, end - i), square = vec_mul(x, x), gate = gelu_gate(x, square);
        vec slope = vec_fma(square, vec_set(6 * 0.7978845608f * 0.044715f), vec_set(2 * 0.7978845608f)); /* 2 du/dx */
        vec inner = vec_mul(vec_mul(x, gate), vec_mul(vec_sub(vec_set(1), gate), slope));
        store(dtype, a->dx, i, vec_mul(load(dtype, a->dy, i, end - i), vec_add(gate, inner)), end - i);
    }
}
