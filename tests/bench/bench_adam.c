/* The optimizer's update on the host, against memory itself: bytes per second of one AdamW pass over arrays that no cache
 * holds, beside a kernel in the manner of STREAM with the same streams (it reads a 16-bit gradient and three fp32 arrays,
 * writes these in place and a 16-bit copy) and next to no arithmetic. Both in turn, so that a busy moment weighs on both; the
 * figure is the median of the ratios.
 *
 * The block quantizers in the same way, on one thread and the widest instructions: a kernel that reads and writes the same bytes in the
 * same order, and does nothing else, is the bound. Here the figures are those of each one's fastest round, in processor time. Their arrays
 * have 64 million elements at least: smaller ones lie partly in caches, where the bound is too high for memory.
 *
 *     bench_adam [-n MILLION_ELEMENTS] [-t THREADS] [-r ROUNDS] */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "kernels/kernels.h"

enum { STREAMED_BYTES = 2 + 3 * 4 + 3 * 4 + 2, ROUNDS_MAX = 64 }; /* an element: read, read, written, written */

struct arrays {
    uint16_t *gradient, *parameters;
    float *master, *first, *second;
    int64_t n;
};

static void *room(int64_t bytes)
{
    void *at = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) exit(1);
    madvise(at, (size_t)bytes, MADV_HUGEPAGE);
    memset(at, 0, (size_t)bytes);
    return at;
}

/* ---- the kernel in the manner of STREAM ---- */

struct share {
    pthread_t thread;
    const struct arrays *arrays;
    int64_t first, end;
};

/* Sixteen elements at a time, as many as a line holds; compilers make vectors of it. */
#if defined(__x86_64__)
__attribute__((target_clones("avx512f", "avx2", "default")))
#endif
__attribute__((optimize("O3"))) static void
stream(const struct arrays *a, int64_t first, int64_t end)
{
    const uint16_t *restrict g = a->gradient;
    float *restrict p = a->master, *restrict m = a->first, *restrict v = a->second;
    uint16_t *restrict to = a->parameters;
    for (int64_t i = first; i < end; i++) {
        const uint32_t wide = (uint32_t)g[i] << 16;
        float x;
        memcpy(&x, &wide, sizeof x);
        m[i] += x;
        v[i] += x;
        p[i] += x;
        uint32_t bits;
        memcpy(&bits, &p[i], sizeof bits);
        to[i] = (uint16_t)(bits >> 16);
    }
}

static void *stream_share(void *argument)
{
    const struct share *share = argument;
    stream(share->arrays, share->first, share->end);
    return NULL;
}

static uint64_t time_stream(const struct arrays *arrays, int threads)
{
    struct share shares[64];
    const uint64_t begin_ns = clock_ns();
    for (int t = 0; t < threads; t++) {
        shares[t] = (struct share){0, arrays, arrays->n * t / threads, arrays->n * (t + 1) / threads};
        if (t) pthread_create(&shares[t].thread, NULL, stream_share, &shares[t]);
    }
    stream_share(&shares[0]);
    for (int t = 1; t < threads; t++) pthread_join(shares[t].thread, NULL);
    return clock_ns() - begin_ns;
}

/* ---- ours ---- */

static uint64_t time_update(struct kernels *kernels, const struct arrays *a)
{
    const struct update_factors factors = {1, 0, 0.9999f, 0.9f, 0.1f, 0.95f, 0.05f, 1e-3f, 1, 1e-8f, false};
    const struct update_arrays arrays = {a->gradient, a->master, {a->first, a->second}, a->parameters};
    const uint64_t begin_ns = clock_ns();
    kernels_update(kernels, OPTIMIZER_ADAMW, &factors, DTYPE_BF16, DTYPE_BF16, &arrays, a->n);
    return clock_ns() - begin_ns;
}

static int ascending(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, ascending);
    return values[count / 2];
}

