/* What is looked at first on a GPU: attention on its smallest shapes, one more step of size at a time, by warps (mma) and by warpgroups
 * (wgmma), each against the CPU, with the worst element's place and values whether it is wrong or not. So the first minute tells which
 * kernel is wrong, from which shape on, and in which tile, row and column. "test_cuda_first broken" is about this program: of one shape
 * the warpgroups' out and dk are made wrong in one element each, which must be named. */
#include "tests/support/gpu_apart.h"

/* A tile's part, a tile, one row beyond, several tiles of queries and keys, heads that are padded. */
static const struct attention_shape shapes[] = {
    {1, 1, 64, 1},    {1, 16, 64, 1},   {1, 64, 64, 1},   {1, 65, 64, 1}, {1, 128, 64, 1},
    {2, 129, 128, 2}, {1, 321, 128, 2}, {1, 128, 128, 1}, {1, 70, 40, 1}, {1, 257, 256, 2},
};
enum { SHAPES = sizeof shapes / sizeof *shapes, TYPES = 2, TESTS = SHAPES * TYPES, WAYS = 2 };
static const char *const way_names[WAYS] = {"warps (mma)", "warpgroups (wgmma)"};

/* In bf16; sequence 1, token 5, head 1, column 3. */
enum { BROKEN_TEST = 5 * TYPES, BROKEN_TOKEN = 129 + 5, BROKEN_COLUMN = 64 + 3, BF16_SIXTEEN = 0x4180 };
static bool broken;

enum { QKV, DOUT, OUT, LSE, DQKV, SCRATCH, ARRAYS };

struct worst {
    int64_t at;
    double off; /* of the element's size and the usual size, in units of the type */
    float found, expected;
};

static struct worst worst_of(const struct array *array, const char *found, const char *expected)
{
    struct worst worst = {0, -1, 0, 0};
    double whole = 0;
    for (int64_t i = 0; i < array->n; i++) whole += pow(element_at(array->dtype, expected, i), 2);
    const double usual = sqrt(whole / (double)array->n) + 1e-30;
    for (int64_t i = 0; i < array->n; i++) {
        const double f = element_at(array->dtype, found, i), e = element_at(array->dtype, expected, i);
        const double off = isfinite(f) ? fabs(f - e) / (fabs(e) + usual) / unit(array->dtype) : INFINITY;
        if (off > worst.off) worst = (struct worst){i, off, (float)f, (float)e};
    }
    return worst;
}

/* "worst 0.5 units, at sequence 0, token 63, head 0, column 5: 0.123, expected 0.124"; parts: 3 of dqkv, 1 of out */
static void say(const char *what, int parts, const struct attention_shape *s, const struct worst *worst)
{
    static const char *const names[] = {"dq ", "dk ", "dv "};
    const int64_t row = worst->at / s->C, token = row / parts, column = worst->at % s->C, size = s->C / s->NH;
    printf("#   %-34s worst %8.3g units, at %ssequence %d, token %d, head %d, column %d: %.6g, expected %.6g\n", what,
           worst->off, parts == 3 ? names[row % 3] : "", (int)(token / s->T), (int)(token % s->T), (int)(column / size),
           (int)(column % size), (double)worst->found, (double)worst->expected);
}

static void arrays_make(struct gpu *gpu, struct array *arrays, const struct attention_shape *s, enum dtype dtype)
{
    const int64_t N = (int64_t)s->B * s->T;
    const int64_t sizes[ARRAYS] = {3 * N * s->C, N * s->C,     N * s->C,
                                   N * s->NH,    3 * N * s->C, gpu_attention_scratch_elems(s->B, s->T, s->C, s->NH)};
    for (int a = 0; a < ARRAYS; a++) {
        array_new(gpu, &arrays[a], a == LSE || a == SCRATCH ? DTYPE_F32 : dtype, sizes[a], 0);
        array_normal(&arrays[a], (uint64_t)a, 1);
        array_begin(gpu, &arrays[a]);
    }
}

/* On the GPU by one way; out and dqkv are copied to `found`. */
static void attend(struct gpu *gpu, struct array *arrays, const struct attention_shape *s, enum dtype dtype,
                   char *const found[2])
{
    struct error err;
    for (int a = 0; a < ARRAYS; a++) array_begin(gpu, &arrays[a]);
    kernels_attention_forward(gpu->kernels, dtype, arrays[OUT].device, (float *)arrays[LSE].device, arrays[QKV].device,
                              s, arrays[SCRATCH].device);
    kernels_attention_backward(gpu->kernels, dtype, arrays[DQKV].device, arrays[DOUT].device, arrays[OUT].device,
                               (float *)arrays[LSE].device, arrays[QKV].device, s, arrays[SCRATCH].device);
    checked(kernels_check(gpu->kernels, &err), &err);
    gpu_wait(gpu);
    array_read(gpu, &arrays[OUT], found[0]);
    array_read(gpu, &arrays[DQKV], found[1]);
}

