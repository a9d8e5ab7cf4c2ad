/* Causal attention in tiles of queries by keys: the thread's scratch holds the scores of one tile. Forward keeps a running
 * maximum and sum for each query (Milakov and Gimelshein 2018). Backward recomputes the probabilities from the stored
 * log-sum-exp (Dao et al. 2022). One thread does the whole of a (sequence, head), so every sum has one order.
 *
 * Queries come into the tile already scaled by 1 / sqrt(head size). On the diagonal, strips of 16 queries need only the
 * keys up to their own end: columns beyond are neither computed nor read. */
#include "kernels/scratch.h"
#include "kernels/cpu/body_tile.h"

struct attention_view { /* one (sequence, head) of a shape */
    int64_t T, head_size, padded, stride; /* stride: from a token to the next in qkv */
    int64_t at_qkv, at_out, at_lse;       /* first element */
    float scale;
};

INLINE struct attention_view attention_view_of(const struct attention_shape *shape, int64_t pair)
{
    const int64_t b = pair / shape->NH, h = pair % shape->NH, head_size = shape->C / shape->NH;
    return (struct attention_view){
        .T = shape->T, .head_size = head_size, .padded = attention_padded(head_size), .stride = 3 * (int64_t)shape->C,
        .at_qkv = b * shape->T * 3 * shape->C + h * head_size, .at_out = b * shape->T * shape->C + h * head_size,
        .at_lse = pair * shape->T, .scale = 1 / __builtin_sqrtf((float)head_size)};
}

/* Number of keys that a strip of 16 queries from row r of the tile needs. */
INLINE int64_t strip_keys(bool diagonal, int64_t r, int64_t keys)
{
    return diagonal && r + VEC_LANES < keys ? r + VEC_LANES : keys;
}

INLINE int64_t at_most(int64_t a, int64_t b) { return a < b ? a : b; }

struct forward_tiles { float *q, *kt, *v, *out, *scores, *top, *sum; };

/* Scores of a row become probabilities relative to the row's running maximum; what was summed before is rescaled. */
INLINE void softmax_row(const struct forward_tiles *tile, int64_t r, int64_t keys, bool begun, int64_t padded)
{
    float *row = tile->scores + r * ATTENTION_TILE;
    vec highest = vec_set(-__builtin_inff());
    for (int64_t j = 0; j < keys; j += VEC_LANES)
        highest = vec_max(highest, vec_first(vec_load(row + j), keys - j, -__builtin_inff()));
    float top = vec_highest(highest);
    if (begun) {
        top = top > tile->top[r] ? top : tile->top[r];
        const vec shrink = vec_exp(vec_set(tile->top[r] - top));
        float lanes[VEC_LANES];
        vec_store(lanes, shrink);
        tile->sum[r] *= lanes[0];
        for (int64_t i = 0; i < padded; i += VEC_LANES)
            vec_store(tile->out + r * padded + i, vec_mul(vec_load(tile->out + r * padded + i), shrink));
    }
    vec sum = vec_set(0);
    for (int64_t j = 0; j < keys; j += VEC_LANES) {
        vec p = vec_first(vec_exp(vec_sub(vec_load(row + j), vec_set(top))), keys - j, 0);
        vec_store(row + j, p);
        sum = vec_add(sum, p);
    }
    tile->top[r] = top;
    tile->sum[r] = (begun ? tile->sum[r] : 0) + vec_sum(sum);
}

INLINE void forward_tile(const struct forward_tiles *tile, int64_t queries, int64_t keys, bool diagonal, bool begun, int64_t padded)
{
    for (int64_t r = 0; r < queries; r += VEC_LANES) {
        const int64_t rows = at_most(VEC_LANES, queries - r), reach = strip_keys(diagonal, r, keys);
        float *scores = tile->scores + r * ATTENTION_TILE;
        tile_product(scores, ATTENTION_TILE, tile->q + r * padded, padded, 1, tile->kt, ATTENTION_TILE, rows, reach, padded, false);
        for (int64_t i = r; i < r + rows; i++) softmax_row(tile, i, diagonal ? i + 1 : keys, begun, padded);
        tile_product(tile->out + r * padded, padded, scores, ATTENTION_TILE, 1, tile->v, padded, rows, padded, reach, begun);
    }
}

