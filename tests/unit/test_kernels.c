/* Each kernel by itself: against a plain double-precision account of the same thing, on every instruction set this processor has,
 * on one thread and on three, and at odd lengths and misaligned starts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <string.h>

#include "tests/support/kernels_fixture.h"

/* ---- casts -------------------------------------------------------------------------------------------------------- */

static void bf16_rounds_to_nearest_even(void **state)
{
    (void)state;
    static const uint32_t bits[] = {0x3f800000, 0x3f807fff, 0x3f808000, 0x3f808001, 0x3f818000, 0xbf818000,
                                    0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000, 0x7fffffff, 0xff800001,
                                    0x00000001, 0x0000ffff, 0x80008000, 0x00000000};
    static const uint16_t expected[] = {0x3f80, 0x3f80, 0x3f80, 0x3f81, 0x3f82, 0xbf82, 0x7f80, 0xff80,
                                        0x7f80, 0xff80, 0x7fff, 0xffc0, 0x0000, 0x0001, 0x8000, 0x0000};
    for (int s = 0; s < ISAS; s++) {
        struct kernels *kernels = kernels_on(isas[s], 1);
        uint16_t found[16];
        float back[16];
        if (!kernels) continue;
        kernels_cast(kernels, DTYPE_BF16, found, DTYPE_F32, bits, 16);
        assert_memory_equal(found, expected, sizeof expected);
        kernels_cast(kernels, DTYPE_F32, back, DTYPE_BF16, found, 16);
        for (int i = 0; i < 16; i++) assert_true(bf16_to_float(found[i]) == back[i] || isnan(back[i]));
        kernels_free(kernels);
    }
}

/* Every fp16 number, and the floats around and half-way between any two neighbours, against the compiler's conversion. */
static void fp16_rounds_as_the_compiler_does(void **state)
{
    (void)state;
    enum { HALVES = 65536, EACH = 8, N = HALVES * EACH };
    uint16_t *halves = malloc(N * sizeof *halves), *first = malloc(N * sizeof *halves);
    float *floats = malloc(N * sizeof *floats), *back = malloc(N * sizeof *back);
    for (int h = 0; h < HALVES; h++) {
        const uint16_t bits[2] = {(uint16_t)h, (uint16_t)(h + 1)};
        const float low = element_at(DTYPE_F16, bits, 0), high = element_at(DTYPE_F16, bits, 1);
        const float half_way = isfinite(low) && isfinite(high) ? low / 2 + high / 2 : copysignf(65520, low);
        const float around[EACH] = {low,
                                    nextafterf(low, INFINITY),
                                    nextafterf(low, -INFINITY),
                                    half_way,
                                    nextafterf(half_way, INFINITY),
                                    nextafterf(half_way, -INFINITY),
                                    low * 1e5f,
                                    low * 1e-6f};
        memcpy(floats + h * EACH, around, sizeof around);
    }
    for (int s = 0, begun = 0; s < ISAS; s++) {
        struct kernels *kernels = kernels_on(isas[s], 1);
        if (!kernels) continue;
        kernels_cast(kernels, DTYPE_F16, halves, DTYPE_F32, floats, N);
        kernels_cast(kernels, DTYPE_F32, back, DTYPE_F16, halves, N);
        for (int64_t i = 0; i < N; i++) {
            uint16_t expected;
            element_put(DTYPE_F16, &expected, 0, floats[i]);
            const float wide = element_at(DTYPE_F16, &expected, 0);
            if (isnan(wide)) assert_true(isnan(back[i]));
            else assert_true(memcmp(&expected, &halves[i], 2) == 0 && memcmp(&wide, &back[i], 4) == 0);
        }
        if (begun++) assert_memory_equal(first, halves, N * sizeof *halves); /* NaNs too */
        else memcpy(first, halves, N * sizeof *halves);
        kernels_free(kernels);
    }
    free(halves), free(first), free(floats), free(back);
}

