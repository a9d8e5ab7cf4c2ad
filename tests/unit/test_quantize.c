/* The block quantizers: against a plain account in double, on every instruction set this processor has, at lengths around the ends
 * of blocks, at odd starts, and with blocks that are as awkward as numbers can be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <float.h>
#include <string.h>

#include "engine/base/dtype.h"
#include "kernels/cpu/isa.h"
#include "tests/support/kernels_fixture.h"

enum { N_MAX = 1100, ROOM = 4 * N_MAX + 64, GUARD = 0x5a };

static int64_t blocks_of(int64_t n)
{
    return (n + QUANT_BLOCK - 1) / QUANT_BLOCK;
}

static enum dtype form_of(int bits)
{
    return bits == 8 ? DTYPE_Q8 : DTYPE_Q4;
}

static int64_t bytes_of(int bits, int64_t n)
{
    return dtype_array_bytes(form_of(bits), n);
}

static const uint8_t *block_at(int bits, const void *array, int64_t i)
{
    return (const uint8_t *)array + i / QUANT_BLOCK * (4 + QUANT_BLOCK * bits / 8);
}

/* Integer i of an array, read as the layout says, apart from the kernels. */
static int integer_at(int bits, const void *array, int64_t i)
{
    const uint8_t *integers = block_at(bits, array, i) + 4;
    const int64_t place = i % QUANT_BLOCK;
    if (bits == 8) return (int8_t)integers[place];
    const int half = place % 2 ? integers[place / 2] & 15 : integers[place / 2] >> 4;
    return half < 8 ? half : half - 16;
}

static float scale_at(int bits, const void *array, int64_t i)
{
    float scale;
    memcpy(&scale, block_at(bits, array, i), sizeof scale);
    return scale;
}

static float number_at(int bits, const void *array, int64_t i)
{
    return (float)integer_at(bits, array, i) * scale_at(bits, array, i);
}

/* ---- awkward blocks --------------------------------------------------------------------------------------------------- */

enum {
    ZEROS,
    NORMAL,
    ONE_HUGE,
    DENORMALS,
    BOTH_ENDS,
    NOT_FINITE,
    NEVER_FINITE,
    TIES,
    LARGEST,
    SMALLEST,
    NARROW,
    WIDE,
    KINDS
};

static float largest_of(enum dtype dtype)
{
    return dtype == DTYPE_F16 ? 65504 : dtype == DTYPE_BF16 ? 0x1.fep127f : FLT_MAX;
}

static float smallest_of(enum dtype dtype)
{
    return dtype == DTYPE_F16 ? 0x1p-24f : dtype == DTYPE_BF16 ? 0x1p-133f : 0x1p-149f;
}

static float awkward(int kind, enum dtype dtype, int bits, int64_t i)
{
    const float g = (float)normal(7, (uint64_t)kind, (uint64_t)i), most = bits == 8 ? 127 : 7;
    const uint64_t random = rng_u64(9, (uint64_t)kind, (uint64_t)i);
    switch (kind) {
    case ZEROS: return i % 2 ? -0.0f : 0;
    case ONE_HUGE: return i % 300 == 7 ? -largest_of(dtype) / 3 : g * 1e-3f;
    case DENORMALS: return g * 37 * smallest_of(dtype);
    case BOTH_ENDS: return i % QUANT_BLOCK == 0 ? 3 : i % QUANT_BLOCK == QUANT_BLOCK - 1 ? -3 : g / 2;
    case NOT_FINITE: return random % 5 == 0 ? NAN : random % 5 == 1 ? INFINITY : random % 5 == 2 ? -INFINITY : g;
    case NEVER_FINITE: return i % 2 ? NAN : INFINITY;
    case TIES: { /* half-way between two integers of scale 3 / 128, and beside that */
        const float scale = 0.0234375f, tie = ((float)(random % (uint64_t)most) + 0.5f) * scale;
        const float near = random >> 32 & 1 ? nextafterf(tie, INFINITY) : random >> 33 & 1 ? nextafterf(tie, 0) : tie;
        return i % QUANT_BLOCK == 3 ? most * scale : random >> 34 & 1 ? near : -near;
    }
    case LARGEST: return i % 2 ? largest_of(dtype) : -largest_of(dtype) * (float)(random % 100) / 100;
    case SMALLEST: return (float)(random % 3) * smallest_of(dtype);
    case NARROW: return ldexpf(g, -118 - (int)(i / QUANT_BLOCK) * 9); /* scales around the smallest normal number */
    case WIDE: return ldexpf(g, (int)(random % 40) - 20);
    default: return g;
    }
}