INLINE void forward_queries(const struct attention_forward_args *a, enum dtype dtype, const struct attention_view *view,
                            const struct forward_tiles *tile, int64_t from)
{
    const int64_t T = view->T, padded = view->padded, queries = at_most(ATTENTION_TILE, T - from), C = view->stride / 3;
    const void *q = at(dtype, a->qkv, view->at_qkv), *k = at(dtype, q, C), *v = at(dtype, q, 2 * C);
    tile_load(dtype, tile->q, padded, at(dtype, q, from * view->stride), view->stride, queries, view->head_size, view->scale);
    for (int64_t to = 0; to <= from; to += ATTENTION_TILE) {
        const int64_t keys = at_most(ATTENTION_TILE, T - to);
        tile_load_transposed(dtype, tile->kt, ATTENTION_TILE, at(dtype, k, to * view->stride), view->stride, keys, view->head_size);
        tile_load(dtype, tile->v, padded, at(dtype, v, to * view->stride), view->stride, keys, view->head_size, 1);
        forward_tile(tile, queries, keys, to == from, to > 0, padded);
    }
    for (int64_t r = 0; r < queries; r++) {
        tile_store(dtype, at(dtype, a->out, view->at_out + (from + r) * C), C, tile->out + r * padded, padded, 1,
                   view->head_size, 1 / tile->sum[r]);
        a->lse[view->at_lse + from + r] = tile->top[r] + __builtin_logf(tile->sum[r]);
    }
}

INLINE void attention_forward_body(const struct attention_forward_args *a, enum dtype dtype, int64_t first, int64_t end, int thread)
{
    const int64_t head_size = a->shape.C / a->shape.NH, rows = ATTENTION_TILE * attention_padded(head_size);
    float *scratch = (float *)(a->scratch + thread * attention_forward_scratch_bytes(head_size));
    struct forward_tiles tile = {.q = scratch, .kt = scratch + rows, .v = scratch + 2 * rows, .out = scratch + 3 * rows};
    tile.scores = scratch + 4 * rows;
    tile.top = tile.scores + ATTENTION_TILE * ATTENTION_TILE;
    tile.sum = tile.top + ATTENTION_TILE;
    for (int64_t pair = first; pair < end; pair++) {
        const struct attention_view view = attention_view_of(&a->shape, pair);
        for (int64_t from = 0; from < view.T; from += ATTENTION_TILE) forward_queries(a, dtype, &view, &tile, from);
    }
}

struct backward_tiles { float *k, *kt, *vt, *dk, *dv, *q, *dout, *p, *ds, *dq, *delta; };

/* p = e^(score - lse), ds = p (dp - delta), where delta is the row's sum of dout x out. Lanes beyond the keys are 0. */
INLINE void backward_row(float *p, float *ds, int64_t keys, int64_t reach, float lse, float delta)
{
    for (int64_t j = 0; j < reach; j += VEC_LANES) {
        vec probability = vec_first(vec_exp(vec_sub(vec_load(p + j), vec_set(lse))), keys - j, 0);
        vec slope = vec_first(vec_mul(probability, vec_sub(vec_load(ds + j), vec_set(delta))), keys - j, 0);
        vec_store(p + j, probability);
        vec_store(ds + j, slope);
    }
}

INLINE void backward_tile(const struct backward_tiles *tile, const float *lse, int64_t from, int64_t queries, int64_t keys,
                          bool diagonal, int64_t padded)
{
    enum { S = ATTENTION_TILE };
    for (int64_t r = 0; r < queries; r += VEC_LANES) {
        const int64_t rows = at_most(VEC_LANES, queries - r), reach = strip_keys(diagonal, r, keys);
        float *p = tile->p + r * S, *ds = tile->ds + r * S;
        tile_product(p, S, tile->q + r * padded, padded, 1, tile->kt, S, rows, reach, padded, false);
        tile_product(ds, S, tile->dout + r * padded, padded, 1, tile->vt, S, rows, reach, padded, false);
        for (int64_t i = 0; i < rows; i++)
            backward_row(p + i * S, ds + i * S, diagonal ? r + i + 1 : keys, reach, lse[from + r + i], tile->delta[from + r + i]);
        tile_product(tile->dq + (from + r) * padded, padded, ds, S, 1, tile->k, padded, rows, padded, reach, true);
    }
    for (int64_t j = 0; j < keys; j += VEC_LANES) {
        const int64_t rows = at_most(VEC_LANES, keys - j), begin = diagonal ? j : 0, depth = queries - begin;
        tile_product(tile->dv + j * padded, padded, tile->p + begin * S + j, 1, S, tile->dout + begin * padded, padded, rows, padded, depth, true);
        tile_product(tile->dk + j * padded, padded, tile->ds + begin * S + j, 1, S, tile->q + begin * padded, padded, rows, padded, depth, true);
    }
}

