/* Sums of whole arrays, in double: each block sums a piece of fixed size, then one block sums the pieces. So the order
 * depends on the number of elements alone. The sum is copied to the host in stream order. */
#include "kernels/cuda/cuda.cuh"
#include "kernels/cuda/warp.cuh"

enum { SUM_THREADS = 256, SUM_PIECE = 16384, PIECES_MOST = PARTIALS_BYTES / 8 };

template <bool SQUARES, class T, int W>
__global__ void __launch_bounds__(SUM_THREADS) sum_pieces(double *partials, const T *x, int64_t n)
{
    __shared__ double room[WARPS_MOST];
    const int64_t first = (int64_t)blockIdx.x * SUM_PIECE, end = first + SUM_PIECE < n ? first + SUM_PIECE : n;
    double sum = 0;
    for (int64_t i = first + (int64_t)threadIdx.x * 8; i < end; i += SUM_THREADS * 8) {
        if (W == 8 && i + 8 <= end) { /* W 1: not aligned */
            float v[8];
            load<8>(v, x, i);
#pragma unroll
            for (int j = 0; j < 8; j++) sum += SQUARES ? (double)v[j] * v[j] : (double)v[j];
            continue;
        }
        for (int64_t j = i; j < end && j < i + 8; j++) {
            const double v = to_float(x[j]);
            sum += SQUARES ? v * v : v;
        }
    }
    sum = block_sum(sum, room);
    if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(SUM_THREADS)
    sum_partials(double *total, const double *partials, int count, bool begun)
{
    __shared__ double room[WARPS_MOST];
    double sum = 0;
    for (int i = (int)threadIdx.x; i < count; i += SUM_THREADS) sum += partials[i];
    sum = block_sum(sum, room);
    if (threadIdx.x == 0) *total = begun ? *total + sum : sum;
}

/* A mean is a float of its own, where the sum was. */
__global__ void sum_to_mean(double *sum, int64_t n)
{
    const double mean = *sum / (double)n;
    *(float *)sum = (float)mean;
}

/* Leaves the sum in cuda->sum. */
template <bool SQUARES>
static void sum_of(struct cuda *cuda, const char *name, enum dtype dtype, const void *x, int64_t n)
{
    double *partials = (double *)cuda->partials;
    const int64_t at_once = (int64_t)PIECES_MOST * SUM_PIECE;
    for (int64_t first = 0; first < n; first += at_once) {
        const int64_t elems = n - first < at_once ? n - first : at_once;
        const unsigned pieces = blocks_for(elems, SUM_PIECE);
        with_type(dtype, [&](auto element) {
            using T = decltype(element);
            const T *from = (const T *)x + first;
            void (*kernel)(double *, const T *, int64_t) =
                aligned(from) ? sum_pieces<SQUARES, T, 8> : sum_pieces<SQUARES, T, 1>;
            launch(cuda->stream, name, kernel, pieces, SUM_THREADS, 0, partials, from, elems);
        });
        launch(cuda->stream, name, sum_partials, 1, SUM_THREADS, 0, cuda->sum, partials, (int)pieces, first > 0);
    }
}

/* Copies a result to the host; the stream keeps an error for kernels_check(). */
static void bring(struct cuda *cuda, void *to, uint64_t bytes)
{
    struct error err;
    device_copy(cuda->stream, to, cuda->sum, bytes, &err);
}

void cuda_sum_squares_to(struct kernels *kernels, enum dtype dtype, double *sum, const void *x, int64_t n)
{
    struct cuda *cuda = cuda_of(kernels);
    if (n <= 0) return (void)(*sum = 0);
    sum_of<true>(cuda, "sum_squares", dtype, x, n);
    bring(cuda, sum, sizeof *sum);
}

void cuda_mean_to(struct kernels *kernels, float *mean, const float *x, int64_t n)
{
    struct cuda *cuda = cuda_of(kernels);
    sum_of<false>(cuda, "mean", DTYPE_F32, x, n);
    launch(cuda->stream, "mean", sum_to_mean, 1, 1, 0, cuda->sum, n);
    bring(cuda, mean, sizeof *mean);
}
