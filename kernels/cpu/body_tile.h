/* Small dense pieces for attention: fp32 tiles in scratch, whatever the model's dtype, and their product. */

/* tile[r][0 .. padded) = scale x rows of x, padded with zeros to whole vectors. */
INLINE void tile_load(enum dtype dtype, float *tile, int64_t padded, const void *x, int64_t stride, int64_t rows, int64_t columns, float scale)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < columns; i += VEC_LANES)
            vec_store(tile + r * padded + i, vec_mul(load(dtype, x, r * stride + i, columns - i), vec_set(scale)));
}

/* tile[i][r] = x[r][i]; zeros pad both sides to whole vectors. */
INLINE void tile_load_transposed(enum dtype dtype, float *tile, int64_t width, const void *x, int64_t stride, int64_t rows, int64_t columns)
{
    for (int64_t r = 0; r < rows; r += VEC_LANES)
        for (int64_t i = 0; i < columns; i += VEC_LANES) {
            vec block[VEC_LANES];
            for (int64_t k = 0; k < VEC_LANES; k++)
                block[k] = r + k < rows ? load(dtype, x, (r + k) * stride + i, columns - i) : vec_set(0);
            vec_transpose(block);
            for (int64_t k = 0; k < VEC_LANES; k++) vec_store(tile + (i + k) * width + r, block[k]);
        }
}

INLINE void tile_store(enum dtype dtype, void *y, int64_t stride, const float *tile, int64_t padded, int64_t rows, int64_t columns, float scale)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < columns; i += VEC_LANES)
            store(dtype, y, r * stride + i, vec_mul(vec_load(tile + r * padded + i), vec_set(scale)), columns - i);
}

INLINE void tile_clear(float *tile, int64_t elems)
{
    for (int64_t i = 0; i < elems; i += VEC_LANES) vec_store(tile + i, vec_set(0));
}

/* `rows` x `vecs` vectors of c stay in registers while depth runs; without unrolling they would be an array in memory. */
#define UNROLL _Pragma("GCC unroll 4")

INLINE void tile_block(float *c, int64_t c_row, const float *a, int64_t a_row, int64_t a_depth, const float *b, int64_t b_depth,
                       int rows, int vecs, int64_t depth, bool add)
{
    vec sum[TILE_ROWS][TILE_VECS];
    UNROLL for (int r = 0; r < rows; r++)
        UNROLL for (int j = 0; j < vecs; j++) sum[r][j] = add ? vec_load(c + r * c_row + j * VEC_LANES) : vec_set(0);
    for (int64_t k = 0; k < depth; k++) {
        vec right[TILE_VECS];
        UNROLL for (int j = 0; j < vecs; j++) right[j] = vec_load(b + k * b_depth + j * VEC_LANES);
        UNROLL for (int r = 0; r < rows; r++) {
            const vec left = vec_set(a[r * a_row + k * a_depth]);
            UNROLL for (int j = 0; j < vecs; j++) sum[r][j] = vec_fma(left, right[j], sum[r][j]);
        }
    }
    UNROLL for (int r = 0; r < rows; r++)
        UNROLL for (int j = 0; j < vecs; j++) vec_store(c + r * c_row + j * VEC_LANES, sum[r][j]);
}

#define TILE_BLOCKS(vecs)                                                                                      \
    for (; r + TILE_ROWS <= rows; r += TILE_ROWS)                                                              \
        tile_block(c + r * c_row + j, c_row, a + r * a_row, a_row, a_depth, b + j, b_depth, TILE_ROWS, vecs, depth, add); \
    for (; r < rows; r++)                                                                                      \
        tile_block(c + r * c_row + j, c_row, a + r * a_row, a_row, a_depth, b + j, b_depth, 1, vecs, depth, add)

/* c [rows, columns] = a [rows, depth] b [depth, columns], plus c where `add` is set. Columns are rounded up to whole
 * vectors. a is read one number at a time, so its two strides may be any; b and c are row by row. */
static void tile_product(float *c, int64_t c_row, const float *a, int64_t a_row, int64_t a_depth, const float *b, int64_t b_depth,
                         int64_t rows, int64_t columns, int64_t depth, bool add)
{
    for (int64_t j = 0; j < columns;) {
        const int64_t left = (columns - j + VEC_LANES - 1) / VEC_LANES, vecs = left < TILE_VECS ? left : TILE_VECS;
        int64_t r = 0;
#if defined VECTOR_AVX512
        if (vecs == 4) { TILE_BLOCKS(4); }
        else if (vecs == 3) { TILE_BLOCKS(3); }
        else if (vecs == 2) { TILE_BLOCKS(2); }
        else
#endif
        { TILE_BLOCKS(1); }
        j += vecs * VEC_LANES;
    }
}
