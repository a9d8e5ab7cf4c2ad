/* What programs that test a GPU share: opening one, arrays that lie both on the host and on the device, and TAP. They run on a real
 * GPU, and with `make CUDA=fake` on a CUDA device emulated on the CPU (fake_cuda); they need no test library, because a machine
 * with a GPU may have none. */
#pragma once

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/cuda/device.h"
#include "kernels/kernels.h"
#include "kernels/scratch.h"
#include "tests/support/elements.h"
#include "tests/support/fake_cuda/fake.h"

struct gpu {
    struct device *device;
    struct device_stream *stream;
    struct kernels *kernels, *reference; /* the GPU's; the CPU's */
};

static int gpu_tests, gpu_failures;
static char gpu_fault[1024]; /* what the test that runs now has found; "": nothing */

static inline void gpu_die(const struct error *err)
{
    if (gpu_fault[0]) printf("# %s\n", gpu_fault);
    printf("# this ends here: %s\n", err->text);
    exit(1);
}

/* The first fault counts. */
__attribute__((format(printf, 1, 2))) static inline void fault(const char *format, ...)
{
    va_list args;
    if (gpu_fault[0]) return;
    va_start(args, format);
    vsnprintf(gpu_fault, sizeof gpu_fault, format, args);
    va_end(args);
}

static inline void checked(int status, const struct error *err)
{
    if (status) fault("%s", err->text);
}

__attribute__((format(printf, 1, 2))) static inline void tested(const char *format, ...)
{
    va_list args;
    printf("%s %d - ", gpu_fault[0] ? "not ok" : "ok", ++gpu_tests);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\n");
    if (gpu_fault[0]) printf("# %s\n", gpu_fault), gpu_failures++;
    gpu_fault[0] = 0;
    fflush(stdout);
}

static inline int tests_end(void)
{
    printf("1..%d\n", gpu_tests);
    return gpu_failures > 0;
}

static inline bool gpu_is_fake(void)
{
    return fake_set_order != NULL;
}

/* Of the CPU's kernels, which need scratch for each. Beside the fake device, which keeps the processors busy, one; or as many as
 * REFERENCE_THREADS says. */
static inline int gpu_reference_threads(void)
{
    const char *asked = getenv("REFERENCE_THREADS");
    return asked ? atoi(asked) : gpu_is_fake() ? 1 : (int)sysconf(_SC_NPROCESSORS_ONLN);
}

/* Scratch for attention and its backward, in fp32, on whichever side needs more. */
static inline int64_t gpu_attention_scratch_elems(int64_t B, int64_t T, int64_t C, int64_t NH)
{
    const int64_t cpu = attention_backward_scratch_bytes(T, C / NH) * gpu_reference_threads(),
                  gpu = attention_backward_scratch_cuda_bytes(B, T, NH);
    return (cpu > gpu ? cpu : gpu) / 4;
}

/* False, having said so in TAP: there is no GPU. */
static inline bool gpu_open(struct gpu *gpu)
{
    struct error err;
    if (device_count() == 0) {
        char text[128];
        device_build_text(text, sizeof text);
        printf("1..0 # SKIP no GPU here (%s)\n", text);
        return false;
    }
    if (device_open(&gpu->device, 0, &err) || device_stream_create(&gpu->stream, gpu->device, "tests", &err) ||
        kernels_create_cuda(&gpu->kernels, gpu->device, gpu->stream, &err) ||
        kernels_create(&gpu->reference, gpu_reference_threads(), NULL, &err))
        gpu_die(&err);
    printf("# %s\n", device_info(gpu->device)->name);
    printf("# attention by %s\n", kernels_cuda_groups(gpu->kernels, true) ? "warpgroups" : "warps");
    return true;
}

static inline void gpu_close(struct gpu *gpu)
{
    kernels_free(gpu->reference);
    kernels_free(gpu->kernels);
    device_stream_destroy(gpu->stream);
    device_close(gpu->device);
}

static inline void gpu_wait(const struct gpu *gpu)
{
    struct error err;
    if (device_stream_wait(gpu->stream, &err)) gpu_die(&err);
}

/* ---- arrays on both sides ------------------------------------------------------------------------------------------------ */

struct array {
    enum dtype dtype;
    int64_t n, bytes;
    char *host, *initial; /* what the CPU works on; what both begin with */
    char *device;         /* ends where the committed pages of the range end, to within 16 bytes */
    struct device_range range;
};

/* shift: bytes that the array lies away from a border of 16. */
static inline void array_new(struct gpu *gpu, struct array *array, enum dtype dtype, int64_t n, int shift)
{
    struct error err;
    *array = (struct array){.dtype = dtype, .n = n, .bytes = n * dtype_bytes(dtype)};
    array->host = malloc((size_t)array->bytes + 64);
    array->initial = malloc((size_t)array->bytes + 64);
    if (device_range_reserve(&array->range, gpu->device, (uint64_t)array->bytes + 32, &err) ||
        device_range_commit(&array->range, 0, array->range.bytes, &err))
        gpu_die(&err);
    array->device = (char *)array->range.base + array->range.bytes - (array->bytes + shift + 15) / 16 * 16 + shift;
}