static void *awkward_numbers(int kind, enum dtype dtype, int bits, int64_t n, int offset)
{
    char *all = malloc(ROOM);
    for (int64_t i = 0; i < n; i++) {
        const float x = awkward(kind, dtype, bits, i);
        if (x != x && dtype == DTYPE_BF16)
            ((uint16_t *)all)[offset + i] = 0x7fc0; /* float_to_bf16() rounds numbers alone */
        else element_put(dtype, all, offset + i, x);
    }
    return all;
}

/* ---- one array, against the account ------------------------------------------------------------------------------------ */

static void check_block(int bits, enum dtype dtype, const void *x, int64_t first, int64_t n,
                        const void *array, struct quantize_error *expected)
{
    const double most = bits == 8 ? 127 : 7;
    double peak = 0, squares = 0, of_squares = 0, scale = scale_at(bits, array, first);
    for (int64_t i = first; i < first + n; i++) {
        const float value = element_at(dtype, x, i);
        if (isfinite(value)) peak = fmax(peak, fabs((double)value));
    }
    assert_true(scale >= peak / most * (1 - 0x1p-9) &&
                scale <= peak / most * (1 + 0x1p-22) + (scale < 0x1p-126 ? 0x1p-149 : 0));
    assert_true(scale < 0x1p-126 || scale >= peak / most * (1 - 0x1p-13));
    for (int64_t i = first; i < first + n; i++) {
        const float value = element_at(dtype, x, i);
        const int q = integer_at(bits, array, i);
        assert_in_range(q + (int)most, 0, 2 * (int)most);
        if (!isfinite(value)) {
            assert_int_equal(q, 0);
            expected->not_finite++;
            continue;
        }
        const double error = fabs(value - q * scale);
        if (!(error <= scale / 2))
            fail_msg("int%d of %s: %a with scale %a became %d: error %a", bits, dtype_name(dtype), value, scale, q,
                     error);
        expected->largest = fmax(expected->largest, error);
        squares += error * error;
        of_squares += (double)value * value;
    }
    expected->squares += squares;
    expected->of_squares += of_squares;
}

static void check_array(int bits, enum dtype dtype, const void *x, int64_t n, const uint8_t *array,
                        const struct quantize_error *error)
{
    struct quantize_error expected = {0};
    double unit = 0;
    for (int64_t first = 0; first < n; first += QUANT_BLOCK) {
        check_block(bits, dtype, x, first, n - first < QUANT_BLOCK ? n - first : QUANT_BLOCK, array, &expected);
        unit += (double)scale_at(bits, array, first) * scale_at(bits, array, first) * QUANT_BLOCK;
    }
    const int64_t bytes = bytes_of(bits, n), rest = n % QUANT_BLOCK;
    const uint8_t *last = block_at(bits, array, n);
    for (int64_t b = 4 + (rest * bits + 7) / 8; rest && b < array + bytes - last; b++) assert_int_equal(last[b], 0);
    if (bits == 4 && n % 2) assert_int_equal(last[4 + rest / 2] & 15, 0);
    for (int64_t b = bytes; b < bytes + 16; b++) assert_int_equal(array[b], GUARD);
    assert_true(error->largest == expected.largest);
    assert_int_equal(error->not_finite, expected.not_finite);
    assert_true(fabs(error->squares - expected.squares) <= 1e-4 * expected.squares + 1e-9 * unit);
    assert_true(fabs(error->of_squares - expected.of_squares) <= 1e-5 * expected.of_squares + 1e-9 * unit);
}

