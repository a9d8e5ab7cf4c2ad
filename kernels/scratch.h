/* Scratch sizes of the kernels, in bytes. The plan and the kernels both call these functions, so that they agree. */
#pragma once

#include <stdint.h>

/* Attention works on tiles of ATTENTION_TILE queries by as many keys; rows of a tile are padded to whole vectors. */
enum { ATTENTION_TILE = 64, ATTENTION_PAD = 16 };

static inline int64_t attention_padded(int64_t head_size)
{
    return (head_size + ATTENTION_PAD - 1) / ATTENTION_PAD * ATTENTION_PAD;
}

/* Bytes per thread, of fp32. Forward: four tiles [64, padded] (queries, keys, values, output), scores [64, 64], two columns [64]. */
static inline int64_t attention_forward_scratch_bytes(int64_t head_size)
{
    const int64_t rows = ATTENTION_TILE * attention_padded(head_size), scores = ATTENTION_TILE * ATTENTION_TILE;
    return (4 * rows + scores + 2 * ATTENTION_TILE) * 4;
}

/* Backward: seven tiles [64, padded] (keys twice, values, queries, dout, dkeys, dvalues), two of scores [64, 64], dqueries
 * [T, padded] and one column [T]. Grows with T, never with T x T. */
static inline int64_t attention_backward_scratch_bytes(int64_t T, int64_t head_size)
{
    const int64_t padded = attention_padded(head_size), column = (T + ATTENTION_PAD - 1) / ATTENTION_PAD * ATTENTION_PAD;
    return (7 * ATTENTION_TILE * padded + 2 * ATTENTION_TILE * ATTENTION_TILE + T * padded + column) * 4;
}

/* Embedding backward sorts the N rows by token: a pair (token, row) of 8 bytes for each. */
static inline int64_t embed_scratch_bytes(int64_t N)
{
    return N * 8;
}

/* The same on a GPU, per call instead of per thread. Attention forward needs none; backward needs one fp32 for each row and head,
 * the sum of dout x out. Embedding backward sorts by radix: the pairs twice, and 16 counts for each block of 2048 rows. */
static inline int64_t attention_backward_scratch_cuda_bytes(int64_t B, int64_t T, int64_t NH)
{
    return B * NH * T * 4;
}

static inline int64_t embed_scratch_cuda_bytes(int64_t N)
{
    return 2 * N * 8 + (N + 2047) / 2048 * 16 * 4;
}
