/* Casts, sums of two arrays, GELU, and reductions over ranks whose memory is on this GPU. */
#include "kernels/cuda/cuda.cuh"
#include "kernels/cuda/each.cuh"
#include "kernels/cuda/gelu.cuh"

/* y = x, or y += x. */
template <class To, class From> struct add_operation {
    enum { WIDTH = width_of<To, From> };
    To *y;
    const From *x;
    bool accumulate;

    template <int W> __device__ void run(int64_t i) const
    {
        float in[W], kept[W];
        load<W>(in, x, i);
        if (accumulate) {
            load<W>(kept, y, i);
#pragma unroll
            for (int j = 0; j < W; j++) in[j] = kept[j] + in[j];
        }
        store<W>(y, i, in);
    }
};

void cuda_add(struct kernels *kernels, enum dtype to, void *y, bool accumulate, enum dtype from, const void *x,
              int64_t n)
{
    with_type(to, [&](auto kept) {
        with_type(from, [&](auto added) {
            using To = decltype(kept);
            using From = decltype(added);
            const add_operation<To, From> operation = {(To *)y, (const From *)x, accumulate};
            each(cuda_of(kernels)->stream, accumulate ? "add" : "cast", operation, n, aligned(y, x));
        });
    });
}

template <class T> struct gelu_forward_operation {
    enum { WIDTH = width_of<T> };
    T *y;
    const T *x;

    template <int W> __device__ void run(int64_t i) const
    {
        float v[W];
        load<W>(v, x, i);
#pragma unroll
        for (int j = 0; j < W; j++) v[j] *= gelu_gate(v[j]);
        store<W>(y, i, v);
    }
};

template <class T> struct gelu_backward_operation {
    enum { WIDTH = width_of<T> };
    T *dx;
    const T *dy, *x;

    template <int W> __device__ void run(int64_t i) const
    {
        float v[W], d[W];
        load<W>(v, x, i);
        load<W>(d, dy, i);
#pragma unroll
        for (int j = 0; j < W; j++) d[j] *= gelu_slope(v[j]);
        store<W>(dx, i, d);
    }
};

void cuda_gelu_forward(struct kernels *kernels, enum dtype dtype, void *y, const void *x, int64_t n)
{
    with_type(dtype, [&](auto element) {
        using T = decltype(element);
        const gelu_forward_operation<T> operation = {(T *)y, (const T *)x};
        each(cuda_of(kernels)->stream, "gelu_forward", operation, n, aligned(y, x));
    });
}

void cuda_gelu_backward(struct kernels *kernels, enum dtype dtype, void *dx, const void *dy, const void *x, int64_t n)
{
    with_type(dtype, [&](auto element) {
        using T = decltype(element);
        const gelu_backward_operation<T> operation = {(T *)dx, (const T *)dy, (const T *)x};
        each(cuda_of(kernels)->stream, "gelu_backward", operation, n, aligned(dx, dy, x));
    });
}

/* ---- reductions -------------------------------------------------------------------------------------------------------- */

struct reduce_sources {
    const void *at[DEVICE_REDUCE_SOURCES];
};

/* The rounding of kernels_reduce(): see there, and kernels/cpu/body_elementwise.h, whose bits these are. */
template <class To, class From> struct reduce_operation {
    enum { WIDTH = width_of<To, From> };
    To *destination;
    reduce_sources sources;
    int count;
    float before, after;
    bool accumulate, through; /* through: rounded to the sources' type first */

    template <int W> __device__ void contribution(float (&x)[W], int s, int64_t i) const
    {
        load<W>(x, (const From *)sources.at[s], i);
        if (before == 1) return;
#pragma unroll
        for (int j = 0; j < W; j++) x[j] = rounded<From>(__fmul_rn(x[j], before));
    }

    template <int W> __device__ void run(int64_t i) const
    {
        float sum[W], x[W] = {};
        contribution<W>(sum, 0, i);
        for (int s = 1; s < count; s++) {
            contribution<W>(x, s, i);
#pragma unroll
            for (int j = 0; j < W; j++) sum[j] = __fadd_rn(sum[j], x[j]);
        }
        if (accumulate) load<W>(x, destination, i);
#pragma unroll
        for (int j = 0; j < W; j++) {
            sum[j] = __fmul_rn(sum[j], after);
            if (through) sum[j] = rounded<From>(sum[j]);
            if (accumulate) sum[j] = __fadd_rn(x[j], sum[j]);
        }
        store<W>(destination, i, sum);
    }
};

int device_reduce(struct device_stream *stream, enum dtype dtype, enum dtype to, void *destination,
                  const void *const *sources, int count, const struct reduce_factors *factors, int64_t elems,
                  bool accumulate, struct error *err)
{
    if (count < 1 || count > DEVICE_REDUCE_SOURCES)
        return error_set(err, STATUS_RUN, "%d sources of a reduction on one GPU; it takes 1 to %d", count,
                         DEVICE_REDUCE_SOURCES);
    reduce_sources list = reduce_sources();
    bool wide = aligned(destination);
    for (int s = 0; s < count; s++) {
        list.at[s] = sources[s];
        wide = wide && aligned(sources[s]);
    }
    with_type(to, [&](auto kept) {
        with_type(dtype, [&](auto source) {
            using To = decltype(kept);
            using From = decltype(source);
            const bool through = dtype != DTYPE_F32 && (accumulate || to != dtype);
            const reduce_operation<To, From> operation = {(To *)destination, list,       count,  factors->before,
                                                          factors->after,    accumulate, through};
            each(stream, "reduce", operation, elems, wide);
        });
    });
    if (!stream->failure.status) return STATUS_OK;
    if (err) *err = stream->failure;
    return stream->failure.status;
}
