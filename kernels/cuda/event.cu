/* Events: where a stream has come to, and when, on the host's clock.
 *
 * The GPU tells only how long after another event one happened, as a float of milliseconds, which after four seconds is good to a
 * quarter of a microsecond. So there is a base event, whose place on the host's clock is measured by watching it happen, and it is
 * made anew when it is older than that. Two are kept: what happened before the newer is counted from the older. */
#include "kernels/cuda/runtime.cuh"

#include <stdlib.h>

extern "C" {
#include "engine/base/clock.h"
}

struct device_event {
    struct device *device;
    cudaEvent_t handle;
    bool recorded;
};

static const uint64_t BASE_LASTS_NS = 4000000000u;
enum { BASE_TRIES = 5 };

int device_event_create(struct device_event **out, struct device *device, struct error *err)
{
    int status = device_use(device, err);
    if (status) return status;
    struct device_event *event = (struct device_event *)calloc(1, sizeof *event);
    if (!event) return error_set(err, STATUS_RUN, "no memory for an event");
    event->device = device;
    const cudaError_t error = cudaEventCreateWithFlags(&event->handle, cudaEventBlockingSync);
    if (error != cudaSuccess) {
        free(event);
        return cuda_failed(err, "making an event", error);
    }
    *out = event;
    return STATUS_OK;
}

void device_event_destroy(struct device_event *event)
{
    if (!event) return;
    device_use(event->device, NULL);
    cudaEventDestroy(event->handle);
    free(event);
}

int device_event_record(struct device_event *event, struct device_stream *stream, struct error *err)
{
    int status = device_use(stream->device, err);
    if (status) return status;
    const cudaError_t error = cudaEventRecord(event->handle, stream->handle);
    if (error != cudaSuccess) return stream_failed(stream, "recording an event", error, err);
    event->recorded = true;
    return STATUS_OK;
}

int device_stream_await(struct device_stream *stream, const struct device_event *event, struct error *err)
{
    int status = device_use(stream->device, err);
    if (status) return status;
    const cudaError_t error = cudaStreamWaitEvent(stream->handle, event->handle, 0);
    return error == cudaSuccess ? STATUS_OK : stream_failed(stream, "waiting for another lane", error, err);
}

int device_event_query(struct device_event *event, bool *happened, struct error *err)
{
    const cudaError_t error = cudaEventQuery(event->handle);
    if (error != cudaSuccess && error != cudaErrorNotReady) return cuda_failed(err, "looking at an event", error);
    if (error == cudaErrorNotReady) cudaGetLastError();
    *happened = error == cudaSuccess;
    return STATUS_OK;
}

int device_event_wait(struct device_event *event, struct error *err)
{
    const cudaError_t error = cudaEventSynchronize(event->handle);
    return error == cudaSuccess ? STATUS_OK : cuda_failed(err, "waiting for an event", error);
}

/* ---- time ------------------------------------------------------------------------------------------------------------- */

/* Records the event and watches it happen: it did between two readings of the clock. */
static cudaError_t base_watch(struct device *device, struct clock_base *base)
{
    const uint64_t before = clock_ns();
    cudaError_t error = cudaEventRecord(base->event, device->clock_stream);
    while (error == cudaSuccess && (error = cudaEventQuery(base->event)) == cudaErrorNotReady) {
        cudaGetLastError();
        if (clock_ns() - before > 1000000) { /* the GPU is busy: sleep rather than spin */
            error = cudaEventSynchronize(base->event);
            break;
        }
        error = cudaSuccess;
    }
    const uint64_t after = clock_ns();
    base->at_ns = before + (after - before) / 2;
    base->error_ns = (after - before + 1) / 2;
    return error;
}

static cudaError_t base_renew(struct device *device)
{
    const struct clock_base oldest = device->base[0];
    device->base[0] = device->base[1];
    device->base[1] = oldest;
    cudaError_t error = base_watch(device, &device->base[1]);
    for (int i = 1; i < BASE_TRIES && error == cudaSuccess && device->base[1].error_ns > 5000; i++)
        error = base_watch(device, &device->base[1]);
    return error;
}

int clock_begin(struct device *device, struct error *err)
{
    cudaError_t error = cudaStreamCreateWithFlags(&device->clock_stream, cudaStreamNonBlocking);
    for (int i = 0; i < 2 && error == cudaSuccess; i++) error = cudaEventCreateWithFlags(&device->base[i].event, 0);
    for (int i = 0; i < 2 && error == cudaSuccess; i++) error = base_renew(device);
    return error == cudaSuccess ? STATUS_OK : cuda_failed(err, "measuring the GPU's clock", error);
}

static cudaError_t counted_from(const struct clock_base *base, cudaEvent_t event, int64_t *at_ns)
{
    float milliseconds;
    const cudaError_t error = cudaEventElapsedTime(&milliseconds, base->event, event);
    *at_ns = (int64_t)base->at_ns + (int64_t)((double)milliseconds * 1e6);
    return error;
}

int device_event_time(struct device_event *event, uint64_t *at_ns, uint64_t *error_ns, struct error *err)
{
    struct device *device = event->device;
    if (!event->recorded) return error_set(err, STATUS_RUN, "an event that was never recorded has no time");
    int status = device_use(device, err);
    if (status) return status;
    pthread_mutex_lock(&device->clock_lock);
    cudaError_t error = cudaSuccess;
    if (clock_ns() - device->base[1].at_ns > BASE_LASTS_NS) error = base_renew(device);
    int64_t at = 0;
    const struct clock_base *base = &device->base[0]; /* before which no event is that is still asked about */
    if (error == cudaSuccess) error = counted_from(base, event->handle, &at);
    if (error == cudaSuccess && at > (int64_t)device->base[1].at_ns) {
        base = &device->base[1];
        error = counted_from(base, event->handle, &at);
    }
    if (error_ns) *error_ns = base->error_ns;
    pthread_mutex_unlock(&device->clock_lock);
    if (error == cudaErrorNotReady) {
        cudaGetLastError();
        return error_set(err, STATUS_RUN, "an event that has not happened has no time yet");
    }
    if (error != cudaSuccess) return cuda_failed(err, "reading the time of an event", error);
    *at_ns = (uint64_t)at;
    return STATUS_OK;
}