INLINE void backward_keys(const struct attention_backward_args *a, enum dtype dtype, const struct attention_view *view,
                          const struct backward_tiles *tile, int64_t to)
{
    const int64_t T = view->T, padded = view->padded, keys = at_most(ATTENTION_TILE, T - to), C = view->stride / 3;
    const int64_t stride = view->stride, head_size = view->head_size;
    const void *q = at(dtype, a->qkv, view->at_qkv), *k = at(dtype, q, C + to * stride), *v = at(dtype, q, 2 * C + to * stride);
    tile_load(dtype, tile->k, padded, k, stride, keys, head_size, 1);
    tile_load_transposed(dtype, tile->kt, ATTENTION_TILE, k, stride, keys, head_size);
    tile_load_transposed(dtype, tile->vt, ATTENTION_TILE, v, stride, keys, head_size);
    tile_clear(tile->dk, ATTENTION_TILE * padded);
    tile_clear(tile->dv, ATTENTION_TILE * padded);
    for (int64_t from = to; from < T; from += ATTENTION_TILE) {
        const int64_t queries = at_most(ATTENTION_TILE, T - from);
        tile_load(dtype, tile->q, padded, at(dtype, q, from * stride), stride, queries, head_size, view->scale);
        tile_load(dtype, tile->dout, padded, at(dtype, a->dout, view->at_out + from * C), C, queries, head_size, 1);
        backward_tile(tile, a->lse + view->at_lse, from, queries, keys, from == to, padded);
    }
    void *dqkv = at(dtype, a->dqkv, view->at_qkv + to * stride);
    tile_store(dtype, at(dtype, dqkv, C), stride, tile->dk, padded, keys, head_size, 1);
    tile_store(dtype, at(dtype, dqkv, 2 * C), stride, tile->dv, padded, keys, head_size, 1);
}

INLINE void backward_deltas(const struct attention_backward_args *a, enum dtype dtype, const struct attention_view *view, float *delta)
{
    for (int64_t t = 0; t < view->T; t++) {
        const int64_t from = view->at_out + t * (view->stride / 3), size = view->head_size;
        vec sum = vec_set(0);
        for (int64_t i = 0; i < size; i += VEC_LANES)
            sum = vec_fma(load(dtype, a->dout, from + i, size - i), load(dtype, a->out, from + i, size - i), sum);
        delta[t] = vec_sum(sum);
    }
}

INLINE void attention_backward_body(const struct attention_backward_args *a, enum dtype dtype, int64_t first, int64_t end, int thread)
{
    const int64_t head_size = a->shape.C / a->shape.NH, T = a->shape.T, padded = attention_padded(head_size);
    const int64_t rows = ATTENTION_TILE * padded, scores = ATTENTION_TILE * ATTENTION_TILE;
    float *scratch = (float *)(a->scratch + thread * attention_backward_scratch_bytes(T, head_size));
    struct backward_tiles tile = {.k = scratch, .kt = scratch + rows, .vt = scratch + 2 * rows, .dk = scratch + 3 * rows,
                                  .dv = scratch + 4 * rows, .q = scratch + 5 * rows, .dout = scratch + 6 * rows};
    tile.p = scratch + 7 * rows;
    tile.ds = tile.p + scores;
    tile.dq = tile.ds + scores;
    tile.delta = tile.dq + T * padded;
    for (int64_t pair = first; pair < end; pair++) {
        const struct attention_view view = attention_view_of(&a->shape, pair);
        backward_deltas(a, dtype, &view, tile.delta);
        tile_clear(tile.dq, T * padded);
        for (int64_t to = 0; to < T; to += ATTENTION_TILE) backward_keys(a, dtype, &view, &tile, to);
        tile_store(dtype, at(dtype, a->dqkv, view.at_qkv), view.stride, tile.dq, padded, T, head_size, view.scale);
    }
}
