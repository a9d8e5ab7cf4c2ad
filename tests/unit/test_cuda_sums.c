/* Numbers of whole arrays on the GPU: reductions over ranks, which have the CPU's bits in every pair of types; sums of squares, and
 * means, which are the CPU's to within the order of their additions, and the same in every run. */
#include "tests/support/gpu_check.h"

static void reductions(struct gpu *gpu)
{
    enum { SOURCES = 5, N = 1003 };
    static const struct reduce_factors factors[] = {{1, 1}, {1, 1.0f / 5}, {0.3f, 0.7f}};
    struct error err;
    for (int c = 0; c < 3 * 3 * 3 * 2 * 2; c++) {
        const enum dtype from = (enum dtype)(c % 3), to = (enum dtype)(c / 3 % 3);
        const bool accumulate = c / 27 % 2, inside = c / 54 && from == to; /* into one of its sources */
        struct array sources[SOURCES], kept;
        const void *host[SOURCES], *device[SOURCES];
        for (int s = 0; s < SOURCES; s++) {
            array_new(gpu, &sources[s], from, N, 0);
            array_normal(&sources[s], (uint64_t)s, 1);
            array_begin(gpu, &sources[s]);
            host[s] = sources[s].host, device[s] = sources[s].device;
        }
        array_new(gpu, &kept, to, N, 0);
        array_normal(&kept, SOURCES, 1);
        array_begin(gpu, &kept);
        struct array *into = inside ? &sources[2] : &kept;
        char *found = malloc((size_t)into->bytes);
        checked(device_reduce(gpu->stream, from, to, into->device, device, SOURCES, &factors[c / 9 % 3], N, accumulate,
                              &err),
                &err);
        array_read(gpu, into, found);
        gpu_wait(gpu);
        kernels_reduce(from, to, into->host, host, SOURCES, &factors[c / 9 % 3], N, accumulate);
        if (memcmp(found, into->host, (size_t)into->bytes))
            fault("%s to %s, accumulate %d: other bits", dtype_name(from), dtype_name(to), accumulate);
        free(found);
        for (int s = 0; s < SOURCES; s++) array_free(&sources[s]);
        array_free(&kept);
    }
    tested("reduce: the CPU's bits, every pair of types");
}

static void sums(struct gpu *gpu)
{
    static const int64_t lengths[] = {1, 9, 16383, 16385, 70001};
    for (int l = 0; l < 5; l++)
        for (int c = 0; c < 6; c++) {
            struct array x;
            array_new(gpu, &x, (enum dtype)(c % 3), lengths[l], c < 3 ? 0 : 4);
            array_normal(&x, 3, 1);
            array_begin(gpu, &x);
            const double expected = kernels_sum_squares(gpu->reference, x.dtype, x.host, x.n);
            const double found = kernels_sum_squares(gpu->kernels, x.dtype, x.device, x.n);
            if (!(fabs(found / expected - 1) < 1e-12))
                fault("sum of %lld squares: %.17g, the CPU's %.17g", (long long)x.n, found, expected);
            if (gpu_is_fake()) fake_set_order(FAKE_RANDOM);
            if (found != kernels_sum_squares(gpu->kernels, x.dtype, x.device, x.n))
                fault("a second sum has other bits");
            if (x.dtype == DTYPE_F32) {
                float mean = 0, other = 0;
                kernels_mean_to(gpu->reference, &mean, (float *)x.host, x.n);
                kernels_mean_to(gpu->kernels, &other, (float *)x.device, x.n);
                if (!(fabsf(mean - other) <= 1e-7f * (1 + fabsf(mean))))
                    fault("mean %.9g, the CPU's %.9g", other, mean);
            }
            array_free(&x);
        }
    tested("sum_squares and mean");
}

int main(void)
{
    struct gpu gpu;
    if (!gpu_open(&gpu)) return 0;
    reductions(&gpu);
    sums(&gpu);
    gpu_close(&gpu);
    return tests_end();
}
