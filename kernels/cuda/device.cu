/* Opening a GPU, its streams, copies and events. See device.h. */
#include "kernels/cuda/runtime.cuh"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the device ------------------------------------------------------------------------------------------------------ */

/* While it exists, threads that the driver makes take no signals. One that did would end a program that reads them from a descriptor. */
struct signals_held {
    sigset_t before;
    signals_held()
    {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
    }
    ~signals_held() { pthread_sigmask(SIG_SETMASK, &before, NULL); }
};

/* A program's first call to CUDA, so it sets the driver's environment: streams get the largest possible number of
 * hardware queues. With the default of eight, lanes of several ranks would share a queue and wait for each other. */
int device_count(void)
{
    const signals_held held;
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    int count = 0;
    if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
    cudaGetLastError();
    return 0;
}

static int info_read(struct device *device, struct error *err)
{
    cudaDeviceProp prop;
    int status = cuda_result(err, "asking what the GPU is", cudaGetDeviceProperties(&prop, device->ordinal));
    if (status) return status;
    struct device_info *info = &device->info;
    snprintf(info->name, sizeof info->name, "%.63s", prop.name);
    if (cudaDeviceGetPCIBusId(info->bus, sizeof info->bus, device->ordinal) != cudaSuccess) cudaGetLastError();
    info->major = prop.major;
    info->minor = prop.minor;
    info->processors = prop.multiProcessorCount;
    info->total_bytes = prop.totalGlobalMem;
    if (prop.major < 8)
        return error_set(err, STATUS_RUN, "%s has compute capability %d.%d; zerolab needs 8.0 (A100) or later",
                         prop.name, prop.major, prop.minor);
    return STATUS_OK;
}

/* Makes waiting host threads sleep, because several ranks share the CPU. If other code opened the GPU first, they may
 * spin, which only costs CPU time. */
static int device_begin(struct device *device, struct error *err)
{
#if CUDART_VERSION >= 12000
    cudaInitDevice(device->ordinal, cudaDeviceScheduleBlockingSync, cudaInitDeviceFlagsAreValid);
    cudaGetLastError();
    return device_use(device, err);
#else
    int status = device_use(device, err);
    cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync);
    cudaGetLastError();
    return status;
#endif
}

int device_open(struct device **out, int ordinal, struct error *err)
{
    const signals_held held;
    const int count = device_count();
    if (count == 0) return error_set(err, STATUS_USAGE, "there is no NVIDIA GPU here, or no driver for it");
    if (ordinal < 0 || ordinal >= count)
        return error_set(err, STATUS_USAGE, "GPU %d is not here; there are %d, counted from 0", ordinal, count);
    struct device *device = (struct device *)calloc(1, sizeof *device);
    if (!device) return error_set(err, STATUS_RUN, "no memory for a GPU");
    device->ordinal = ordinal;
    pthread_mutex_init(&device->clock_lock, NULL);
    int status = device_begin(device, err);
    if (!status) status = info_read(device, err);
    if (!status) status = range_granularity(device, err);
    if (!status) status = clock_begin(device, err);
    if (status) {
        device_close(device);
        return status;
    }
    *out = device;
    return STATUS_OK;
}

void device_close(struct device *device)
{
    if (!device) return;
    device_use(device, NULL);
    for (int i = 0; i < 2; i++)
        if (device->base[i].event) cudaEventDestroy(device->base[i].event);
    if (device->clock_stream) cudaStreamDestroy(device->clock_stream);
    pthread_mutex_destroy(&device->clock_lock);
    free(device);
}

static int device_reach(struct device *device, const struct device *other, struct error *err)
{
    int can = 0;
    int status =
        cuda_result(err, "asking what GPUs can reach", cudaDeviceCanAccessPeer(&can, other->ordinal, device->ordinal));
    if (status) return status;
    if (!can)
        return error_set(err, STATUS_RUN, "GPU %d cannot reach the memory of GPU %d", other->ordinal, device->ordinal);
    device->reached_by[device->reached_by_count++] = other->ordinal;
    return STATUS_OK;
}

int device_share(struct device *const *devices, int count, struct error *err)
{
    int status = STATUS_OK;
    for (int d = 0; d < count; d++)
        for (int other = 0; other < count && !status; other++)
            if (other != d) status = device_reach(devices[d], devices[other], err);
    return status;
}

const struct device_info *device_info(const struct device *device)
{
    return &device->info;
}

int device_free_bytes(struct device *device, uint64_t *free_bytes, struct error *err)
{
    size_t left, total;
    int status = device_use(device, err);
    if (!status) status = cuda_result(err, "asking for the GPU's free memory", cudaMemGetInfo(&left, &total));
    if (!status) *free_bytes = left;
    return status;
}