/* Quantizes n numbers, which lie `offset` elements beyond an aligned address, on every instruction set. */
static void check_quantize(int bits, enum dtype dtype, int kind, int64_t n, int offset)
{
    uint8_t *arrays[2];
    struct quantize_error errors[2];
    void *all = awkward_numbers(kind, dtype, bits, n, offset);
    const void *x = (char *)all + offset * dtype_bytes(dtype);
    int count = 0;
    for (int s = 0; s <= ISAS; s++) {
        const struct isa *isa = s < ISAS ? isa_named(isas[s]) : NULL;
        if (s < ISAS && !isa) continue;
        const int k = count++ > 0;
        arrays[k] = malloc(ROOM);
        memset(arrays[k], GUARD, ROOM);
        errors[k] = (struct quantize_error){0};
        if (s == ISAS) kernels_quantize(form_of(bits), arrays[k], dtype, x, n, NULL, &errors[k]);
        else {
            const struct quantize_args a = {dtype, form_of(bits), arrays[k], x, n, NULL, &errors[k]};
            memset(arrays[k], 0, (size_t)bytes_of(bits, n));
            isa->quantize(&a, 0, blocks_of(n), 0);
        }
        check_array(bits, dtype, x, n, arrays[k], &errors[k]);
        if (k) {
            assert_memory_equal(arrays[0], arrays[1], ROOM);
            assert_memory_equal(&errors[0], &errors[1], sizeof errors[0]);
            free(arrays[1]);
        }
    }
    free(arrays[0]);
    free(all);
}

static void errors_are_half_a_scale_at_most(void **state)
{
    (void)state;
    for (int bits = 4; bits <= 8; bits += 4)
        for (enum dtype dtype = DTYPE_F32; dtype <= DTYPE_F16; dtype++)
            for (int kind = 0; kind < KINDS; kind++)
                for (int64_t n = 1; n <= N_MAX; n += n < 36 || (n > 500 && n < 530) || (n > 1020 && n < 1030) ? 1 : 53)
                    check_quantize(bits, dtype, kind, n, (int)(n % 3));
}

/* Every 16-bit peak of a binade, and beside it the elements next to the middle of any two integers. No error is told to be the largest,
 * so none is looked at while blocks are quantized. */
static void no_element_beside_a_tie_is_off(void **state)
{
    (void)state;
    for (int bits = 4; bits <= 8; bits += 4)
        for (enum dtype dtype = DTYPE_BF16; dtype <= DTYPE_F16; dtype++)
            for (int peak = 0; peak < (dtype == DTYPE_F16 ? 1024 : 128); peak++) {
                const int most = bits == 8 ? 127 : 7, one = dtype == DTYPE_F16 ? 0x3c00 : 0x3f80;
                uint16_t x[QUANT_BLOCK] = {(uint16_t)(one + peak)}, tie;
                uint8_t array[4 + QUANT_BLOCK];
                struct quantize_error error = {.largest = INFINITY};
                kernels_quantize(form_of(bits), array, dtype, x, QUANT_BLOCK, NULL, &error);
                const float scale = scale_at(bits, array, 0);
                for (int k = 0; k < most; k++) {
                    element_put(dtype, &tie, 0, ((float)k + 0.5f) * scale);
                    for (int beside = 0; beside < 3; beside++) x[1 + 3 * k + beside] = (uint16_t)(tie - 1 + beside);
                }
                kernels_quantize(form_of(bits), array, dtype, x, QUANT_BLOCK, NULL, &error);
                assert_true(scale_at(bits, array, 0) == scale && error.largest == INFINITY);
                for (int i = 0; i < QUANT_BLOCK; i++)
                    assert_true(fabs((double)element_at(dtype, x, i) - (double)number_at(bits, array, i)) <= scale / 2);
            }
}