/* ---- elementwise kernels: position, alignment, threads ------------------------------------------------------------- */

enum { ELEMENTWISE_N = 9001, ELEMENTWISE_OTHERS = 5, ELEMENTWISE_KERNELS = ELEMENTWISE_OTHERS + OPTIMIZERS };

struct elementwise {
    enum dtype dtype;
    char *gradient, *x, *master, *m, *v, *y;
};

/* Every elementwise kernel over [first, first + n), results into y, master, m, v. */
static void run_elementwise(struct kernels *kernels, int which, const struct elementwise *e, int64_t first, int64_t n)
{
    static const struct update_factors factors = {0.5f,  0.01f, 0.999f, 0.9f,  0.1f, 0.95f,
                                                  0.05f, 1e-2f, 2.5f,   1e-8f, true};
    const int64_t at = first * dtype_bytes(e->dtype);
    const struct update_arrays arrays = {
        e->gradient + at, (float *)e->master + first, {(float *)e->m + first, (float *)e->v + first}, e->y + at};
    const void *sources[3] = {e->x + at, e->gradient + at, e->y + at};
    switch (which) {
    case 0: kernels_gelu_forward(kernels, e->dtype, e->y + at, e->x + at, n); break;
    case 1: kernels_gelu_backward(kernels, e->dtype, e->y + at, e->gradient + at, e->x + at, n); break;
    case 2:
        kernels_reduce(e->dtype, e->dtype, e->y + at, sources, 3, &(struct reduce_factors){0.3f, 0.7f}, n, true);
        break;
    case 3:
        kernels_reduce(e->dtype, e->dtype, e->y + at, sources, 3, &(struct reduce_factors){1, 1.0f / 3}, n, false);
        break;
    case 4: kernels_cast(kernels, DTYPE_F32, e->master + first * 4, e->dtype, e->x + at, n); break;
    default: kernels_update(kernels, which - ELEMENTWISE_OTHERS, &factors, e->dtype, e->dtype, &arrays, n);
    }
}

/* The same numbers, `shift` bytes away from alignment. */
static struct elementwise elementwise_new(enum dtype dtype, int shift)
{
    struct elementwise e = {.dtype = dtype};
    char **arrays[] = {&e.gradient, &e.x, &e.master, &e.m, &e.v, &e.y};
    for (int i = 0; i < 6; i++) {
        *arrays[i] = (char *)aligned_alloc(64, (4 * ELEMENTWISE_N + 256) / 64 * 64) + shift;
        for (int64_t j = 0; j < ELEMENTWISE_N; j++)
            element_put(i >= 2 && i <= 4 ? DTYPE_F32 : dtype, *arrays[i], j,
                        (float)fabs(normal(4, (uint64_t)i, (uint64_t)j)) * (i == 1 && j % 2 ? -3 : 3));
    }
    return e;
}

static void elementwise_free(struct elementwise *e, int shift)
{
    char *arrays[] = {e->gradient, e->x, e->master, e->m, e->v, e->y};
    for (int i = 0; i < 6; i++) free(arrays[i] - shift);
}

static void bits_ignore_position(void **state)
{
    (void)state;
    static const int64_t cuts[] = {1, 2, 3, 13, 16, 17, 31, 64, 100, 4095, 257};
    for (int s = 0; s < ISAS; s++)
        for (enum dtype dtype = DTYPE_F32; dtype <= DTYPE_F16; dtype++)
            for (int which = 0; which < ELEMENTWISE_KERNELS; which++) {
                struct kernels *one = kernels_on(isas[s], 1), *three = kernels_on(isas[s], 3);
                if (!one) continue;
                const int shift = dtype_bytes(dtype) * 4 + 4;
                struct elementwise whole = elementwise_new(dtype, 0), cut = elementwise_new(dtype, shift);
                run_elementwise(three, which, &whole, 0, ELEMENTWISE_N);
                int64_t first = 0;
                for (int c = 0; first < ELEMENTWISE_N; c = (c + 1) % 11) {
                    const int64_t n = ELEMENTWISE_N - first < cuts[c] ? ELEMENTWISE_N - first : cuts[c];
                    run_elementwise(one, which, &cut, first, n);
                    first += n;
                }
                assert_memory_equal(whole.y, cut.y, ELEMENTWISE_N * dtype_bytes(dtype));
                assert_memory_equal(whole.master, cut.master, ELEMENTWISE_N * 4);
                assert_memory_equal(whole.m, cut.m, ELEMENTWISE_N * 4);
                assert_memory_equal(whole.v, cut.v, ELEMENTWISE_N * 4);
                elementwise_free(&whole, 0);
                elementwise_free(&cut, shift);
                kernels_free(one);
                kernels_free(three);
            }
}

