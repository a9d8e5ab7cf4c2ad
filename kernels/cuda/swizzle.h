/* How the tensor cores of Hopper find a tile in shared memory: its layout, and the descriptor of that layout (PTX ISA, "Strides",
 * "Matrix Descriptor Format", "Shared Memory Matrix Layout"). Pure numbers in plain C, for kernels and for tests that have no GPU.
 *
 * A tile [rows, columns] of 16-bit elements lies in panels of 64 columns; a panel is its rows one after the other, 128 bytes each.
 * Within eight rows, 1,024 bytes, the eight chunks of 16 bytes of row r are swizzled: chunk c lies where c ^ r would be. So a
 * column of chunks is spread over all banks, and the tile can be read along its rows or along its columns at full speed. A tile
 * begins at a multiple of 1,024 bytes: the hardware swizzles by bits of the address.
 *
 * A product takes 16 of the depth k at a time. In a tile with k along its rows ("K-major") the next 16 are 32 bytes
 * further; in one with a row for each k ("MN-major") they are 16 rows further. */
#pragma once

#include <stdint.h>

#ifdef __CUDACC__
#define HOST_AND_DEVICE static __host__ __device__ __forceinline__
#else
#define HOST_AND_DEVICE static inline
#endif

enum { PANEL = 64, PANEL_ROW_BYTES = 128, SWIZZLED_ROWS = 8, SWIZZLED_BYTES = SWIZZLED_ROWS * PANEL_ROW_BYTES };

/* Where element [row][column] of a tile of `rows` rows lies, in elements. */
HOST_AND_DEVICE int swizzled(int rows, int row, int column)
{
    const int panel = column / PANEL, chunk = column % PANEL / 8;
    return (panel * rows + row) * PANEL + (chunk ^ row % SWIZZLED_ROWS) * 8 + column % 8;
}

/* The descriptor of an operand that begins at `address` of shared memory, with the 128-byte swizzle. stride_bytes: from eight rows to
 * the next eight. leading_bytes: from a panel to the next, if MN-major; not used if K-major. */
HOST_AND_DEVICE uint64_t matrix_descriptor(uint32_t address, uint32_t leading_bytes, uint32_t stride_bytes)
{
    const uint64_t exchange_of_128_bytes = 1;
    return ((address & 0x3ffff) >> 4 | leading_bytes >> 4 << 16) | (uint64_t)(stride_bytes >> 4) << 32 |
           exchange_of_128_bytes << 62;
}

/* The same descriptor, `bytes` further on. No carry leaves the address, so half of the descriptor is a constant to the compiler. */
HOST_AND_DEVICE uint64_t descriptor_at(uint64_t descriptor, uint32_t bytes)
{
    return (descriptor & 0xffffffff00000000u) | ((uint32_t)descriptor + (bytes >> 4));
}

HOST_AND_DEVICE uint64_t tile_descriptor(uint32_t address, int rows)
{
    return matrix_descriptor(address, (uint32_t)rows * PANEL_ROW_BYTES, SWIZZLED_BYTES);
}

/* Bytes from a tile's start to the operand that begins at `row` (a multiple of 8) and depth k (a multiple of 16), with k along rows ... */
HOST_AND_DEVICE uint32_t along_rows_bytes(int rows, int row, int k)
{
    return (uint32_t)((k / PANEL * rows + row) * PANEL_ROW_BYTES + k % PANEL * 2);
}

/* ... and to the operand that begins at depth k, with a row for each k. */
HOST_AND_DEVICE uint32_t down_rows_bytes(int k)
{
    return (uint32_t)(k * PANEL_ROW_BYTES);
}