static void bench(const struct arrays *arrays, const char *isa, int threads, int rounds)
{
    struct kernels *kernels;
    double ours[ROUNDS_MAX], memory[ROUNDS_MAX], ratio[ROUNDS_MAX], bytes = STREAMED_BYTES * (double)arrays->n;
    if (kernels_create(&kernels, threads, isa, NULL)) return; /* this processor lacks it */
    time_update(kernels, arrays);
    for (int r = 0; r < rounds; r++) {
        const uint64_t before_ns = time_stream(arrays, threads), ours_ns = time_update(kernels, arrays),
                       after_ns = time_stream(arrays, threads);
        memory[r] = 2 * bytes / (double)(before_ns + after_ns);
        ours[r] = bytes / (double)ours_ns;
        ratio[r] = ours[r] / memory[r];
    }
    printf("%-7s %d thread%s  update %6.2f GB/s   streams %6.2f GB/s   ratio %.3f\n", kernels_isa(kernels), threads,
           threads == 1 ? " " : "s", median(ours, rounds), median(memory, rounds), median(ratio, rounds));
    kernels_free(kernels);
}

/* ---- block quantizers ---- */

enum { QUANTIZE, DEQUANTIZE, SUM, QUANTIZERS, SOURCES = 4, QUANTIZED_LEAST = 64000000 };

struct quantizer {
    int what, bits;
    enum dtype dtype;
    char *numbers, *arrays[SOURCES];
    int64_t n;
};

/* Reads and writes so many bytes, block by block as the quantizers do. */
#if defined(__x86_64__)
__attribute__((target_clones("avx512f", "avx2", "default")))
#endif
__attribute__((optimize("O3"))) static void
move_bytes(uint64_t *restrict to, int64_t written, const uint64_t *restrict from, int64_t read, int64_t blocks)
{
    uint64_t sum[8] = {0};
    for (int64_t b = 0; b < blocks; b++, from += read / 8, to += written / 8) {
        for (int64_t i = 0; i + 8 <= read / 8; i += 8) {
            __builtin_prefetch(from + i + 512);
            for (int k = 0; k < 8; k++) sum[k] += from[i + k];
        }
        for (int64_t i = 0; i + 8 <= written / 8; i += 8)
            for (int k = 0; k < 8; k++) to[i + k] = sum[k];
    }
}

static uint64_t time_bytes(const struct quantizer *q)
{
    const int64_t numbers = QUANT_BLOCK * dtype_bytes(q->dtype), integers = QUANT_BLOCK * q->bits / 8,
                  blocks = q->n / QUANT_BLOCK;
    const uint64_t begin_ns = clock_worked_ns();
    if (q->what == QUANTIZE) move_bytes((void *)q->arrays[1], integers, (void *)q->numbers, numbers, blocks);
    else if (q->what == DEQUANTIZE) move_bytes((void *)q->numbers, numbers, (void *)q->arrays[0], integers, blocks);
    else /* the sources lie one behind the other */
        move_bytes((void *)q->numbers, numbers, (void *)q->arrays[0], SOURCES * integers, blocks);
    return clock_worked_ns() - begin_ns;
}

static enum dtype form_of(int bits)
{
    return bits == 8 ? DTYPE_Q8 : DTYPE_Q4;
}

static uint64_t time_quantizer(const struct quantizer *q)
{
    const uint64_t begin_ns = clock_worked_ns();
    struct quantize_error error = {0};
    if (q->what == QUANTIZE) kernels_quantize(form_of(q->bits), q->arrays[0], q->dtype, q->numbers, q->n, NULL, &error);
    else if (q->what == DEQUANTIZE) kernels_dequantize(q->dtype, q->numbers, form_of(q->bits), q->arrays[0], q->n);
    else
        kernels_reduce(form_of(q->bits), q->dtype, q->numbers, (const void *const *)q->arrays, SOURCES,
                       &(struct reduce_factors){1, 0.25f}, q->n, false);
    return clock_worked_ns() - begin_ns;
}