/* Bochs does not round to fp16 as processors do (tests/bench/avx512.sh). There only those instruction sets are compared that leave this to
 * the same instruction. */
static bool rounds_itself(enum dtype to)
{
    return to == DTYPE_F16 && getenv("NO_HALVES");
}

/* ---- back again --------------------------------------------------------------------------------------------------------- */

static void *quantized(int bits, uint64_t stream, int64_t n)
{
    struct quantize_error error = {0};
    float *x = numbers(DTYPE_F32, stream, n, 1);
    void *array = malloc((size_t)bytes_of(bits, n));
    kernels_quantize(form_of(bits), array, DTYPE_F32, x, n, NULL, &error);
    free(x);
    return array;
}

/* y [i] must be the sum over arrays, in `to`; `old` is what y held (NULL: it was not added to). */
static void check_sum(int bits, enum dtype to, const void *y, const void *old, const void *const *arrays, int count,
                      int64_t n, float factor)
{
    for (int64_t i = 0; i < n; i++) {
        float sum = number_at(bits, arrays[0], i), expected[1];
        for (int a = 1; a < count; a++)
            sum = fmaf((float)integer_at(bits, arrays[a], i), scale_at(bits, arrays[a], i), sum);
        element_put(to, expected, 0, sum * factor);
        if (old) element_put(to, expected, 0, element_at(to, old, i) + element_at(to, expected, 0));
        assert_memory_equal((const char *)y + i * dtype_bytes(to), expected, dtype_bytes(to));
    }
}

static void any_length_is_dequantized(void **state)
{
    (void)state;
    for (int bits = 4; bits <= 8; bits += 4)
        for (enum dtype to = DTYPE_F32; to <= DTYPE_F16 && !rounds_itself(to); to++)
            for (int64_t n = 1; n <= N_MAX; n += n < 36 || (n > 500 && n < 530) || (n > 1020 && n < 1030) ? 1 : 53) {
                const int64_t element = dtype_bytes(to);
                const void *array = quantized(bits, 20, n);
                char y[ROOM];
                memset(y, GUARD, sizeof y);
                kernels_dequantize(to, y + element, form_of(bits), array, n);
                check_sum(bits, to, y + element, NULL, &array, 1, n, 1);
                for (int64_t b = 0; b < element; b++) assert_int_equal(y[b], GUARD);
                for (int64_t b = 0; b < 32; b++) assert_int_equal(y[(n + 1) * element + b], GUARD);
                free((void *)array);
            }
}

static void sums_are_in_order_and_round_once(void **state)
{
    (void)state;
    const struct reduce_factors factors = {1, 0.3f};
    const void *arrays[5];
    for (int bits = 4; bits <= 8; bits += 4)
        for (enum dtype to = DTYPE_F32; to <= DTYPE_F16; to++)
            for (int64_t n = 500; n <= 530; n++) {
                for (int a = 0; a < 5; a++) arrays[a] = quantized(bits, 30 + (uint64_t)a, n);
                for (int count = 1; count <= 5; count++)
                    for (int accumulate = 0; accumulate < 2; accumulate++) {
                        void *old = numbers(to, 40, n, 1);
                        char kept[ROOM];
                        for (int s = 0, begun = 0; s < ISAS; s++) {
                            const struct isa *isa = isa_named(isas[s]);
                            char y[ROOM];
                            if (!isa || (rounds_itself(to) && isa == &isa_plain)) continue;
                            memcpy(y, old, (size_t)(n * dtype_bytes(to)));
                            const struct dequantize_args a = {to, form_of(bits), y, arrays, count, n, 0.3f, accumulate};
                            isa->dequantize(&a, 0, blocks_of(n), 0);
                            if (begun++) assert_memory_equal(y, kept, n * dtype_bytes(to));
                            else if (!rounds_itself(to)) check_sum(bits, to, y, accumulate ? old : NULL, arrays, count, n, 0.3f);
                            memcpy(kept, y, sizeof kept);
                        }
                        kernels_reduce(form_of(bits), to, old, arrays, count, &factors, n, accumulate);
                        assert_memory_equal(old, kept, n * dtype_bytes(to));
                        free(old);
                    }
                for (int a = 0; a < 5; a++) free((void *)arrays[a]);
            }
}

