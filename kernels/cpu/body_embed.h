/* The embedding: a token's row and its position's are added, and gradients of rows are summed back into them. */

INLINE void embed_forward_body(const struct embed_forward_args *a, enum dtype dtype, int64_t first, int64_t end, int thread)
{
    const int64_t C = a->C;
    for (int64_t n = first; n < end; n++) {
        const void *token = at(dtype, a->wte, a->tokens[n] * C), *position = at(dtype, a->wpe, n % a->T * C);
        for (int64_t i = 0; i < C; i += VEC_LANES)
            store(dtype, a->x, n * C + i, vec_add(load(dtype, token, i, C - i), load(dtype, position, i, C - i)), C - i);
    }
}

/* order[p] is (token << 32 | row of dx), ascending: one token's rows stand together as a group, in
 * ascending order. A group belongs to the thread in whose range it begins. */
INLINE void embed_backward_tokens_body(const struct embed_backward_tokens_args *a, enum dtype dtype, int64_t first,
                                       int64_t end, int thread)
{
    const int64_t C = a->C;
    const uint64_t *order = a->order;
    for (int64_t p = first; p < end; p++) {
        const uint64_t token = order[p] >> 32;
        if (p > 0 && order[p - 1] >> 32 == token) continue;
        void *row = at(dtype, a->dwte, (int64_t)token * C);
        for (int64_t i = 0; i < C; i += VEC_LANES) {
            vec sum = vec_set(0);
            for (int64_t q = p; q < a->N && order[q] >> 32 == token; q++)
                sum = vec_add(sum, load(dtype, a->dx, (int64_t)(uint32_t)order[q] * C + i, C - i));
            store(dtype, row, i, vec_add(load(dtype, row, i, C - i), sum), C - i);
        }
    }
}

INLINE void embed_backward_positions_body(const struct embed_backward_positions_args *a, enum dtype dtype, int64_t first,
                                          int64_t end, int thread)
{
    const int64_t C = a->C;
    for (int64_t t = first; t < end; t++) {
        if (t >= a->T && a->accumulate) return;
        for (int64_t i = 0; i < C; i += VEC_LANES) {
            vec sum = vec_set(0);
            for (int64_t n = t; t < a->T && n < a->N; n += a->T) sum = vec_add(sum, load(dtype, a->dx, n * C + i, C - i));
            if (a->accumulate) sum = vec_add(load(dtype, a->dwpe, t * C + i, C - i), sum);
            store(dtype, a->dwpe, t * C + i, sum, C - i);
        }
    }
}
