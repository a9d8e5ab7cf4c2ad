/* Elementwise kernels. An operation is a struct with its arrays and run<W>(i), which handles W elements from i on. Each
 * thread handles WIDTH of them at a time, 8 or 4; at the end, and where arrays are not aligned, one after the other. An
 * element's arithmetic is the same in all. */
#pragma once

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/runtime.cuh"

enum { EACH_THREADS = 256 };

template <class Operation>
__global__ void __launch_bounds__(EACH_THREADS) each_kernel(Operation operation, int64_t n, bool wide)
{
    enum { W = Operation::WIDTH };
    const int64_t i = ((int64_t)blockIdx.x * EACH_THREADS + threadIdx.x) * W;
    if (wide && i + W <= n) operation.template run<W>(i);
    else
        for (int64_t j = i; j < n && j < i + W; j++) operation.template run<1>(j);
}

template <class Operation>
void each(struct device_stream *stream, const char *name, const Operation &operation, int64_t n, bool wide)
{
    launch(stream, name, each_kernel<Operation>, blocks_for(n, EACH_THREADS * Operation::WIDTH), EACH_THREADS, 0,
           operation, n, wide);
}