/* A sum that is quantized again is that of its fp32 elements. */
static void sums_become_blocks_again(void **state)
{
    (void)state;
    const struct reduce_factors factors = {1, 0.5f};
    for (int64_t n = 500; n <= N_MAX; n += 97) {
        const void *arrays[2] = {quantized(4, 30, n), quantized(4, 31, n)};
        uint8_t *blocks = malloc(ROOM), *expected = malloc(ROOM);
        float *sum = malloc(ROOM);
        struct quantize_error error = {0};
        kernels_reduce(DTYPE_Q4, DTYPE_Q4, blocks, arrays, 2, &factors, n, false);
        kernels_reduce(DTYPE_Q4, DTYPE_F32, sum, arrays, 2, &factors, n, false);
        kernels_quantize(DTYPE_Q4, expected, DTYPE_F32, sum, n, NULL, &error);
        assert_memory_equal(blocks, expected, bytes_of(4, n));
        free((void *)arrays[0]), free((void *)arrays[1]), free(blocks), free(expected), free(sum);
    }
}

/* What was dequantized is quantized without an error: in fp32 whatever the scale, in 16 bits where the numbers fit. */
static void a_second_time_changes_nothing(void **state)
{
    (void)state;
    for (int bits = 4; bits <= 8; bits += 4)
        for (enum dtype dtype = DTYPE_F32; dtype <= DTYPE_F16; dtype++)
            for (int kind = 0; kind < KINDS; kind++) {
                const bool fits = dtype == DTYPE_F32 && kind != SMALLEST && kind != DENORMALS; /* scales above 2^-141 */
                void *x = awkward_numbers(fits ? kind : BOTH_ENDS, DTYPE_F32, bits, N_MAX, 0), *y = malloc(ROOM);
                uint8_t *first = malloc(ROOM), *second = malloc(ROOM);
                struct quantize_error error = {0}, again = {0};
                if (!fits) /* scales of 2 */
                    for (int i = 0; i < N_MAX; i++)
                        ((float *)x)[i] = i % QUANT_BLOCK == 1 ? (bits == 8 ? 254.0f : 14) : (float)(i % 13);
                kernels_quantize(form_of(bits), first, DTYPE_F32, x, N_MAX, NULL, &error);
                kernels_dequantize(dtype, y, form_of(bits), first, N_MAX);
                kernels_quantize(form_of(bits), second, dtype, y, N_MAX, NULL, &again);
                assert_memory_equal(first, second, bytes_of(bits, N_MAX));
                assert_true(again.largest == 0 && again.not_finite == 0);
                free(x), free(y), free(first), free(second);
            }
}

/* ---- error feedback ------------------------------------------------------------------------------------------------------ */