static void reductions_round_once_in_rank_order(void **state)
{
    (void)state;
    uint16_t sources[3][5], into[5];
    static const float values[3][5] = {{1, 256, 1e30f, 0, -3}, {0x1p-8f, 1, -1e30f, 0, 1}, {0x1p-9f, 1, 1, 3, 5}};
    const void *at[3] = {sources[0], sources[1], sources[2]};
    const struct reduce_factors mean = {1, 1.0f / 3}, split = {0.3f, 0.7f};
    for (int r = 0; r < 3; r++)
        for (int i = 0; i < 5; i++) sources[r][i] = float_to_bf16(values[r][i]);
    kernels_reduce(DTYPE_BF16, DTYPE_BF16, into, at, 3, &split, 5, false); /* each source is rounded after its factor */
    for (int i = 0; i < 5; i++) {
        float sum = 0;
        for (int r = 0; r < 3; r++) sum += bf16_to_float(float_to_bf16(bf16_to_float(sources[r][i]) * 0.3f));
        assert_int_equal(into[i], float_to_bf16(sum * 0.7f));
    }
    kernels_reduce(DTYPE_BF16, DTYPE_BF16, into, at, 3, &mean, 5, false);
    for (int i = 0; i < 5; i++) {
        const float sum = bf16_to_float(sources[0][i]) + bf16_to_float(sources[1][i]) + bf16_to_float(sources[2][i]);
        assert_int_equal(into[i], float_to_bf16(sum * (1.0f / 3)));
    }
    const uint16_t before[5] = {float_to_bf16(300), float_to_bf16(2), 0, 0, float_to_bf16(-1)};
    uint16_t added[5];
    memcpy(added, before, sizeof before);
    kernels_reduce(DTYPE_BF16, DTYPE_BF16, added, at, 3, &mean, 5, true);
    for (int i = 0; i < 5; i++)
        assert_int_equal(added[i], float_to_bf16(bf16_to_float(before[i]) + bf16_to_float(into[i])));
    kernels_reduce(DTYPE_BF16, DTYPE_BF16, sources[1], at, 3, &mean, 5, false); /* into one of its sources */
    assert_memory_equal(sources[1], into, sizeof into);
}

/* The mean is rounded to the type it travelled in, then to the one it is kept in. */
static void reductions_deliver_in_another_type(void **state)
{
    (void)state;
    const float values[2][3] = {{1, 0x1p-9f, 3}, {0x1p-7f, 0x1p-12f, 70000}};
    for (enum dtype from = DTYPE_F32; from <= DTYPE_F16; from++)
        for (enum dtype to = DTYPE_F32; to <= DTYPE_F16; to++)
            for (int accumulate = 0; accumulate < 2; accumulate++) {
                float sources[2][3], travelled[3], kept[3] = {0}, expected[3];
                const void *at[2] = {sources[0], sources[1]};
                for (int i = 0; i < 3; i++) {
                    for (int r = 0; r < 2; r++) element_put(from, sources[r], i, values[r][i]);
                    element_put(from, travelled, i,
                                (element_at(from, sources[0], i) + element_at(from, sources[1], i)) / 2);
                    element_put(to, kept, i, 5);
                    element_put(to, expected, i, element_at(from, travelled, i) + (accumulate ? 5 : 0));
                }
                kernels_reduce(from, to, kept, at, 2, &(struct reduce_factors){1, 0.5f}, 3, accumulate);
                for (int i = 0; i < 3; i++) assert_true(element_at(to, kept, i) == element_at(to, expected, i));
            }
}

