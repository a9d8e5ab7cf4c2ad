/* Layer norm backward in one go: dx, and sums for the gradients of w and b, from one reading of dy and x; and where asked, of the
 * bias of the layer before, whose gradient is the column sums of dx. A block has a run of rows and takes a few at a time: all that
 * these need is on its way before the first number is used. A thread has eight columns, the same ones of every row, so sums down
 * columns are its own and stay in registers; sums over a row meet in shared memory. In the end the block leaves one row of each
 * sum. How rows are cut depends on the shape and the GPU alone, so bits repeat. Rows too long for a block, and odd ones, take
 * kernels of their own for each (norm.cu, columns.cu). */
#include "kernels/cuda/norm.cuh"

enum { W = 8, THREADS_MOST = 512, COLUMNS_MOST = THREADS_MOST * W, ROWS_LEAST = 16 };

/* Rows at a time, as many as registers hold: 128 of a thread, so that 512 threads of small blocks share a processor. */
enum { ROWS = 2 };

/* Of these rows: the sums of g and of g h (norm.cuh). */
struct row_sums {
    float g[ROWS], gh[ROWS];
};

/* Over the block, in a fixed order; every thread gets the result. `room` is free to be used again after the next barrier. */
__device__ __forceinline__ row_sums row_sums_of_block(row_sums own, row_sums *room)
{
    const int warp = (int)threadIdx.x / WARP, warps = (int)blockDim.x / WARP;
#pragma unroll
    for (int r = 0; r < ROWS; r++) own.g[r] = warp_sum(own.g[r]), own.gh[r] = warp_sum(own.gh[r]);
    if (threadIdx.x % WARP == 0) room[warp] = own;
    __syncthreads();
    own = room[0];
#pragma unroll 4
    for (int k = 1; k < warps; k++) {
#pragma unroll
        for (int r = 0; r < ROWS; r++) own.g[r] += room[k].g[r], own.gh[r] += room[k].gh[r];
    }
    return own;
}

/* Of a thread, down its columns: the gradients of w and b, and the sums of dx as it was stored. */
struct column_sums {
    float dw[W], db[W], dx[W];
};

/* What a thread has of ROWS rows: its eight columns of each array, and each row's mean and 1 / deviation. kept: what dx held. */
template <class T> struct some_rows {
    eight<T> dy[ROWS], x[ROWS], kept[ROWS];
    float mean[ROWS], rstd[ROWS];

    __device__ __forceinline__ row_sums sums(const eight<T> &w, column_sums &columns) const
    {
        row_sums sums = {};
        float weight[W], d[W], v[W];
        w.to(weight);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            dy[r].to(d);
            x[r].to(v);
#pragma unroll
            for (int j = 0; j < W; j++) {
                const float g = d[j] * weight[j], h = (v[j] - mean[r]) * rstd[r];
                sums.g[r] += g;
                sums.gh[r] += g * h;
                columns.dw[j] += d[j] * h;
                columns.db[j] += d[j];
            }
        }
        return sums;
    }

    __device__ __forceinline__ void gradient(T *dx, int r, const eight<T> &w, float mean_g, float mean_gh,
                                             column_sums &columns) const
    {
        float weight[W], d[W], v[W], out[W];
        w.to(weight);
        dy[r].to(d);
        x[r].to(v);
        kept[r].to(out);
#pragma unroll
        for (int j = 0; j < W; j++) {
            out[j] += norm_gradient(d[j] * weight[j], (v[j] - mean[r]) * rstd[r], rstd[r], mean_g, mean_gh);
            columns.dx[j] += rounded<T>(out[j]);
        }
        store<W>(dx, 0, out);
    }
};

/* partials [blocks, sums, C], sums 2 or 3. Elements are written by the thread that read them, so dx may be dy. */
template <class T>
__global__ void __launch_bounds__(THREADS_MOST, 1)
    norm_backward_both(T *dx, bool add, float *partials, int sums, const T *dy, const T *x, const float *mean,
                       const float *rstd, const T *w, int64_t N, int64_t C, int64_t rows)
{
    __shared__ row_sums room[2][THREADS_MOST / WARP];
    const int64_t c = (int64_t)threadIdx.x * W, first = blockIdx.x * rows, end = first + rows < N ? first + rows : N;
    const float share = 1 / (float)C;
    const bool inside = c < C;
    const eight<T> weight(w + c, inside);
    column_sums columns = {};
    int turn = 0;
    for (int64_t n = first; n < end; n += ROWS, turn = !turn) {
        some_rows<T> some;
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const bool there = n + r < end;
            const int64_t at = (n + r) * C + c;
            some.dy[r] = eight<T>(dy + at, inside && there);
            some.x[r] = eight<T>(x + at, inside && there);
            some.kept[r] = eight<T>(dx + at, add && inside && there);
            some.mean[r] = there ? mean[n + r] : 0;
            some.rstd[r] = there ? rstd[n + r] : 0;
        }
        const row_sums all = row_sums_of_block(some.sums(weight, columns), room[turn]);
        if (!inside) continue;
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            if (n + r < end)
                some.gradient(dx + (n + r) * C + c, r, weight, all.g[r] * share, all.gh[r] * share, columns);
    }
    if (!inside) return;
    partials += (int64_t)blockIdx.x * sums * C;
    store<W>(partials, c, columns.dw);
    store<W>(partials + C, c, columns.db);
    if (sums > 2) store<W>(partials + 2 * C, c, columns.dx);
}

/* One wave of blocks, 512 threads on each processor or one block, or as many as there is room for their sums. */
static int64_t rows_of_block(const struct cuda *cuda, int64_t N, int64_t C, unsigned threads, int sums)
{
    const int64_t room = PARTIALS_BYTES / (sums * C * 4), each = threads < THREADS_MOST ? THREADS_MOST / threads : 1,
                  wave = cuda->stream->device->info.processors * each, blocks = room < wave ? room : wave;
    const int64_t rows = (N + ROWS * blocks - 1) / (ROWS * blocks) * ROWS, least = ROWS_LEAST;
    return rows < least ? least : rows;
}

void cuda_norm_backward_both(struct kernels *kernels, enum dtype dtype, void *dx, bool add, void *dw, void *db,
                             void *dsum, bool accumulate, const void *dy, const void *x, const float *mean,
                             const float *rstd, const void *w, int64_t N, int64_t C)
{
    if (C % W || C > COLUMNS_MOST || !aligned(dx, dy, x, w)) {
        cuda_norm_backward_weights(kernels, dtype, dw, db, accumulate, dy, x, mean, rstd, N, C);
        cuda_norm_backward(kernels, dtype, dx, add, dy, x, mean, rstd, w, N, C);
        if (dsum) cuda_linear_backward_bias(kernels, dtype, dsum, accumulate, dx, N, C);
        return;
    }
    struct cuda *cuda = cuda_of(kernels);
    float *partials = (float *)cuda->partials;
    void *const totals[] = {dw, db, dsum};
    const int sums = dsum ? 3 : 2;
    const unsigned threads = blocks_for(C, W * WARP) * WARP;
    const int64_t rows = rows_of_block(cuda, N, C, threads, sums);
    with_type(dtype, [&](auto element) {
        using T = decltype(element);
        launch(cuda->stream, "norm_backward_both", norm_backward_both<T>, blocks_for(N, rows), threads, 0, (T *)dx, add,
               partials, sums, (const T *)dy, (const T *)x, mean, rstd, (const T *)w, N, C, rows);
    });
    cuda_column_totals(kernels, "norm_backward_both", dtype, totals, accumulate, partials, (int)blocks_for(N, rows),
                       sums, C);
}
