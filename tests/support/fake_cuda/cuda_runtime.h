/* A CUDA that runs on the processor, for tests on machines without a GPU: the part of the runtime that kernels/cuda uses, with
 * the same names, types and errors. `make CUDA=fake` compiles kernels/cuda with a C++ compiler against this folder.
 *
 * What is meant to go wrong here as it would there: threads of a block run as fibers in an order that tests choose, and meet only
 * at barriers and warp operations; streams are threads, so what is not ordered by events happens in any order; memory of the device
 * is closed to the host, and pages around it are closed to all; launches with a bad geometry fail. See fake.h for the knobs. */
#pragma once

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <functional>
#include <tuple>

#define FAKE_CUDA      1
#define CUDART_VERSION 0

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __shared__      static thread_local
#define __launch_bounds__(...)

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned vx = 1, unsigned vy = 1, unsigned vz = 1) : x(vx), y(vy), z(vz)
    {
    }
};
struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};

/* ---- what a kernel sees ---------------------------------------------------------------------------------------------- */

struct fake_thread {
    dim3 index;
};
struct fake_block {
    dim3 index, size, grid;
    void *shared = nullptr;
};
extern __thread fake_thread *fake_this_thread;
extern __thread fake_block fake_this_block;

#define threadIdx (fake_this_thread->index)
#define blockIdx  (fake_this_block.index)
#define blockDim  (fake_this_block.size)
#define gridDim   (fake_this_block.grid)

void fake_barrier();
/* All 32 lanes of the warp come here, each with its own `mine`; the last one calls `all` with those of all lanes in order. */
void fake_warp_meet(void *mine, void (*all)(void *const lanes[32]));
/* Copies that are on their way until the thread waits for them. */
void fake_copy_later(void *to, const void *from, size_t bytes);
void fake_copies_commit();
void fake_copies_wait(int groups_left);

static inline void __syncthreads()
{
    fake_barrier();
}

static inline void __syncwarp(unsigned = ~0u)
{
    char nothing;
    fake_warp_meet(&nothing, [](void *const *) {});
}

template <class T> struct fake_shuffle {
    T value, result;
    int from;
};

template <class T> T fake_shuffle_from(T value, int from)
{
    fake_shuffle<T> mine = {value, value, from};
    fake_warp_meet(&mine, [](void *const lanes[32]) {
        for (int i = 0; i < 32; i++) {
            fake_shuffle<T> *lane = (fake_shuffle<T> *)lanes[i];
            lane->result = ((fake_shuffle<T> *)lanes[lane->from])->value;
        }
    });
    return mine.result;
}

static inline int fake_lane()
{
    const dim3 &at = threadIdx, &size = blockDim;
    return (int)((at.x + size.x * (at.y + size.y * at.z)) % 32);
}

template <class T> T __shfl_sync(unsigned, T value, int lane)
{
    return fake_shuffle_from(value, lane % 32);
}
template <class T> T __shfl_xor_sync(unsigned, T value, int mask)
{
    return fake_shuffle_from(value, fake_lane() ^ mask);
}
template <class T> T __shfl_up_sync(unsigned, T value, int by)
{
    return fake_shuffle_from(value, fake_lane() < by ? fake_lane() : fake_lane() - by);
}

struct fake_vote {
    unsigned mine, all;
};

