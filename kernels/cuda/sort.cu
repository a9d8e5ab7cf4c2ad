/* Sorts rows by token, rows of one token in their order: least significant digit first, four bits at a time, each pass stable. A
 * pass counts digits by blocks of 2048 rows, turns counts into places (digit by digit, and within a digit block by block), and
 * moves rows to their places. Within a block a thread owns eight rows in a stretch, so order is kept by counting threads alike. */
#include "kernels/cuda/cuda.cuh"

enum {
    SORT_THREADS = 256,
    SORT_EACH = 8,
    SORT_BLOCK = SORT_THREADS * SORT_EACH,
    DIGIT_BITS = 4,
    DIGITS = 1 << DIGIT_BITS
};
enum { TOKEN_BITS = 20, PLACE_THREADS = 1024 };

__device__ __forceinline__ unsigned digit_of(uint64_t row, int shift)
{
    return (unsigned)(row >> (32 + shift)) % DIGITS;
}

__global__ void sort_fill(uint64_t *rows, const int32_t *tokens, int64_t N)
{
    const int64_t n = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (n < N) rows[n] = (uint64_t)(uint32_t)tokens[n] << 32 | (uint64_t)n;
}

/* counts [DIGITS, blocks] */
__global__ void __launch_bounds__(SORT_THREADS) sort_count(uint32_t *counts, const uint64_t *rows, int64_t N, int shift)
{
    __shared__ uint16_t own[DIGITS][SORT_THREADS];
    const int64_t first = (int64_t)blockIdx.x * SORT_BLOCK + (int64_t)threadIdx.x * SORT_EACH;
    for (int d = 0; d < DIGITS; d++) own[d][threadIdx.x] = 0;
    for (int64_t n = first; n < first + SORT_EACH && n < N; n++) own[digit_of(rows[n], shift)][threadIdx.x]++;
    __syncthreads();
    if (threadIdx.x >= DIGITS) return;
    uint32_t sum = 0;
    for (int t = 0; t < SORT_THREADS; t++) sum += own[threadIdx.x][t];
    counts[(int64_t)threadIdx.x * gridDim.x + blockIdx.x] = sum;
}

/* Counts become how many stand before: one block, each thread a stretch of them. */
__global__ void __launch_bounds__(PLACE_THREADS) sort_places(uint32_t *counts, int n)
{
    __shared__ uint32_t room[2][PLACE_THREADS];
    const int t = (int)threadIdx.x, each = (n + PLACE_THREADS - 1) / PLACE_THREADS;
    uint32_t sum = 0;
    for (int i = t * each; i < (t + 1) * each && i < n; i++) sum += counts[i];
    int from = 0;
    room[0][t] = sum;
    __syncthreads();
    for (int reach = 1; reach < PLACE_THREADS; reach *= 2, from = !from) {
        room[!from][t] = room[from][t] + (t >= reach ? room[from][t - reach] : 0);
        __syncthreads();
    }
    uint32_t before = room[from][t] - sum;
    for (int i = t * each; i < (t + 1) * each && i < n; i++) {
        const uint32_t count = counts[i];
        counts[i] = before;
        before += count;
    }
}

__global__ void __launch_bounds__(SORT_THREADS)
    sort_move(uint64_t *to, const uint64_t *rows, const uint32_t *places, int64_t N, int shift)
{
    __shared__ uint16_t own[DIGITS][SORT_THREADS];
    const int64_t first = (int64_t)blockIdx.x * SORT_BLOCK + (int64_t)threadIdx.x * SORT_EACH;
    for (int d = 0; d < DIGITS; d++) own[d][threadIdx.x] = 0;
    for (int64_t n = first; n < first + SORT_EACH && n < N; n++) own[digit_of(rows[n], shift)][threadIdx.x]++;
    __syncthreads();
    if (threadIdx.x < DIGITS) { /* how many of the digit are in threads before */
        uint16_t sum = 0;
        for (int t = 0; t < SORT_THREADS; t++) {
            const uint16_t count = own[threadIdx.x][t];
            own[threadIdx.x][t] = sum;
            sum = (uint16_t)(sum + count);
        }
    }
    __syncthreads();
    for (int64_t n = first; n < first + SORT_EACH && n < N; n++) {
        const unsigned digit = digit_of(rows[n], shift);
        to[places[(int64_t)digit * gridDim.x + blockIdx.x] + own[digit][threadIdx.x]++] = rows[n];
    }
}

const uint64_t *sort_tokens(struct device_stream *stream, const int32_t *tokens, int64_t N, void *scratch)
{
    uint64_t *rows = (uint64_t *)scratch, *other = rows + N;
    uint32_t *counts = (uint32_t *)(other + N);
    const unsigned blocks = blocks_for(N, SORT_BLOCK);
    launch(stream, "sort_fill", sort_fill, blocks_for(N, 256), 256, 0, rows, tokens, N);
    for (int shift = 0; shift < TOKEN_BITS; shift += DIGIT_BITS) {
        launch(stream, "sort_count", sort_count, blocks, SORT_THREADS, 0, counts, rows, N, shift);
        launch(stream, "sort_places", sort_places, 1, PLACE_THREADS, 0, counts, (int)blocks * DIGITS);
        launch(stream, "sort_move", sort_move, blocks, SORT_THREADS, 0, other, rows, counts, N, shift);
        uint64_t *const swap = rows;
        rows = other;
        other = swap;
    }
    return rows;
}