/* Three steps with feedback, each against the same made of plain calls and arithmetic in fp32. */
static void check_feedback(int bits, enum dtype dtype, int kind, int64_t n)
{
    const float beta = 0.8f, share = 1 - beta;
    uint8_t *array = malloc(ROOM), *expected = malloc(ROOM);
    uint16_t *e = malloc(ROOM), *expected_e = malloc(ROOM);
    float *y = malloc(ROOM);
    memset(e, GUARD, ROOM); /* what a feedback that begins anew does not read */
    for (int step = 0; step < 3; step++) {
        void *x = awkward_numbers(step == 1 ? NORMAL : kind, dtype, bits, n, 0);
        struct quantize_error error = {0}, plain = {0};
        kernels_quantize(form_of(bits), array, dtype, x, n, &(struct quantize_feedback){e, beta, step == 0}, &error);
        for (int64_t i = 0; i < n; i++) {
            const float old = step ? element_at(DTYPE_BF16, expected_e, i) : 0;
            y[i] = element_at(dtype, x, i) + old;
        }
        kernels_quantize(form_of(bits), expected, DTYPE_F32, y, n, NULL, &plain);
        assert_memory_equal(array, expected, bytes_of(bits, n));
        assert_memory_equal(&error, &plain, sizeof plain);
        for (int64_t i = 0; i < n; i++) {
            const float old = step ? element_at(DTYPE_BF16, expected_e, i) : 0, now = isfinite(y[i]) ? y[i] : 0;
            element_put(DTYPE_BF16, expected_e, i, old * beta + (now - number_at(bits, expected, i)) * share);
        }
        assert_memory_equal(e, expected_e, n * 2);
        free(x);
    }
    free(array), free(e), free(expected), free(expected_e), free(y);
}

static void feedback_is_a_moving_average_of_errors(void **state)
{
    (void)state;
    for (int bits = 4; bits <= 8; bits += 4)
        for (enum dtype dtype = DTYPE_F32; dtype <= DTYPE_F16; dtype++)
            for (int kind = 0; kind < KINDS; kind++)
                for (int64_t n = 1; n <= N_MAX; n += n < 20 || n > 505 ? 73 : 27) check_feedback(bits, dtype, kind, n);
}

/* The mean of what is sent for one gradient, over many steps, approaches that gradient; without feedback it does not. */
static void feedback_removes_the_bias(void **state)
{
    (void)state;
    enum { N = 700, STEPS = 400 };
    uint8_t array[ROOM];
    uint16_t e[N];
    float *x = numbers(DTYPE_F32, 50, N, 1);
    double sum[N] = {0}, with = 0, without = 0;
    struct quantize_error error = {0};
    for (int step = 0; step < STEPS; step++) {
        kernels_quantize(DTYPE_Q4, array, DTYPE_F32, x, N, &(struct quantize_feedback){e, 0.8f, step == 0}, &error);
        for (int i = 0; i < N; i++) sum[i] += number_at(4, array, i);
    }
    kernels_quantize(DTYPE_Q4, array, DTYPE_F32, x, N, NULL, &error);
    for (int i = 0; i < N; i++) {
        with += fabs(sum[i] / STEPS - x[i]);
        without += fabs(number_at(4, array, i) - x[i]);
    }
    if (!(with < without / 8)) fail_msg("mean error %.3g with feedback, %.3g without", with / N, without / N);
    free(x);
}

static void sizes_are_whole_words(void **state)
{
    (void)state;
    assert_int_equal(dtype_array_bytes(DTYPE_Q8, 0), 0);
    assert_int_equal(dtype_array_bytes(DTYPE_Q8, 1), 4 + 4);
    assert_int_equal(dtype_array_bytes(DTYPE_Q4, 33), 4 + 20);
    assert_int_equal(dtype_array_bytes(DTYPE_Q4, 2049), 4 * 260 + 4 + 4);
    assert_int_equal(dtype_array_bytes(DTYPE_Q8, 4 * QUANT_BLOCK), 4 * 516);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_are_half_a_scale_at_most),
        cmocka_unit_test(no_element_beside_a_tie_is_off),
        cmocka_unit_test(any_length_is_dequantized),
        cmocka_unit_test(sums_are_in_order_and_round_once),
        cmocka_unit_test(sums_become_blocks_again),
        cmocka_unit_test(a_second_time_changes_nothing),
        cmocka_unit_test(feedback_is_a_moving_average_of_errors),
        cmocka_unit_test(feedback_removes_the_bias),
        cmocka_unit_test(sizes_are_whole_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