static inline unsigned __ballot_sync(unsigned, bool yes)
{
    fake_vote vote = {yes, 0};
    fake_warp_meet(&vote, [](void *const lanes[32]) {
        unsigned all = 0;
        for (int i = 0; i < 32; i++) all |= ((fake_vote *)lanes[i])->mine << i;
        for (int i = 0; i < 32; i++) ((fake_vote *)lanes[i])->all = all;
    });
    return vote.all;
}
static inline int __any_sync(unsigned mask, bool yes)
{
    return __ballot_sync(mask, yes) != 0;
}
static inline uint32_t __float_as_uint(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
static inline int __popc(unsigned bits)
{
    return __builtin_popcount(bits);
}

/* One rounding each, never contracted. */
static inline float __fmul_rn(float a, float b)
{
    return a * b;
}
static inline float __fadd_rn(float a, float b)
{
    return a + b;
}
static inline float __fsub_rn(float a, float b)
{
    return a - b;
}
static inline float __fdiv_rn(float a, float b)
{
    return a / b;
}
static inline float __fsqrt_rn(float a)
{
    return sqrtf(a);
}
static inline float __fdividef(float a, float b)
{
    return a / b;
}
static inline float rsqrtf(float a)
{
    return 1 / sqrtf(a);
}
#define __expf(a) expf(a) /* glibc declares a function of that name */

/* ---- what the host sees ---------------------------------------------------------------------------------------------- */

#define FAKE_ERRORS(X)                                                                                                 \
    X(cudaSuccess, 0, "no error")                                                                                      \
    X(cudaErrorInvalidValue, 1, "invalid argument")                                                                    \
    X(cudaErrorMemoryAllocation, 2, "out of memory")                                                                   \
    X(cudaErrorInvalidConfiguration, 9, "invalid configuration argument")                                              \
    X(cudaErrorInsufficientDriver, 35, "CUDA driver version is insufficient for CUDA runtime version")                 \
    X(cudaErrorNoDevice, 100, "no CUDA-capable device is detected")                                                    \
    X(cudaErrorInvalidDevice, 101, "invalid device ordinal")                                                           \
    X(cudaErrorInvalidResourceHandle, 400, "invalid resource handle")                                                  \
    X(cudaErrorNotReady, 600, "device not ready")                                                                      \
    X(cudaErrorIllegalAddress, 700, "an illegal memory access was encountered")                                        \
    X(cudaErrorHostMemoryAlreadyRegistered, 712, "part or all of the requested memory range is already mapped")        \
    X(cudaErrorHostMemoryNotRegistered, 713, "pointer does not correspond to a registered memory region")              \
    X(cudaErrorLaunchFailure, 719, "unspecified launch failure")
enum cudaError_t {
#define X(name, number, text) name = number,
    FAKE_ERRORS(X)
#undef X
};

typedef struct fake_stream *cudaStream_t;
typedef struct fake_event *cudaEvent_t;
struct cudaDeviceProp {
    char name[256];
    int major, minor, multiProcessorCount;
    size_t totalGlobalMem, sharedMemPerBlockOptin;
};
enum cudaMemcpyKind { cudaMemcpyDefault = 4 };
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
enum {
    cudaDeviceScheduleBlockingSync = 4,
    cudaStreamNonBlocking = 1,
    cudaEventBlockingSync = 1,
    cudaHostRegisterDefault = 0
};
enum { cudaEnableDefault = 0 };

const char *cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetLastError();
cudaError_t cudaRuntimeGetVersion(int *version);
cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer);
cudaError_t cudaSetDeviceFlags(unsigned);
cudaError_t cudaDeviceReset();
cudaError_t cudaDeviceGetPCIBusId(char *text, int room, int device);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *out, int device);
cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total);
cudaError_t cudaGetDriverEntryPoint(const char *symbol, void **function, unsigned long long flags);
cudaError_t cudaMalloc(void **out, size_t bytes);
cudaError_t cudaFree(void *memory);
cudaError_t cudaMallocHost(void **out, size_t bytes);
cudaError_t cudaFreeHost(void *memory);
cudaError_t cudaHostRegister(void *host, size_t bytes, unsigned);
cudaError_t cudaHostUnregister(void *host);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemsetAsync(void *to, int byte, size_t bytes, cudaStream_t stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t from, cudaEvent_t to);

cudaError_t fake_raise_shared(const void *kernel, int bytes);
template <class K> cudaError_t cudaFuncSetAttribute(K *kernel, cudaFuncAttribute, int bytes)
{
    return fake_raise_shared((const void *)kernel, bytes);
}

/* kernel<<<grid, block, shared, stream>>>(...): arguments are copied when it is sent, as they are there. */
void fake_launch(const char *name, const void *kernel, dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream,
                 std::function<void()> body);

template <class... P, class... A>
void fake_launch_kernel(const char *name, void (*kernel)(P...), dim3 grid, dim3 block, size_t shared_bytes,
                        cudaStream_t stream, A... arguments)
{
    std::tuple<P...> copied(static_cast<P>(arguments)...);
    fake_launch(name, (const void *)kernel, grid, block, shared_bytes, stream, [=] { std::apply(kernel, copied); });
}
