/* AdamW, one pass over everything: gradient, master, both moments in; master, moments and the model's parameters out. */

INLINE void adamw_body(const struct adamw_args *a, enum dtype dtype, int64_t first, int64_t end, int thread)
{
    (void)thread;
    const struct adamw_factors *f = &a->factors;
    for (int64_t i = first; i < end; i += VEC_LANES) {
        const int64_t n = end - i;
        fetch_ahead(dtype, a->gradient, i);
        fetch_ahead(DTYPE_F32, a->m, i);
        fetch_ahead(DTYPE_F32, a->v, i);
        fetch_ahead(DTYPE_F32, a->master, i);
        vec g = vec_mul(load(dtype, a->gradient, i, n), vec_set(f->gradient));
        vec m = vec_load_part(a->m + i, n), v = vec_load_part(a->v + i, n);
        m = vec_fma(vec_set(1 - f->beta1), vec_sub(g, m), m);
        v = vec_fma(vec_mul(vec_set(1 - f->beta2), g), g, vec_mul(vec_set(f->beta2), v));
        vec root = vec_fma(vec_sqrt(v), vec_set(f->second_moment), vec_set(f->epsilon));
        vec p = vec_mul(vec_load_part(a->master + i, n), vec_set(f->decay));
        p = vec_sub(p, vec_mul(vec_set(f->step_size), vec_div(m, root)));
        vec_store_part(a->m + i, m, n);
        vec_store_part(a->v + i, v, n);
        vec_store_part(a->master + i, p, n);
        if (a->parameters != a->master) store(dtype, a->parameters, i, p, n);
    }
}