static void squares_are_summed_in_double(void **state)
{
    (void)state;
    const int64_t n = 100003;
    for (enum dtype dtype = DTYPE_F32; dtype <= DTYPE_F16; dtype++) {
        void *x = numbers(dtype, 9, n, 1);
        double expected = 0;
        for (int64_t i = 0; i < n; i++) expected += (double)element_at(dtype, x, i) * element_at(dtype, x, i);
        for (int s = 0; s < ISAS; s++) {
            struct kernels *one = kernels_on(isas[s], 1), *three = kernels_on(isas[s], 3);
            if (!one) continue;
            const double found = kernels_sum_squares(one, dtype, x, n);
            assert_close(isas[s], fabs(found / expected - 1), 1e-12);
            assert_true(found == kernels_sum_squares(three, dtype, x, n));
            kernels_free(one);
            kernels_free(three);
        }
        free(x);
    }
}

/* ---- products ------------------------------------------------------------------------------------------------------ */

static void check_linear(struct kernels *kernels, enum dtype dtype, int64_t N, int64_t out, int64_t in)
{
    void *x = numbers(dtype, 1, N * in, 1), *w = numbers(dtype, 2, out * in, 1), *b = numbers(dtype, 3, out, 1);
    void *r = numbers(dtype, 4, N * out, 1), *dy = numbers(dtype, 5, N * out, 1), *y = numbers(dtype, 6, N * out, 1);
    void *dx = numbers(dtype, 7, N * in, 1), *dw = numbers(dtype, 8, out * in, 1), *db = numbers(dtype, 10, out, 1);
    const int64_t most = N * in + out * in + N * out;
    double *expected = calloc((size_t)most, sizeof *expected);
    struct error err = {0};
#define E(array, i) ((double)element_at(dtype, array, i))
    for (int64_t n = 0; n < N; n++)
        for (int64_t o = 0; o < out; o++) {
            double sum = E(b, o) + E(r, n * out + o);
            for (int64_t i = 0; i < in; i++) sum += E(x, n * in + i) * E(w, o * in + i);
            expected[n * out + o] = sum;
        }
    assert_int_equal(kernels_linear_forward(kernels, dtype, y, x, w, b, r, N, out, in, out, &err), STATUS_OK);
    assert_close("y", relative(dtype, y, expected, N * out), allowed_for(dtype));
    for (int64_t n = 0; n < N * out; n++) expected[n] -= E(b, n % out) + E(r, n);
    assert_int_equal(kernels_linear_forward(kernels, dtype, y, x, w, NULL, NULL, N, out, in, out, &err), STATUS_OK);
    assert_close("y without bias", relative(dtype, y, expected, N * out), allowed_for(dtype));

    for (int64_t n = 0; n < N * out; n++) expected[n] += E(y, n); /* the product is still there, rounded: twice it */
    assert_int_equal(kernels_linear_forward(kernels, dtype, y, x, w, NULL, y, N, out, in, out, &err), STATUS_OK);
    assert_close("y added to itself", relative(dtype, y, expected, N * out), allowed_for(dtype));

    for (int accumulate = 0; accumulate < 2; accumulate++) {
        for (int64_t i = 0; i < N * in; i++) expected[i] = accumulate ? E(dx, i) : 0;
        for (int64_t n = 0; n < N; n++)
            for (int64_t o = 0; o < out; o++)
                for (int64_t i = 0; i < in; i++) expected[n * in + i] += E(dy, n * out + o) * E(w, o * in + i);
        assert_int_equal(kernels_linear_backward_input(kernels, dtype, dx, accumulate, dy, w, N, out, in, out, &err),
                         STATUS_OK);
        assert_close("dx", relative(dtype, dx, expected, N * in), allowed_for(dtype));
    }

    for (int accumulate = 0; accumulate < 2; accumulate++) {
        for (int64_t i = 0; i < out * in; i++) expected[i] = accumulate ? E(dw, i) : 0;
        for (int64_t n = 0; n < N; n++)
            for (int64_t o = 0; o < out; o++)
                for (int64_t i = 0; i < in; i++) expected[o * in + i] += E(dy, n * out + o) * E(x, n * in + i);
        assert_int_equal(kernels_linear_backward_weight(kernels, dtype, dw, accumulate, dy, x, N, out, in, out, &err),
                         STATUS_OK);
        assert_close("dw", relative(dtype, dw, expected, out * in), allowed_for(dtype));
        for (int64_t o = 0; o < out; o++) {
            expected[o] = accumulate ? E(db, o) : 0;
            for (int64_t n = 0; n < N; n++) expected[o] += E(dy, n * out + o);
        }
        kernels_linear_backward_bias(kernels, dtype, db, accumulate, dy, N, out);
        assert_close("db", relative(dtype, db, expected, out), allowed_for(dtype));
    }
#undef E
    free(x), free(w), free(b), free(r), free(dy), free(y), free(dx), free(dw), free(db), free(expected);
}

