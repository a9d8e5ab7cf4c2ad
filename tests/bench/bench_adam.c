/* The optimizer's update on the host, against memory itself: bytes per second of one AdamW pass over arrays that no cache
 * holds, beside a kernel in the manner of STREAM with the same streams (it reads a 16-bit gradient and three fp32 arrays,
 * writes these in place and a 16-bit copy) and next to no arithmetic. Both in turn, so that a busy moment weighs on both; the
 * figure is the median of the ratios.
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
    return 0;
}
