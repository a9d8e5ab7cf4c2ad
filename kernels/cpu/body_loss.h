/* Softmax and cross-entropy of a row of logits, which become their own gradient: no second N x V tensor. Exponentials are
 * computed twice (once for the sum, once for the gradient) because a row in bf16 could not hold them in between. */

INLINE void loss_row(const struct loss_args *a, enum dtype dtype, int64_t n)
{
    const int64_t V = a->V, target = a->targets[n];
    void *row = at(dtype, a->logits, n * a->row);
    vec highest = vec_set(-__builtin_inff());
    for (int64_t i = 0; i < V; i += VEC_LANES)
        highest = vec_max(highest, vec_first(load(dtype, row, i, V - i), V - i, -__builtin_inff()));
    const float top = vec_highest(highest);
    vec sum = vec_set(0);
    for (int64_t i = 0; i < V; i += VEC_LANES)
        sum = vec_add(sum, vec_first(vec_exp(vec_sub(load(dtype, row, i, V - i), vec_set(top))), V - i, 0));
    const float total = vec_sum(sum);
    float chosen[VEC_LANES];
    vec_store(chosen, load(dtype, row, target, 1));
    a->losses[n] = __builtin_logf(total) + top - chosen[0];

    const vec scale = vec_set(a->gradient_scale / total);
    for (int64_t i = 0; i < V; i += VEC_LANES)
        store(dtype, row, i, vec_mul(vec_exp(vec_sub(load(dtype, row, i, V - i), vec_set(top))), scale), V - i);
    vec right = vec_mul(vec_exp(vec_sub(vec_set(chosen[0]), vec_set(top))), scale);
    store(dtype, row, target, vec_sub(right, vec_set(a->gradient_scale)), 1);
}

INLINE void loss_body(const struct loss_args *a, enum dtype dtype, int64_t first, int64_t end, int thread)
{
    for (int64_t n = first; n < end; n++) loss_row(a, dtype, n);
}