static void products_are_right(void **state)
{
    (void)state;
    for (int s = 0; s < ISAS; s++) {
        struct kernels *kernels = kernels_on(isas[s], 1 + s % 2);
        if (!kernels) continue;
        for (enum dtype dtype = DTYPE_F32; dtype <= DTYPE_F16; dtype++) {
            check_linear(kernels, dtype, 7, 5, 3);
            check_linear(kernels, dtype, 33, 97, 51);
        }
        /* Beyond the blocks of the converting path (256 x 256 x 512), in each direction. */
        for (enum dtype dtype = DTYPE_BF16; dtype <= DTYPE_F16 && s == 1; dtype++) {
            if (kernels_native_products(kernels, dtype)) continue;
            check_linear(kernels, dtype, 259, 65, 17);
            check_linear(kernels, dtype, 19, 523, 31);
            check_linear(kernels, dtype, 18, 33, 519);
        }
        kernels_free(kernels);
    }
}

/* ---- rows and columns over threads ------------------------------------------------------------------------------------ */

static void threads_do_not_change_bits(void **state)
{
    (void)state;
    enum { N = 301, C = 77, V = 503 };
    for (int s = 0; s < ISAS; s++)
        for (enum dtype dtype = DTYPE_F32; dtype <= DTYPE_F16; dtype++) {
            char *results[2];
            for (int k = 0; k < 2; k++) {
                struct kernels *kernels = kernels_on(isas[s], k ? 3 : 1);
                char *r = results[k] = calloc(1, 4 * (4 * N + 4 * N * C + N * V + 8 * C));
                if (!kernels) continue;
                float *mean = (float *)r, *rstd = mean + N, *losses = rstd + N;
                char *y = (char *)(losses + 2 * N), *dx = y + 4 * N * C, *logits = dx + 4 * N * C,
                     *dw = logits + 4 * N * V, *db = dw + 4 * C, *sums = db + 4 * C;
                void *x = numbers(dtype, 50, N * C, 1), *w = numbers(dtype, 51, C, 1), *b = numbers(dtype, 52, C, 1),
                     *l = numbers(dtype, 53, N * V, 3);
                int32_t targets[N];
                for (int n = 0; n < N; n++) targets[n] = n * 7 % V;
                memcpy(logits, l, (size_t)(N * V * dtype_bytes(dtype)));
                kernels_norm_forward(kernels, dtype, y, mean, rstd, x, w, b, N, C);
                kernels_norm_backward(kernels, dtype, dx, false, y, x, mean, rstd, w, N, C);
                kernels_norm_backward_weights(kernels, dtype, dw, db, true, y, x, mean, rstd, N, C);
                kernels_linear_backward_bias(kernels, dtype, sums, true, y, N, C);
                kernels_loss(kernels, dtype, losses, logits, targets, 0.25f, N, V, V);
                free(x), free(w), free(b), free(l);
                kernels_free(kernels);
            }
            assert_memory_equal(results[0], results[1], 4 * (4 * N + 4 * N * C + N * V + 8 * C));
            free(results[0]), free(results[1]);
        }
}

