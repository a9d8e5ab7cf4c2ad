/* Host-side internals of kernels/cuda: the device, its streams, errors, and launch(), which sends a kernel.
 *
 *     launch(stream, "norm_forward", norm_forward<T>, blocks, threads, shared_bytes, arguments...)
 *
 * replaces kernel<<<blocks, threads, shared_bytes, stream>>>(arguments...). It records the name of the last kernel and
 * the first failure. Tests use another launch() to run kernels on the CPU (tests/support/fake_cuda). */
#pragma once

#include <cuda_runtime.h>

#include <pthread.h>
#include <stdint.h>

extern "C" {
#include "engine/base/error.h"
#include "kernels/cuda/device.h"
}

struct clock_base {
    cudaEvent_t event;
    uint64_t at_ns, error_ns;
};

struct device {
    int ordinal;
    struct device_info info;
    uint64_t committed_bytes; /* of all ranges; changed atomically */
    bool exports;             /* device_export() */
    int reached_by[DEVICES_MOST], reached_by_count; /* other devices, by ordinal: device_share() */
    pthread_mutex_t clock_lock;
    cudaStream_t clock_stream;
    struct clock_base base[2]; /* the older and the newer; see event.cu */
    double clock_rate, clock_rate_error; /* host nanoseconds in a nanosecond of the GPU's clock, and the possible error of that */
};

struct device_stream {
    struct device *device;
    char name[32];
    cudaStream_t handle;
    const char *last;     /* name of the work that was sent last */
    struct error failure; /* the first; status 0: none */
};

/* The status of a CUDA call. If it failed, sets the error, "what: the runtime's message". */
static inline int cuda_result(struct error *err, const char *what, cudaError_t error)
{
    if (error == cudaSuccess) return STATUS_OK;
    cudaGetLastError(); /* or the next launch would find it */
    return error_set(err, STATUS_RUN, "%s: CUDA says \"%s\"", what, cudaGetErrorString(error));
}

/* The same for a stream. An error may be reported late, so the message also names the work that was sent last. */
int stream_failed(struct device_stream *stream, const char *what, cudaError_t error, struct error *err);

int range_granularity(struct device *device, struct error *err); /* makes the context, too */
int clock_begin(struct device *device, struct error *err);       /* of event.cu */

/* Makes the device current on the calling thread. */
static inline int device_use(const struct device *device, struct error *err)
{
    return cuda_result(err, "choosing the GPU", cudaSetDevice(device->ordinal));
}

template <class T> struct as_given {
    using type = T;
};

template <class... P>
void launch(struct device_stream *stream, const char *name, void (*kernel)(P...), dim3 blocks, dim3 threads,
            size_t shared_bytes, typename as_given<P>::type... arguments)
{
    if (stream->failure.status) return;
    stream->last = name;
    if (blocks.x == 0) return; /* nothing to do */
    cudaError_t error = cudaSetDevice(stream->device->ordinal);
    if (error == cudaSuccess && shared_bytes >= (48 << 10)) /* the least that may need leave */
        error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared_bytes);
    if (error == cudaSuccess) {
#ifdef __CUDACC__
        kernel<<<blocks, threads, shared_bytes, stream->handle>>>(arguments...);
#else
        fake_launch_kernel(name, kernel, blocks, threads, shared_bytes, stream->handle, arguments...);
#endif
        error = cudaGetLastError();
    }
    if (error != cudaSuccess) stream_failed(stream, name, error, &stream->failure);
}

/* Number of blocks of `each` elements that cover n elements. */
static inline unsigned blocks_for(int64_t n, int64_t each)
{
    return (unsigned)((n + each - 1) / each);
}

/* Shared memory of the size that launch() was given, with the alignment that swizzled tiles need (swizzle.h). */
#ifdef __CUDACC__
extern __shared__ __align__(1024) uint4 launched_shared[];
#else
#define launched_shared fake_this_block.shared
#endif
