/* The embedding: rows are copied out of the tables, and gradients of rows are summed back into them, in the CPU's order and with
 * its bits. */
#include "kernels/cuda/cuda.cuh"
#include "kernels/cuda/warp.cuh"

enum { EMBED_THREADS = 128 };
static const unsigned ALL = 0xffffffffu;

template <class T, int W>
__global__ void embed_forward(T *x, const T *wte, const T *wpe, const int32_t *tokens, int64_t N, int64_t T_, int64_t C)
{
    const int64_t i = ((int64_t)blockIdx.x * EMBED_THREADS + threadIdx.x) * W;
    if (i >= N * C) return;
    const int64_t n = i / C, c = i % C;
    float token[W], position[W];
    load<W>(token, wte, tokens[n] * C + c);
    load<W>(position, wpe, n % T_ * C + c);
#pragma unroll
    for (int j = 0; j < W; j++) token[j] += position[j];
    store<W>(x, i, token);
}

void cuda_embed_forward(struct kernels *kernels, enum dtype dtype, void *x, const void *wte, const void *wpe,
                        const int32_t *tokens, int64_t N, int64_t T, int64_t C)
{
    with_type(dtype, [&](auto element) {
        using E = decltype(element);
        const int wide = C % 8 == 0 && aligned(x, wte, wpe) ? 8 : 1;
        launch(cuda_of(kernels)->stream, "embed_forward", wide == 8 ? embed_forward<E, 8> : embed_forward<E, 1>,
               blocks_for(N * C, EMBED_THREADS * wide), EMBED_THREADS, 0, (E *)x, (const E *)wte, (const E *)wpe,
               tokens, N, T, C);
    });
}

/* Where the run of equal tokens that begins at p ends: by steps that double until one is too far, then by halving. */
__device__ __forceinline__ int64_t run_end(const uint64_t *order, int64_t p, int64_t N, uint64_t token)
{
    int64_t step = 1;
    while (p + step < N && order[p + step] >> 32 == token) step *= 2;
    int64_t inside = p + step / 2, outside = p + step < N ? p + step : N;
    while (outside - inside > 1) {
        const int64_t middle = (inside + outside) / 2;
        if (order[middle] >> 32 == token) inside = middle;
        else outside = middle;
    }
    return outside;
}

/* One element, with what struct eight has: for rows that are off alignment. */
template <class T> struct one {
    T value;

    one() = default;
    __device__ __forceinline__ one(const T *x, bool there) : value(there ? *x : T())
    {
    }
    __device__ __forceinline__ void to(float (&values)[1]) const
    {
        values[0] = to_float(value);
    }
};

/* Adds as many groups of R rows as there are from `first` on; lane r of `mine` has the number of row r. */
template <int R, class Piece, class T, int W>
__device__ __forceinline__ int add_rows(float (&sum)[W], const T *dx, int64_t C, uint32_t mine, int first, int count)
{
    for (; first + R <= count; first += R) {
        Piece rows[R];
        float row[W];
#pragma unroll
        for (int r = 0; r < R; r++) rows[r] = Piece(dx + (int64_t)__shfl_sync(ALL, mine, first + r) * C, true);
#pragma unroll
        for (int r = 0; r < R; r++) {
            rows[r].to(row);
#pragma unroll
            for (int j = 0; j < W; j++) sum[j] += row[j];
        }
    }
    return first;
}

/* order: (token << 32 | row of dx), ascending. A block stands at each place; those where a token begins sum its rows, in order,
 * each thread for columns of its own. A warp looks at 32 places at once, which is where most tokens end. Rows' numbers are known
 * before, so that many rows are on their way: a token that text has often would hold up the whole step otherwise. */
