/* What kernels/cuda/wgmma.cuh offers, without Hopper's tensor cores: the 128 threads of a warpgroup meet, and what their product
 * gives comes into their registers when they wait for it, and not before (groups.cc). */
#pragma once

/* A thread's part of C [64, columns] += A [64, 16] B [16, columns]. */
struct fake_product {
    float *c;                 /* its columns / 2 elements */
    int columns;
    const uint32_t *registers; /* of A; NULL: A lies in shared memory, as `a` says */
    uint64_t a, b;
    bool add, transposed;
    float (*value)(uint16_t bits);
};

void fake_group_begin();
void fake_group_multiply(const fake_product *mine);
void fake_group_commit();
void fake_group_wait(int batches_left);
void fake_shared_written();
uint32_t fake_shared_address(const void *shared);

template <class E> float fake_element(uint16_t bits)
{
    E x;
    x.bits = bits;
    return to_float(x);
}

static inline uint32_t shared_address(const void *shared)
{
    return fake_shared_address(shared);
}

template <class... Fragments> void group_begin(Fragments &...)
{
    fake_group_begin();
}

static inline void stop_here()
{
    __builtin_trap();
}

static inline void group_commit()
{
    fake_group_commit();
}

template <int batches, class... Fragments> void group_wait(Fragments &...)
{
    fake_group_wait(batches);
}

static inline void shared_written()
{
    fake_shared_written();
}

template <class E, bool transposed, int N>
void group_multiply(fragment_c (&c)[N], const fragment_a &a, uint64_t b, int add)
{
    const fake_product mine = {c[0].r, 8 * N, a.r, 0, b, add != 0, transposed, fake_element<E>};
    fake_group_multiply(&mine);
}

template <class E, bool transposed, int N> void group_multiply(fragment_c (&c)[N], uint64_t a, uint64_t b, int add)
{
    const fake_product mine = {c[0].r, 8 * N, nullptr, a, b, add != 0, transposed, fake_element<E>};
    fake_group_multiply(&mine);
}