/* Roughly normal: four uniform numbers added, quickly, because arrays are large. */
static inline float array_number(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    x ^= x >> 31;
    const int sum = (int)(x & 0xffff) + (int)(x >> 16 & 0xffff) + (int)(x >> 32 & 0xffff) + (int)(x >> 48);
    return (float)(sum - 2 * 65535) * (1.7320508f / 65535); /* a uniform number's variance is 1/12 */
}

static inline void array_normal(struct array *array, uint64_t number, float scale)
{
#pragma omp parallel for
    for (int64_t i = 0; i < array->n; i++)
        element_put(array->dtype, array->initial, i, scale * array_number((number + 1) << 40 | (uint64_t)i));
}

static inline void array_begin(const struct gpu *gpu, struct array *array)
{
    struct error err;
    memcpy(array->host, array->initial, (size_t)array->bytes);
    if (device_copy(gpu->stream, array->device, array->initial, (uint64_t)array->bytes, &err)) gpu_die(&err);
}

static inline void array_read(const struct gpu *gpu, const struct array *array, void *into)
{
    struct error err;
    if (device_copy(gpu->stream, into, array->device, (uint64_t)array->bytes, &err)) gpu_die(&err);
}

static inline void array_free(struct array *array)
{
    device_range_release(&array->range);
    free(array->host), free(array->initial);
}

/* One not-a-number is like another. */
static inline bool array_same_bits(const struct array *array, const char *a, const char *b)
{
    const int bytes = dtype_bytes(array->dtype);
    if (memcmp(a, b, (size_t)array->bytes) == 0) return true;
    for (int64_t i = 0; i < array->n; i++)
        if (memcmp(a + i * bytes, b + i * bytes, (size_t)bytes) &&
            !(isnan(element_at(array->dtype, a, i)) && isnan(element_at(array->dtype, b, i))))
            return false;
    return true;
}

/* How far what was found is from what is expected. */
/* How far neighbours are apart, at most, for their size; in fp32 sums are long and count for more. */
static inline double unit(enum dtype dtype)
{
    return dtype == DTYPE_BF16 ? 0x1p-7 : dtype == DTYPE_F16 ? 0x1p-10 : dtype == DTYPE_F32 ? 1e-5 : 0;
}

/* How many of them a single element may be away; what is wrong altogether is further, and would not be seen among millions. */
enum { UNITS_OF_ELEMENT = 64 };

struct distance {
    double whole;   /* size of the difference over the size of what is expected */
    double largest; /* of any element: its difference over its size and the usual size of an element */
};

/* Infinite where one is infinite or not a number and the other is not. */
static inline struct distance array_distance(const struct array *array, const void *found, const void *expected)
{
    const enum dtype dtype = array->dtype;
    double delta = 0, whole = 0, largest = 0;
#pragma omp parallel for reduction(+ : whole)
    for (int64_t i = 0; i < array->n; i++) {
        const double e = element_at(dtype, expected, i);
        if (isfinite(e)) whole += e * e;
    }
    const double usual = sqrt(whole / (double)array->n) + 1e-30;
#pragma omp parallel for reduction(+ : delta) reduction(max : largest)
    for (int64_t i = 0; i < array->n; i++) {
        const double f = element_at(dtype, found, i), e = element_at(dtype, expected, i);
        const bool alike = isnan(e) ? isnan(f) : isinf(e) ? f == e : isfinite(f);
        const double d = !alike ? INFINITY : isfinite(e) ? fabs(f - e) : 0;
        delta += d * d;
        if (d > 0) largest = fmax(largest, alike ? d / (fabs(e) + usual) : INFINITY);
    }
    return (struct distance){sqrt(delta / (whole + 1e-30)), largest};
}

/* Which elements are apart by more than `limit` times their size and the usual size of an element, for who is to find out why: how
 * many, the first and the worst of them, each with its place in rows of so many columns. `limit` 0: that are not equal. */
static inline const char *array_faults(const struct array *array, const void *found, const void *expected,
                                       int64_t columns, double limit)
{
    static char text[400];
    const enum dtype dtype = array->dtype;
    int64_t count = 0, first = -1, worst = -1;
    double whole = 0, largest = -1;
    for (int64_t i = 0; limit > 0 && i < array->n; i++) whole += pow(element_at(dtype, expected, i), 2);
    const double usual = limit > 0 ? sqrt(whole / (double)array->n) : 0;
    for (int64_t i = 0; i < array->n; i++) {
        const double f = element_at(dtype, found, i), e = element_at(dtype, expected, i);
        const double d = f == e || (isnan(f) && isnan(e)) ? 0
                         : isfinite(f - e)                ? fabs(f - e) / (fabs(e) + usual)
                                                          : INFINITY;
        if (!(d > limit)) continue;
        if (count++ == 0) first = i;
        if (d > largest) worst = i, largest = d;
    }
    if (count == 0) return "no single element stands out";
    snprintf(text, sizeof text,
             "%lld of %lld elements; the first in row %lld, column %lld: %.9g, expected %.9g; the worst in row %lld, "
             "column %lld: %.9g, expected %.9g",
             (long long)count, (long long)array->n, (long long)(first / columns), (long long)(first % columns),
             element_at(dtype, found, first), element_at(dtype, expected, first), (long long)(worst / columns),
             (long long)(worst % columns), element_at(dtype, found, worst), element_at(dtype, expected, worst));
    return text;
}
