/* Sums down the columns of [N, C]: gradients of biases and of layer norm's weights. In two stages: blocks sum chunks of rows, each
 * thread eight columns; then each column's chunks are added in order. How rows are cut depends on the shape alone, so bits repeat.
 * (Atomic additions would need one stage, and have another order in every run.) */
#include "kernels/cuda/cuda.cuh"
#include "kernels/cuda/warp.cuh"

enum { COLUMN_WARPS = 8, COLUMN_THREADS = COLUMN_WARPS * WARP, CHUNKS_MOST = 128, TOTAL_WARPS = 16 };

/* What is added for row n at columns c .. c + W - 1: to one sum (a bias; a row of a weight's gradient), or to two (layer norm's w,
 * b). */
template <class T> struct bias_term {
    enum { SUMS = 1 };
    const T *dy;

    template <int W> __device__ __forceinline__ void add(float (&sums)[SUMS][W], int64_t n, int64_t c, int64_t C) const
    {
        float d[W];
        load<W>(d, dy, n * C + c);
#pragma unroll
        for (int j = 0; j < W; j++) sums[0][j] += d[j];
    }
};

template <class T> struct product_term {
    enum { SUMS = 1 };
    const T *by, *x;
    int64_t row; /* from one of `by` to the next */

    template <int W> __device__ __forceinline__ void add(float (&sums)[SUMS][W], int64_t n, int64_t c, int64_t C) const
    {
        float v[W];
        load<W>(v, x, n * C + c);
        const float factor = to_float(by[n * row]);
#pragma unroll
        for (int j = 0; j < W; j++) sums[0][j] += factor * v[j];
    }
};

template <class T> struct norm_term {
    enum { SUMS = 2 };
    const T *dy, *x;
    const float *mean, *rstd;

    template <int W> __device__ __forceinline__ void add(float (&sums)[SUMS][W], int64_t n, int64_t c, int64_t C) const
    {
        float d[W], v[W];
        load<W>(d, dy, n * C + c);
        load<W>(v, x, n * C + c);
        const float m = mean[n], r = rstd[n];
#pragma unroll
        for (int j = 0; j < W; j++) {
            sums[0][j] += d[j] * ((v[j] - m) * r);
            sums[1][j] += d[j];
        }
    }
};

/* partials [chunks, SUMS, C]. Warps take rows of the chunk in turn, and are added in order through shared memory. */
template <class Term, int W>
__global__ void __launch_bounds__(COLUMN_THREADS)
    column_chunks(float *partials, Term term, int64_t N, int64_t C, int64_t rows)
{
    __shared__ float room[COLUMN_WARPS][WARP * W + 1];
    const int warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP;
    const int64_t c = ((int64_t)blockIdx.x * WARP + lane) * W;
    const int64_t first = (int64_t)blockIdx.y * rows, end = first + rows < N ? first + rows : N;
    float sums[Term::SUMS][W] = {};
    if (c < C) {
#pragma unroll 4
        for (int64_t n = first + warp; n < end; n += COLUMN_WARPS) term.template add<W>(sums, n, c, C);
    }
    for (int s = 0; s < Term::SUMS; s++) {
        __syncthreads();
#pragma unroll
        for (int j = 0; j < W; j++) room[warp][lane * W + j] = sums[s][j];
        __syncthreads();
        for (int i = (int)threadIdx.x; i < WARP * W; i += COLUMN_THREADS) {
            const int64_t column = (int64_t)blockIdx.x * WARP * W + i;
            float sum = room[0][i];
            for (int w = 1; w < COLUMN_WARPS; w++) sum += room[w][i];
            if (column < C) partials[((int64_t)blockIdx.y * Term::SUMS + s) * C + column] = sum;
        }
    }
}

template <class T> struct totals {
    T *first, *second, *third;
};

/* A block for 32 columns, and for each sum: warps take chunks in turn, and are added in order. */
template <class T>
__global__ void __launch_bounds__(TOTAL_WARPS *WARP)
    column_totals(totals<T> to, bool accumulate, const float *partials, int chunks, int sums, int64_t C)
{
    __shared__ float room[TOTAL_WARPS][WARP];
    const int warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP, which = (int)blockIdx.y;
    const int64_t c = (int64_t)blockIdx.x * WARP + lane;
    float sum = 0;
    if (c < C) {
#pragma unroll 8
        for (int k = warp; k < chunks; k += TOTAL_WARPS) sum += partials[((int64_t)k * sums + which) * C + c];
    }
    room[warp][lane] = sum;
    __syncthreads();
    if (warp > 0 || c >= C) return;
    for (int i = 1; i < TOTAL_WARPS; i++) sum += room[i][lane];
    T *y = which == 0 ? to.first : which == 1 ? to.second : to.third;
    if (accumulate) sum = to_float(y[c]) + sum;
    from_float(y + c, sum);
}