static void bench_quantizer(const struct quantizer *q, int rounds)
{
    static const char *const names[QUANTIZERS] = {"quantize", "dequantize", "sum of 4"};
    uint64_t ours_ns = UINT64_MAX, bound_ns = UINT64_MAX, ns;
    const double bytes = (double)(q->n * dtype_bytes(q->dtype)) +
                         (q->what == SUM ? SOURCES : 1) * (double)dtype_array_bytes(form_of(q->bits), q->n);
    for (int r = 0; r < rounds; r++) {
        if ((ns = time_bytes(q)) < bound_ns) bound_ns = ns;
        if ((ns = time_quantizer(q)) < ours_ns) ours_ns = ns;
    }
    printf("%-7s 1 thread   %-10s %s int%d %6.2f GB/s   bound %6.2f GB/s   ratio %.3f\n", kernels_widest_isa(),
           names[q->what], dtype_name(q->dtype), q->bits, bytes / (double)ours_ns, bytes / (double)bound_ns,
           (double)bound_ns / (double)ours_ns);
}

/* About normal, as gradients are: blocks have different scales. */
static void fill(const struct quantizer *q)
{
    uint64_t random = 1;
    for (int64_t i = 0; i < q->n; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        int sum = 0;
        for (int k = 0; k < 8; k++) sum += (int)((random ^ random >> 29) >> 8 * k & 255);
        const float x = (float)(sum - 1020) * 1e-3f;
        memcpy(q->numbers + i * dtype_bytes(q->dtype), (const char *)&x + 4 - dtype_bytes(q->dtype),
               (size_t)dtype_bytes(q->dtype));
    }
}

/* Every quantizer, over arrays that no cache holds. */
static void bench_quantizers(int64_t n, int rounds)
{
    struct quantizer q = {.numbers = room(4 * n), .n = n / QUANT_BLOCK * QUANT_BLOCK};
    const int64_t apart = dtype_array_bytes(DTYPE_Q8, n);
    q.arrays[0] = room(SOURCES * apart);
    for (int s = 1; s < SOURCES; s++) q.arrays[s] = q.arrays[0] + s * apart;
    for (q.dtype = DTYPE_F32; q.dtype <= DTYPE_BF16; q.dtype++)
        for (q.bits = 8; q.bits >= 4; q.bits -= 4)
            for (q.what = 0; q.what < QUANTIZERS; q.what++) {
                struct quantize_error error = {0};
                fill(&q);
                for (int s = 0; s < SOURCES; s++)
                    kernels_quantize(form_of(q.bits), q.arrays[s], q.dtype, q.numbers, q.n, NULL, &error);
                bench_quantizer(&q, rounds);
            }
    munmap(q.numbers, (size_t)(4 * n));
    munmap(q.arrays[0], (size_t)(SOURCES * apart));
}

int main(int argc, char **argv)
{
    int64_t n = 16;
    int threads = 0, rounds = 9, option;
    while ((option = getopt(argc, argv, "n:t:r:")) > 0) {
        if (option == 'n') n = atoll(optarg);
        else if (option == 't') threads = atoi(optarg);
        else if (option == 'r') rounds = atoi(optarg);
        else return 2;
    }
    if (rounds < 1 || rounds > ROUNDS_MAX || n < 1 || threads > 64) return 2;
    n *= 1000000;
    struct arrays arrays = {room(2 * n), room(2 * n), room(4 * n), room(4 * n), room(4 * n), n};
    for (int64_t i = 0; i < n; i++) arrays.gradient[i] = (uint16_t)(0x3c00 + i % 61); /* small and positive */
    static const char *const isas[] = {"avx512", "avx2", "plain"};
    for (int i = 0; i < 3; i++)
        for (int t = threads ? threads : 1; t <= (threads ? threads : 2); t++) bench(&arrays, isas[i], t, rounds);
    bench_quantizers(n > QUANTIZED_LEAST ? n : QUANTIZED_LEAST, rounds);
    return 0;
}
