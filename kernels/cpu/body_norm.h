/* Layer norm. Rows are walked in vectors; a row's sums run in the order of its lanes. */

#define NORM_EPSILON 1e-5f

INLINE void norm_forward_row(const struct norm_forward_args *a, enum dtype dtype, int64_t n)
{
    const int64_t C = a->C;
    const void *x = at(dtype, a->x, n * C);
    void *y = at(dtype, a->y, n * C);
    vec sum = vec_set(0), squares = vec_set(0);
    for (int64_t i = 0; i < C; i += VEC_LANES) sum = vec_add(sum, load(dtype, x, i, C - i));
    const float mean = vec_sum(sum) / (float)C;
    for (int64_t i = 0; i < C; i += VEC_LANES) {
        vec d = vec_first(vec_sub(load(dtype, x, i, C - i), vec_set(mean)), C - i, 0);
        squares = vec_fma(d, d, squares);
    }
    const float rstd = 1 / __builtin_sqrtf(vec_sum(squares) / (float)C + NORM_EPSILON);
    for (int64_t i = 0; i < C; i += VEC_LANES) {
        vec normal = vec_mul(vec_sub(load(dtype, x, i, C - i), vec_set(mean)), vec_set(rstd));
        store(dtype, y, i, vec_fma(normal, load(dtype, a->w, i, C - i), load(dtype, a->b, i, C - i)), C - i);
    }
    a->mean[n] = mean;
    a->rstd[n] = rstd;
}

INLINE void norm_forward_body(const struct norm_forward_args *a, enum dtype dtype, int64_t first, int64_t end, int thread)
{
    for (int64_t n = first; n < end; n++) norm_forward_row(a, dtype, n);
}

/* With g = dy w and h the normalised x: dx = rstd (g - mean of g - h mean of (g h)). */
INLINE void norm_backward_row(const struct norm_backward_args *a, enum dtype dtype, int64_t n)
{
    const int64_t C = a->C;
    const void *x = at(dtype, a->x, n * C), *dy = at(dtype, a->dy, n * C);
    void *dx = at(dtype, a->dx, n * C);
    const vec mean = vec_set(a->mean[n]), rstd = vec_set(a->rstd[n]);
    vec sum = vec_set(0), product = vec_set(0);
    for (int64_t i = 0; i < C; i += VEC_LANES) {
        vec g = vec_mul(load(dtype, dy, i, C - i), load(dtype, a->w, i, C - i)); /* 0 beyond C */
        vec h = vec_mul(vec_sub(load(dtype, x, i, C - i), mean), rstd);
        sum = vec_add(sum, g);
        product = vec_fma(g, h, product);
    }
    const vec mean_g = vec_set(vec_sum(sum) / (float)C), mean_gh = vec_set(vec_sum(product) / (float)C);
    for (int64_t i = 0; i < C; i += VEC_LANES) {
        vec g = vec_mul(load(dtype, dy, i, C - i), load(dtype, a->w, i, C - i));
        vec h = vec_mul(vec_sub(load(dtype, x, i, C - i), mean), rstd);
        vec d = vec_mul(vec_sub(vec_sub(g, mean_g), vec_mul(h, mean_gh)), rstd);
        if (a->add) d = vec_add(load(dtype, dx, i, C - i), d);
        store(dtype, dx, i, d, C - i);
    }
}

INLINE void norm_backward_body(const struct norm_backward_args *a, enum dtype dtype, int64_t first, int64_t end, int thread)
{
    for (int64_t n = first; n < end; n++) norm_backward_row(a, dtype, n);
}

INLINE void norm_backward_columns(const struct norm_backward_weights_args *a, enum dtype dtype, int64_t c, int64_t lanes)
{
    vec dw = vec_set(0), db = vec_set(0);
    for (int64_t n = 0; n < a->N; n++) {
        vec dy = load(dtype, a->dy, n * a->C + c, lanes);
        vec h = vec_mul(vec_sub(load(dtype, a->x, n * a->C + c, lanes), vec_set(a->mean[n])), vec_set(a->rstd[n]));
        dw = vec_fma(dy, h, dw);
        db = vec_add(db, dy);
    }
    if (a->accumulate) {
        dw = vec_add(load(dtype, a->dw, c, lanes), dw);
        db = vec_add(load(dtype, a->db, c, lanes), db);
    }
    store(dtype, a->dw, c, dw, lanes);
    store(dtype, a->db, c, db, lanes);
}

INLINE void norm_backward_weights_body(const struct norm_backward_weights_args *a, enum dtype dtype, int64_t first,
                                       int64_t end, int thread)
{
    for (int64_t c = first; c < end; c += VEC_LANES) norm_backward_columns(a, dtype, c, end - c);
}