/* Pages that another rank commits during the query would be counted twice or not at all, so the query is then repeated. */
int device_outside_bytes(struct device *device, uint64_t *bytes, uint64_t *free_bytes, struct error *err)
{
    enum { ATTEMPTS = 4 };
    size_t left = 0, total = 0;
    uint64_t committed = 0;
    int status = device_use(device, err);
    for (int attempt = 0; attempt < ATTEMPTS && !status; attempt++) {
        const uint64_t before = __atomic_load_n(&device->committed_bytes, __ATOMIC_RELAXED);
        status = cuda_result(err, "asking for the GPU's free memory", cudaMemGetInfo(&left, &total));
        committed = __atomic_load_n(&device->committed_bytes, __ATOMIC_RELAXED);
        if (committed == before) break;
    }
    if (status) return status;
    *bytes = total - left > committed ? total - left - committed : 0;
    *free_bytes = left;
    return STATUS_OK;
}

int device_look(int ordinal, struct device_info *info, uint64_t *free_bytes, struct error *err)
{
    struct device *device;
    int status = device_open(&device, ordinal, err);
    if (status) return status;
    *info = device->info;
    status = device_free_bytes(device, free_bytes, err);
    device_close(device);
    cudaDeviceReset(); /* or its context would hold some of that memory as long as this process lives */
    cudaGetLastError();
    return status;
}

/* ---- streams ---------------------------------------------------------------------------------------------------------- */

int stream_failed(struct device_stream *stream, const char *what, cudaError_t error, struct error *err)
{
    cudaGetLastError();
    return error_set(err, STATUS_RUN,
                     "GPU %d, lane %s, %s: CUDA says \"%s\"; sent last: %s (CUDA_LAUNCH_BLOCKING=1 tells which it was)",
                     stream->device->ordinal, stream->name, what, cudaGetErrorString(error), stream->last);
}

static int stream_result(struct device_stream *stream, const char *what, cudaError_t error, struct error *err)
{
    if (stream->failure.status) {
        if (err) *err = stream->failure;
        return stream->failure.status;
    }
    if (error == cudaSuccess) return STATUS_OK;
    stream_failed(stream, what, error, &stream->failure);
    if (err) *err = stream->failure;
    return STATUS_RUN;
}

int device_stream_create(struct device_stream **out, struct device *device, const char *name, struct error *err)
{
    int status = device_use(device, err);
    if (status) return status;
    struct device_stream *stream = (struct device_stream *)calloc(1, sizeof *stream);
    if (!stream) return error_set(err, STATUS_RUN, "no memory for a stream");
    stream->device = device;
    stream->last = "nothing";
    snprintf(stream->name, sizeof stream->name, "%s", name);
    status = cuda_result(err, "making a stream", cudaStreamCreateWithFlags(&stream->handle, cudaStreamNonBlocking));
    if (status) free(stream);
    else *out = stream;
    return status;
}

void device_stream_destroy(struct device_stream *stream)
{
    if (!stream) return;
    device_use(stream->device, NULL);
    cudaStreamSynchronize(stream->handle);
    cudaStreamDestroy(stream->handle);
    free(stream);
}

int device_stream_wait(struct device_stream *stream, struct error *err)
{
    int status = device_use(stream->device, err);
    return status ? status : stream_result(stream, "waiting", cudaStreamSynchronize(stream->handle), err);
}

/* Called before work is sent: fails if earlier work of the stream failed. */
static int stream_begin(struct device_stream *stream, const char *what, struct error *err)
{
    int status = device_use(stream->device, err);
    if (!status) status = stream_result(stream, what, cudaSuccess, err);
    if (!status) stream->last = what;
    return status;
}

int device_copy(struct device_stream *stream, void *to, const void *from, uint64_t bytes, struct error *err)
{
    if (bytes == 0) return STATUS_OK;
    int status = stream_begin(stream, "copy", err);
    if (status) return status;
    return stream_result(stream, "copy", cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream->handle), err);
}

int device_set(struct device_stream *stream, void *to, int byte, uint64_t bytes, struct error *err)
{
    if (bytes == 0) return STATUS_OK;
    int status = stream_begin(stream, "set", err);
    if (status) return status;
    return stream_result(stream, "set", cudaMemsetAsync(to, byte, bytes, stream->handle), err);
}

int device_pin(struct device *device, void *host, uint64_t bytes, struct error *err)
{
    int status = device_use(device, err);
    return status ? status
                  : cuda_result(err, "pinning host memory", cudaHostRegister(host, bytes, cudaHostRegisterDefault));
}

int device_unpin(struct device *device, void *host, struct error *err)
{
    int status = device_use(device, err);
    return status ? status : cuda_result(err, "unpinning host memory", cudaHostUnregister(host));
}