template <class T, class Piece, int W>
__global__ void __launch_bounds__(EMBED_THREADS)
    embed_backward_tokens(T *dwte, const T *dx, const uint64_t *order, int64_t N, int64_t C)
{
    const int lane = (int)threadIdx.x % WARP;
    const int64_t p = blockIdx.x, place = p - 1 + lane;
    const uint64_t near = place >= 0 && place < N ? order[place] : UINT64_MAX, token = __shfl_sync(ALL, near, 1) >> 32;
    const unsigned same = __ballot_sync(ALL, near >> 32 == token);
    if (same & 1) return; /* the token began before p */
    const int64_t end = same >> (WARP - 1) ? run_end(order, p, N, token) : p + __popc(same);
    for (int64_t begin = (int64_t)(threadIdx.x - lane) * W; begin < C; begin += EMBED_THREADS * W) {
        const bool inside = begin + lane * W < C;
        const int64_t c = inside ? begin + lane * W : 0; /* a lane past the end goes along, and stores nothing */
        const Piece kept(dwte + (int64_t)token * C + c, true);
        float sum[W] = {}, row[W];
        for (int64_t q = p; q < end; q += WARP) {
            const int count = end - q < WARP ? (int)(end - q) : (int)WARP;
            const uint32_t mine = lane < count ? (uint32_t)order[q + lane] : 0;
            int done = add_rows<12, Piece>(sum, dx + c, C, mine, 0, count);
            done = add_rows<4, Piece>(sum, dx + c, C, mine, done, count);
            add_rows<1, Piece>(sum, dx + c, C, mine, done, count);
        }
        kept.to(row);
#pragma unroll
        for (int j = 0; j < W; j++) sum[j] = row[j] + sum[j];
        if (inside) store<W>(dwte, (int64_t)token * C + c, sum);
    }
}

void cuda_embed_backward_tokens(struct kernels *kernels, enum dtype dtype, void *dwte, const void *dx,
                                const int32_t *tokens, int64_t N, int64_t C, void *scratch)
{
    struct device_stream *stream = cuda_of(kernels)->stream;
    const uint64_t *order = sort_tokens(stream, tokens, N, scratch);
    with_type(dtype, [&](auto element) {
        using E = decltype(element);
        const bool wide = C % 8 == 0 && aligned(dwte, dx);
        launch(stream, "embed_backward_tokens",
               wide ? embed_backward_tokens<E, eight<E>, 8> : embed_backward_tokens<E, one<E>, 1>, (unsigned)N,
               EMBED_THREADS, 0, (E *)dwte, (const E *)dx, order, N, C);
    });
}

/* dwpe [rows, C]: row t sums dx over the batch; rows from T on become 0, or are left where accumulate is set. */
template <class T, int W>
__global__ void embed_backward_positions(T *dwpe, bool accumulate, const T *dx, int64_t rows, int64_t N, int64_t T_,
                                         int64_t C)
{
    const int64_t i = ((int64_t)blockIdx.x * EMBED_THREADS + threadIdx.x) * W;
    const int64_t t = i / C;
    if (t >= rows || (t >= T_ && accumulate)) return;
    float sum[W] = {}, row[W];
#pragma unroll 4
    for (int64_t n = t; t < T_ && n < N; n += T_) {
        load<W>(row, dx, n * C + i % C);
#pragma unroll
        for (int j = 0; j < W; j++) sum[j] += row[j];
    }
    if (accumulate) {
        load<W>(row, dwpe, i);
#pragma unroll
        for (int j = 0; j < W; j++) sum[j] = row[j] + sum[j];
    }
    store<W>(dwpe, i, sum);
}

void cuda_embed_backward_positions(struct kernels *kernels, enum dtype dtype, void *dwpe, bool accumulate,
                                   const void *dx, int64_t rows, int64_t N, int64_t T, int64_t C)
{
    with_type(dtype, [&](auto element) {
        using E = decltype(element);
        const int wide = C % 8 == 0 && aligned(dwpe, dx) ? 8 : 1;
        launch(cuda_of(kernels)->stream, "embed_backward_positions",
               wide == 8 ? embed_backward_positions<E, 8> : embed_backward_positions<E, 1>,
               blocks_for(rows * C, EMBED_THREADS * wide), EMBED_THREADS, 0, (E *)dwpe, accumulate, (const E *)dx, rows,
               N, T, C);
    });
}