void cuda_column_totals(struct kernels *kernels, const char *name, enum dtype dtype, void *const *y, bool accumulate,
                        const float *partials, int chunks, int sums, int64_t C)
{
    with_type(dtype, [&](auto element) {
        using T = decltype(element);
        const totals<T> to = {(T *)y[0], sums > 1 ? (T *)y[1] : nullptr, sums > 2 ? (T *)y[2] : nullptr};
        launch(cuda_of(kernels)->stream, name, column_totals<T>, dim3(blocks_for(C, WARP), (unsigned)sums),
               TOTAL_WARPS * WARP, 0, to, accumulate, partials, chunks, sums, C);
    });
}

/* Chunks of at least 64 rows, as many as there is room for partial sums. */
static int64_t chunk_rows(int64_t N, int64_t C, int sums)
{
    const int64_t room = PARTIALS_BYTES / (4 * sums * C),
                  chunks = room < (int64_t)CHUNKS_MOST ? room : (int64_t)CHUNKS_MOST;
    const int64_t rows = (N + chunks - 1) / chunks;
    return rows < 64 ? 64 : rows;
}

template <class Term>
static void columns(struct kernels *kernels, const char *name, enum dtype dtype, const Term &term, bool wide,
                    void *const *y, bool accumulate, int64_t N, int64_t C)
{
    struct cuda *cuda = cuda_of(kernels);
    float *partials = (float *)cuda->partials;
    if (C < 1 || (int64_t)4 * Term::SUMS * C > PARTIALS_BYTES) {
        error_set(&cuda->stream->failure, STATUS_RUN, "%s: %lld columns; there may be %d", name, (long long)C,
                  (int)PARTIALS_BYTES / (4 * (int)Term::SUMS));
        return;
    }
    const int64_t rows = chunk_rows(N, C, Term::SUMS);
    const unsigned chunks = blocks_for(N, rows);
    if (wide)
        launch(cuda->stream, name, column_chunks<Term, 8>, dim3(blocks_for(C, WARP * 8), chunks), COLUMN_THREADS, 0,
               partials, term, N, C, rows);
    else
        launch(cuda->stream, name, column_chunks<Term, 1>, dim3(blocks_for(C, WARP), chunks), COLUMN_THREADS, 0,
               partials, term, N, C, rows);
    cuda_column_totals(kernels, name, dtype, y, accumulate, partials, (int)chunks, (int)Term::SUMS, C);
}

void cuda_linear_backward_bias(struct kernels *kernels, enum dtype dtype, void *db, bool accumulate, const void *dy,
                               int64_t N, int64_t out)
{
    with_type(dtype, [&](auto element) {
        using T = decltype(element);
        const bias_term<T> term = {(const T *)dy};
        void *const y[] = {db};
        columns(kernels, "linear_backward_bias", dtype, term, out % 8 == 0 && aligned(dy), y, accumulate, N, out);
    });
}

void cuda_column_products(struct kernels *kernels, enum dtype dtype, void *y, bool accumulate, const void *by,
                          int64_t row, const void *x, int64_t N, int64_t C)
{
    with_type(dtype, [&](auto element) {
        using T = decltype(element);
        const product_term<T> term = {(const T *)by, (const T *)x, row};
        columns(kernels, "column_products", dtype, term, C % 8 == 0 && aligned(x), &y, accumulate, N, C);
    });
}

void cuda_norm_backward_weights(struct kernels *kernels, enum dtype dtype, void *dw, void *db, bool accumulate,
                                const void *dy, const void *x, const float *mean, const float *rstd, int64_t N,
                                int64_t C)
{
    with_type(dtype, [&](auto element) {
        using T = decltype(element);
        const norm_term<T> term = {(const T *)dy, (const T *)x, mean, rstd};
        void *const y[] = {dw, db};
        columns(kernels, "norm_backward_weights", dtype, term, C % 8 == 0 && aligned(dy, x), y, accumulate, N, C);
    });
}
