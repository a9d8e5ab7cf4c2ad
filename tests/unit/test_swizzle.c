/* Tiles as Hopper's tensor cores read them (kernels/cuda/swizzle.h) against the description of the PTX ISA, written down here once
 * more: what a descriptor says, which layout that is, and which element of the tile is found there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kernels/cuda/swizzle.h"

enum { BASE = 3 * 1024, DEPTH = 16 };

struct description {
    uint32_t start, leading, stride, base_offset, mode;
};

/* "Matrix Descriptor Format": addresses and offsets without their low four bits, in fields of 14 bits. */
static struct description description_of(uint64_t d)
{
    return (struct description){(uint32_t)(d & 0x3fff) * 16, (uint32_t)(d >> 16 & 0x3fff) * 16,
                                (uint32_t)(d >> 32 & 0x3fff) * 16, (uint32_t)(d >> 49 & 7), (uint32_t)(d >> 62)};
}

/* The exchange of 128 bytes: of 16-byte units of an address, three bits are changed by the three above them. */
static uint32_t exchanged(uint32_t address)
{
    const uint32_t unit = address / 16, upper = unit / 8 % 8;
    return (unit ^ upper) * 16 + address % 16;
}

/* "Canonical layouts", T = 8 elements in 16 bytes. K-major: ((8, m), (T, 2)) : ((8 T, stride), (1, T)). */
static uint32_t k_major(const struct description *d, uint32_t mn, uint32_t k)
{
    const uint32_t elements = mn % 8 * 64 + k % 8 + k / 8 * 8;
    return exchanged(d->start + elements * 2 + mn / 8 * d->stride);
}

/* MN-major: ((T, 8, m), (8, k)) : ((1, T, leading), (8 T, stride)). */
static uint32_t mn_major(const struct description *d, uint32_t mn, uint32_t k)
{
    const uint32_t elements = mn % 8 + mn / 8 % 8 * 8 + k % 8 * 64;
    return exchanged(d->start + elements * 2 + mn / 64 * d->leading + k / 8 * d->stride);
}

static uint32_t address_of(int rows, int row, int column)
{
    return BASE + (uint32_t)swizzled(rows, row, column) * 2;
}

static void every_element_has_its_place(void **state)
{
    (void)state;
    enum { ROWS = 24, COLUMNS = 128 };
    static int taken[ROWS * COLUMNS];
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLUMNS; c++) {
            const int at = swizzled(ROWS, r, c);
            assert_in_range(at, 0, ROWS * COLUMNS - 1);
            assert_int_equal(taken[at]++, 0);
        }
}

static void chunks_stay_whole_and_spread_over_banks(void **state)
{
    (void)state;
    for (int c = 0; c < 64; c += 8) {
        int banks = 0;
        for (int r = 0; r < 8; r++) {
            assert_int_equal(swizzled(64, r, c) % 8, 0);
            assert_int_equal(swizzled(64, r, c + 7), swizzled(64, r, c) + 7);
            banks |= 1 << swizzled(64, r, c) / 8 % 8; /* groups of four of the 32 */
        }
        assert_int_equal(banks, 0xff);
    }
}

static void descriptors_say_what_they_were_made_of(void **state)
{
    (void)state;
    const struct description d = description_of(matrix_descriptor(0x2a400, 0x2000, 0x400));
    assert_int_equal(d.start, 0x2a400);
    assert_int_equal(d.leading, 0x2000);
    assert_int_equal(d.stride, 0x400);
    assert_int_equal(d.base_offset, 0);
    assert_int_equal(d.mode, 1); /* the exchange of 128 bytes */
    const struct description further = description_of(descriptor_at(matrix_descriptor(0x2a400, 0x2000, 0x400), 96));
    assert_int_equal(further.start, 0x2a460);
    assert_int_equal(further.leading, 0x2000);
    assert_int_equal(further.stride, 0x400);
    assert_int_equal(further.mode, 1);
}

/* Rows from any multiple of 64 on, with k along them: both sides of scores. */
static void operands_along_rows(void **state)
{
    (void)state;
    for (int columns = 64; columns <= 128; columns += 64)
        for (int rows = 64; rows <= 192; rows += 64)
            for (int row = 0; row < rows; row += 64)
                for (int first = 0; first < columns; first += DEPTH) {
                    const uint64_t whole = tile_descriptor(BASE, rows);
                    const struct description d =
                        description_of(descriptor_at(whole, along_rows_bytes(rows, row, first)));
                    assert_int_equal(d.start & 0x380, 0); /* or a base offset would have to say how far off */
                    for (int mn = 0; mn < 64; mn++)
                        for (int k = 0; k < DEPTH; k++)
                            assert_int_equal(k_major(&d, (uint32_t)mn, (uint32_t)k),
                                             address_of(rows, row + mn, first + k));
                }
}

/* Rows of k, all columns: what probabilities are multiplied with. */
static void operands_down_rows(void **state)
{
    (void)state;
    for (int rows = 64; rows <= 128; rows += 64)
        for (int columns = 64; columns <= 128; columns += 64)
            for (int first = 0; first < rows; first += DEPTH) {
                const struct description d =
                    description_of(descriptor_at(tile_descriptor(BASE, rows), down_rows_bytes(first)));
                assert_int_equal(d.start & 0x380, 0);
                for (int mn = 0; mn < columns; mn++)
                    for (int k = 0; k < DEPTH; k++)
                        assert_int_equal(mn_major(&d, (uint32_t)mn, (uint32_t)k), address_of(rows, first + k, mn));
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_element_has_its_place),
        cmocka_unit_test(chunks_stay_whole_and_spread_over_banks),
        cmocka_unit_test(descriptors_say_what_they_were_made_of),
        cmocka_unit_test(operands_along_rows),
        cmocka_unit_test(operands_down_rows),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