/* Rows of logits apart, as a GPU has them: products and losses are those of dense rows, and nothing between rows is touched. */
static void rows_of_logits_apart(void **state)
{
    (void)state;
    enum { N = 37, V = 301, C = 64, ROW = 320 };
    for (int s = 0; s < ISAS; s++)
        for (enum dtype dtype = DTYPE_F32; dtype <= DTYPE_F16; dtype++) {
            const size_t element = (size_t)dtype_bytes(dtype);
            struct kernels *kernels = kernels_on(isas[s], 1);
            struct error err;
            if (!kernels) continue;
            char *results[2];
            for (int apart = 0; apart < 2; apart++) {
                const int64_t row = apart ? ROW : V;
                void *x = numbers(dtype, 61, N * C, 1), *wte = numbers(dtype, 62, V * C, 0.1);
                char *logits = malloc(N * ROW * element),
                     *r = results[apart] = calloc(1, 4 * (N + N * V + N * C + V * C));
                char *dense = r + 4 * N, *dx = dense + 4 * N * V, *dwte = dx + 4 * N * C;
                int32_t targets[N];
                for (int n = 0; n < N; n++) targets[n] = n * 7 % V;
                memset(logits, 0x7f, N * ROW * element);
                assert_int_equal(kernels_linear_forward(kernels, dtype, logits, x, wte, NULL, NULL, N, V, C, row, &err),
                                 STATUS_OK);
                kernels_loss(kernels, dtype, (float *)r, logits, targets, 0.25f, N, V, row);
                assert_int_equal(
                    kernels_linear_backward_input(kernels, dtype, dx, false, logits, wte, N, V, C, row, &err),
                    STATUS_OK);
                assert_int_equal(
                    kernels_linear_backward_weight(kernels, dtype, dwte, false, logits, x, N, V, C, row, &err),
                    STATUS_OK);
                for (int n = 0; n < N; n++)
                    memcpy(dense + (size_t)n * V * element, logits + (size_t)(n * row) * element, V * element);
                for (size_t at = V * element; apart && at < N * ROW * element; at++)
                    if (at % (ROW * element) >= V * element) assert_int_equal(logits[at], 0x7f);
                free(x), free(wte), free(logits);
            }
            assert_memory_equal(results[0], results[1], 4 * (N + N * V + N * C + V * C));
            free(results[0]), free(results[1]);
            kernels_free(kernels);
        }
}

static void unknown_instruction_sets_are_refused(void **state)
{
    (void)state;
    struct kernels *kernels = NULL;
    struct error err = {0};
    assert_int_equal(kernels_create(&kernels, 1, "mmx", &err), STATUS_USAGE);
    assert_non_null(strstr(err.text, "mmx"));
    assert_int_equal(kernels_create(&kernels, 0, NULL, &err), STATUS_USAGE);
    assert_null(kernels);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bf16_rounds_to_nearest_even),
        cmocka_unit_test(fp16_rounds_as_the_compiler_does),
        cmocka_unit_test(bits_ignore_position),
        cmocka_unit_test(reductions_round_once_in_rank_order),
        cmocka_unit_test(reductions_deliver_in_another_type),
        cmocka_unit_test(squares_are_summed_in_double),
        cmocka_unit_test(products_are_right),
        cmocka_unit_test(threads_do_not_change_bits),
        cmocka_unit_test(rows_of_logits_apart),
        cmocka_unit_test(unknown_instruction_sets_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