/* most: units of all elements together that test_cuda_kernels allows, for each of the sides that a GPU computed. */
static void compare(const char *what, const struct array *array, int parts, const struct attention_shape *s,
                    const char *found, const char *expected, double most)
{
    const struct worst worst = worst_of(array, found, expected);
    const double whole = array_distance(array, found, expected).whole / unit(array->dtype);
    say(what, parts, s, &worst);
    if (worst.off > UNITS_OF_ELEMENT) fault("%s is away by %.3g units; allowed %d", what, worst.off, UNITS_OF_ELEMENT);
    if (!(whole <= most)) fault("%s is away by %.3g units altogether; allowed %g", what, whole, most);
}

static void test_shape(struct gpu *gpu, const struct attention_shape *s, enum dtype dtype)
{
    struct array arrays[ARRAYS];
    char *found[WAYS][2], what[64];
    const bool grouped = kernels_cuda_groups(gpu->kernels, true);
    arrays_make(gpu, arrays, s, dtype);
    kernels_attention_forward(gpu->reference, dtype, arrays[OUT].host, (float *)arrays[LSE].host, arrays[QKV].host, s,
                              arrays[SCRATCH].host);
    kernels_attention_backward(gpu->reference, dtype, arrays[DQKV].host, arrays[DOUT].host, arrays[OUT].host,
                               (float *)arrays[LSE].host, arrays[QKV].host, s, arrays[SCRATCH].host);
    char *expected[2] = {malloc((size_t)arrays[OUT].bytes), malloc((size_t)arrays[DQKV].bytes)};
    memcpy(expected[0], arrays[OUT].host, (size_t)arrays[OUT].bytes);
    memcpy(expected[1], arrays[DQKV].host, (size_t)arrays[DQKV].bytes);
    for (int way = 0; way < WAYS; way++) {
        for (int i = 0; i < 2; i++) found[way][i] = malloc((size_t)arrays[i ? DQKV : OUT].bytes);
        if (way && !grouped) continue;
        kernels_cuda_groups(gpu->kernels, way == 1);
        attend(gpu, arrays, s, dtype, found[way]);
        for (int i = 0; i < 2 && way && broken; i++)
            ((uint16_t *)(void *)found[way][i])[(i ? 3 * BROKEN_TOKEN + 1 : BROKEN_TOKEN) * s->C + BROKEN_COLUMN] = BF16_SIXTEEN;
        for (int i = 0; i < 2; i++) {
            snprintf(what, sizeof what, "%s, %s", i ? "backward" : "forward", way_names[way]);
            compare(what, &arrays[i ? DQKV : OUT], i ? 3 : 1, s, found[way][i], expected[i], i ? 0.75 : 0.5);
        }
    }
    for (int i = 0; i < 2 && grouped; i++)
        compare(i ? "backward, wgmma against mma" : "forward, wgmma against mma", &arrays[i ? DQKV : OUT], i ? 3 : 1, s,
                found[1][i], found[0][i], i ? 1.5 : 1);
    for (int i = 0; i < 2; i++) free(expected[i]), free(found[0][i]), free(found[1][i]);
    for (int a = 0; a < ARRAYS; a++) array_free(&arrays[a]);
    kernels_cuda_groups(gpu->kernels, true);
}

static bool work(int first, void (*say_next)(int, const char *))
{
    struct gpu gpu;
    if (!gpu_open(&gpu)) return false;
    for (int t = first; t < TESTS; t++) {
        const struct attention_shape *s = &shapes[t / TYPES];
        const enum dtype dtype = t % TYPES ? DTYPE_F16 : DTYPE_BF16;
        char name[128];
        if (broken && t != BROKEN_TEST) continue;
        snprintf(name, sizeof name, "attention, %s, B %d, T %d, %d heads of %d", dtype_name(dtype), s->B, s->T, s->NH,
                 s->C / s->NH);
        say_next(t, name);
        test_shape(&gpu, s, dtype);
        tested("%s", name);
    }
    gpu_close(&gpu);
    return true;
}

int main(int argc, char **argv)
{
    broken = argc > 1 && strcmp(argv[1], "broken") == 0;
    return tests_run_apart(TESTS, gpu_is_fake() ? 300 : 20, work);
}
