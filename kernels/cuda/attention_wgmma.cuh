/* Shared by the attention kernels that use warpgroups: tiles in the layout of Hopper's tensor cores, and products with them. */
#pragma once

#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/attention_rows.cuh"
#include "kernels/cuda/wgmma.cuh"

enum { GROUP_ROWS = 64 }; /* rows of a warpgroup's product */

template <int D_, int ROWS_> struct swizzled_tile {
    enum { D = D_, ROWS = ROWS_, ELEMS = ROWS * D };
    __device__ static int at(int row, int column)
    {
        return swizzled(ROWS, row, column);
    }
};

/* Loads the fragments of 64 rows of a tile, from `row` on. Each of the warpgroup's four warps gets 16 of them. */
template <class Tile, class E>
__device__ __forceinline__ void group_fragments(fragment_a (&a)[Tile::D / 16], const E *tile, int row)
{
    const int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x % GROUP / WARP;
#pragma unroll
    for (int k = 0; k < Tile::D / 16; k++)
        load_matrices<false>(a[k].r, tile + Tile::at(row + warp * 16 + lane % 16, k * 16 + lane / 16 * 8));
}

template <class E, int N> __device__ __forceinline__ void pack(fragment_a (&a)[N / 2], const fragment_c (&c)[N])
{
#pragma unroll
    for (int k = 0; k < N / 2; k++) a[k] = fragment_of<E>(c[2 * k], c[2 * k + 1]);
}

/* c [64, ROWS] = a [64, D] times the transpose of the tile. */
template <class Tile, class E>
__device__ __forceinline__ void group_rows(fragment_c (&c)[Tile::ROWS / 8], const fragment_a (&a)[Tile::D / 16],
                                           const E *tile)
{
    const uint64_t b = tile_descriptor(shared_address(tile), Tile::ROWS);
#pragma unroll
    for (int k = 0; k < Tile::D; k += 16)
        group_multiply<E, false>(c, a[k / 16], descriptor_at(b, along_rows_bytes(Tile::ROWS, 0, k)), k > 0);
}

/* The same, where a is rows row .. row + 63 of a tile `own` in shared memory. */
template <class Own, class Tile, class E>
__device__ __forceinline__ void group_rows(fragment_c (&c)[Tile::ROWS / 8], const E *own, int row, const E *tile)
{
    const uint64_t a = tile_descriptor(shared_address(own), Own::ROWS);
    const uint64_t b = tile_descriptor(shared_address(tile), Tile::ROWS);
#pragma unroll
    for (int k = 0; k < Tile::D; k += 16)
        group_multiply<E, false>(c, descriptor_at(a, along_rows_bytes(Own::ROWS, row, k)),
                                 descriptor_at(b, along_rows_bytes(Tile::ROWS, 0, k)), k > 0);
}

/* c [64, D] += p [64, ROWS] times the tile. */
template <class Tile, class E>
__device__ __forceinline__ void group_columns(fragment_c (&c)[Tile::D / 8], const fragment_a (&p)[Tile::ROWS / 16],
                                              const E *tile)
{
    const uint64_t b = tile_descriptor(shared_address(tile), Tile::ROWS);
#pragma unroll
    for (int k = 0; k < Tile::ROWS; k += 16)
        group_multiply<E, true>(c, p[k / 16], descriptor_at(b, down_rows_bytes(k)), 1);
}

/* Waits until all copies that the block's threads began have arrived and are visible to products, and all threads are here: none uses
 * the older tiles any more. */
__device__ __forceinline__ void tiles_arrived()
{
    copies_wait<0>();
    shared_written();
    __syncthreads();
}
