/* What benchmarks of a GPU share: medians of runs timed by events, and areas that are filled anew before each run and looked at after
 * it. Products of what another kernel has left behind (NaN, zeros) take another time than those of numbers. */
#pragma once

#include "tests/support/gpu_check.h"

enum { BENCH_RUNS = 9, BENCH_LAUNCHES = 4, PATTERN_BYTES = 2 << 20 };

/* What an area holds: bf16 or fp32 between -0.5 and 0.5; fp32 from 0 on; or what its owner has put there, which is left alone. */
enum area_kind { AREA_BF16, AREA_FLOATS, AREA_POSITIVE, AREA_OWN };
struct area {
    enum area_kind kind;
    int64_t bytes;
    char *at;
};

struct bench_gpu {
    struct gpu gpu;
    struct device_range memory;
    char *pattern[2]; /* signed, and not negative */
    struct device_event *begin, *end;
    double *sum; /* pinned */
};

static inline void must(int status, const struct error *err)
{
    if (status) gpu_die(err);
}

/* The upper half of an fp32 is a bf16, so one pattern serves both. */
static inline void bench_patterns(struct bench_gpu *bench)
{
    struct error err;
    uint16_t *host = malloc(PATTERN_BYTES);
    if (!host) exit(1);
    for (int p = 0; p < 2; p++) {
        for (int64_t i = 0; i < PATTERN_BYTES / 2; i++) {
            const int number = (int)(i * 2654435761u >> 8 & 1023) - 512;
            host[i] = float_to_bf16((float)(p ? abs(number) : number) / 1024);
        }
        must(device_copy(bench->gpu.stream, bench->pattern[p], host, PATTERN_BYTES, &err), &err);
        gpu_wait(&bench->gpu);
    }
    free(host);
}

/* False, having said so: there is no GPU. The areas' addresses are set. */
static inline bool bench_open(struct bench_gpu *bench, struct area *areas, int count)
{
    struct error err;
    const int64_t border = 2 << 20;
    int64_t bytes = 2 * PATTERN_BYTES;
    if (!gpu_open(&bench->gpu)) return false;
    for (int a = 0; a < count; a++) bytes += (areas[a].bytes + border - 1) / border * border;
    must(device_range_reserve(&bench->memory, bench->gpu.device, (uint64_t)bytes, &err), &err);
    must(device_range_commit(&bench->memory, 0, bench->memory.bytes, &err), &err);
    char *next = (char *)bench->memory.base;
    for (int p = 0; p < 2; p++, next += PATTERN_BYTES) bench->pattern[p] = next;
    for (int a = 0; a < count; next += (areas[a].bytes + border - 1) / border * border, a++) areas[a].at = next;
    must(device_event_create(&bench->begin, bench->gpu.device, &err), &err);
    must(device_event_create(&bench->end, bench->gpu.device, &err), &err);
    bench->sum = aligned_alloc(4096, 4096);
    must(device_pin(bench->gpu.device, bench->sum, 4096, &err), &err);
    bench_patterns(bench);
    return true;
}

static inline void bench_close(struct bench_gpu *bench)
{
    struct error err;
    device_event_destroy(bench->begin), device_event_destroy(bench->end);
    must(device_unpin(bench->gpu.device, bench->sum, &err), &err);
    free(bench->sum);
    device_range_release(&bench->memory);
    gpu_close(&bench->gpu);
}

static inline void areas_fill(struct bench_gpu *bench, const struct area *areas, int count)
{
    struct error err;
    for (int a = 0; a < count; a++)
        for (int64_t done = 0, part; areas[a].kind != AREA_OWN && done < areas[a].bytes; done += part) {
            part = areas[a].bytes - done < PATTERN_BYTES ? areas[a].bytes - done : PATTERN_BYTES;
            must(device_copy(bench->gpu.stream, areas[a].at + done, bench->pattern[areas[a].kind == AREA_POSITIVE],
                             (uint64_t)part, &err),
                 &err);
        }
    gpu_wait(&bench->gpu);
}

static inline bool areas_are_finite(struct bench_gpu *bench, const struct area *areas, int count)
{
    for (int a = 0; a < count; a++) {
        const enum dtype dtype = areas[a].kind == AREA_BF16 ? DTYPE_BF16 : DTYPE_F32;
        if (areas[a].kind == AREA_OWN) continue;
        kernels_sum_squares_to(bench->gpu.kernels, dtype, bench->sum, areas[a].at, areas[a].bytes / dtype_bytes(dtype));
        gpu_wait(&bench->gpu);
        if (!isfinite(*bench->sum)) return false;
    }
    return true;
}

static inline int bench_by_size(const void *a, const void *b)
{
    return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

/* The median of several runs, each of several launches one after the other. */
static inline double bench_seconds(struct bench_gpu *bench, void (*run)(void *user), void *user)
{
    struct error err;
    double seconds[BENCH_RUNS];
    run(user);
    for (int r = 0; r < BENCH_RUNS; r++) {
        uint64_t ns;
        must(device_event_record(bench->begin, bench->gpu.stream, &err), &err);
        for (int l = 0; l < BENCH_LAUNCHES; l++) run(user);
        must(device_event_record(bench->end, bench->gpu.stream, &err), &err);
        must(device_event_wait(bench->end, &err), &err);
        must(device_event_between(bench->begin, bench->end, &ns, &err), &err);
        seconds[r] = (double)ns * 1e-9 / BENCH_LAUNCHES;
    }
    must(kernels_check(bench->gpu.kernels, &err), &err);
    qsort(seconds, BENCH_RUNS, sizeof *seconds, bench_by_size);
    return seconds[BENCH_RUNS / 2];
}
