/* Events: positions in a stream, and their times on the host's clock.
 *
 * CUDA gives only the time between two events, as a float of milliseconds, which after four seconds is exact to a
 * quarter of a microsecond. So there is a base event, whose time on the host's clock is measured by watching it happen;
 * a base that is older than four seconds is replaced. Two bases are kept, because the GPU's clock has its own crystal:
 * the distance of the two on both clocks gives the ratio of the clocks' rates. The first bases are close together and
 * give a poor ratio, so they last only milliseconds, and each later one twice as long. */
#include "kernels/cuda/runtime.cuh"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

extern "C" {
#include "engine/base/clock.h"
}

struct device_event {
    struct device *device;
    cudaEvent_t handle;
    bool recorded;
};

static const uint64_t BASE_LASTS_NS = 4000000000u, FIRST_BASE_LASTS_NS = 16000000u;
static const double DRIFT_MOST = 100e-6; /* of two crystals, when nothing better is known */
enum { BASE_TRIES = 5, RESOLUTION_NS = 500 /* of an event's time, as CUDA documents it */ };

static int event_result(const struct device_event *event, const char *what, cudaError_t error, struct error *err)
{
    if (error == cudaSuccess) return STATUS_OK;
    cudaGetLastError();
    return error_set(err, STATUS_RUN, "GPU %d, %s: CUDA says \"%s\"", event->device->ordinal, what,
                     cudaGetErrorString(error));
}

int device_event_create(struct device_event **out, struct device *device, struct error *err)
{
    int status = device_use(device, err);
    if (status) return status;
    struct device_event *event = (struct device_event *)calloc(1, sizeof *event);
    if (!event) return error_set(err, STATUS_RUN, "no memory for an event");
    event->device = device;
    status = cuda_result(err, "making an event", cudaEventCreateWithFlags(&event->handle, cudaEventBlockingSync));
    if (status) free(event);
    else *out = event;
    return status;
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
    if (error == cudaSuccess) return STATUS_OK;
    char what[32] = "waiting for another lane";
    if (event->device != stream->device) snprintf(what, sizeof what, "waiting for GPU %d", event->device->ordinal);
    return stream_failed(stream, what, error, err);
}

int device_event_query(struct device_event *event, bool *happened, struct error *err)
{
    const cudaError_t error = cudaEventQuery(event->handle);
    *happened = error == cudaSuccess;
    if (error != cudaErrorNotReady) return event_result(event, "looking at an event", error, err);
    cudaGetLastError();
    return STATUS_OK;
}

int device_event_wait(struct device_event *event, struct error *err)
{
    return event_result(event, "waiting for an event", cudaEventSynchronize(event->handle), err);
}

/* ---- time ------------------------------------------------------------------------------------------------------------- */

/* Records the base event and polls it, so that its time is known to lie between two readings of the host's clock. */
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
    base->error_ns = (after - before + 1) / 2 + RESOLUTION_NS;
    return error;
}

/* Computes the rate of the GPU's clock from the two bases, if that is more exact than the bound that holds for any two clocks. */
static cudaError_t rate_measure(struct device *device)
{
    const struct clock_base *b = device->base;
    const double gap_ns = (double)(b[1].at_ns - b[0].at_ns), unsure = (double)(b[0].error_ns + b[1].error_ns) / gap_ns;
    float milliseconds;
    const cudaError_t error = cudaEventElapsedTime(&milliseconds, b[0].event, b[1].event);
    const bool known = error == cudaSuccess && unsure < DRIFT_MOST;
    device->clock_rate = known ? gap_ns / ((double)milliseconds * 1e6) : 1;
    device->clock_rate_error = known ? unsure : DRIFT_MOST;
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

static bool base_is_old(const struct device *device)
{
    const uint64_t gap_ns = device->base[1].at_ns - device->base[0].at_ns;
    uint64_t lasts_ns = gap_ns < FIRST_BASE_LASTS_NS ? FIRST_BASE_LASTS_NS : gap_ns;
    if (lasts_ns > BASE_LASTS_NS) lasts_ns = BASE_LASTS_NS;
    return clock_ns() - device->base[1].at_ns > lasts_ns;
}

int clock_begin(struct device *device, struct error *err)
{
    cudaError_t error = cudaStreamCreateWithFlags(&device->clock_stream, cudaStreamNonBlocking);
    for (int i = 0; i < 2 && error == cudaSuccess; i++) error = cudaEventCreateWithFlags(&device->base[i].event, 0);
    for (int i = 0; i < 2 && error == cudaSuccess; i++) error = base_renew(device);
    if (error == cudaSuccess) error = rate_measure(device);
    return cuda_result(err, "measuring the GPU's clock", error);
}

/* The event's time, counted from the nearer base. */
static cudaError_t event_place(const struct device *device, cudaEvent_t event, uint64_t *at_ns, uint64_t *error_ns)
{
    const struct clock_base *base = &device->base[1];
    const double gap_ns = (double)(base->at_ns - device->base[0].at_ns);
    float milliseconds;
    cudaError_t error = cudaEventElapsedTime(&milliseconds, base->event, event);
    if (error == cudaSuccess && (double)milliseconds * 1e6 < -gap_ns / 2) {
        base = &device->base[0];
        error = cudaEventElapsedTime(&milliseconds, base->event, event);
    }
    if (error != cudaSuccess) return error;
    const double after_ns = (double)milliseconds * 1e6;
    *at_ns = (uint64_t)((int64_t)base->at_ns + (int64_t)(after_ns * device->clock_rate));
    *error_ns = base->error_ns + (uint64_t)(fabs(after_ns) * device->clock_rate_error);
    return cudaSuccess;
}

int device_event_time(struct device_event *event, uint64_t *at_ns, uint64_t *error_ns, struct error *err)
{
    struct device *device = event->device;
    uint64_t unsure_ns;
    if (!event->recorded) return error_set(err, STATUS_RUN, "an event that was never recorded has no time");
    int status = device_use(device, err);
    if (status) return status;
    pthread_mutex_lock(&device->clock_lock);
    cudaError_t error = cudaSuccess;
    if (base_is_old(device)) {
        error = base_renew(device);
        if (error == cudaSuccess) error = rate_measure(device);
    }
    if (error == cudaSuccess) error = event_place(device, event->handle, at_ns, error_ns ? error_ns : &unsure_ns);
    pthread_mutex_unlock(&device->clock_lock);
    if (error == cudaErrorNotReady) {
        cudaGetLastError();
        return error_set(err, STATUS_RUN, "an event that has not happened has no time yet");
    }
    return event_result(event, "reading the time of an event", error, err);
}

int device_event_between(const struct device_event *first, const struct device_event *last, uint64_t *ns,
                         struct error *err)
{
    float milliseconds = 0;
    int status = device_use(first->device, err);
    if (!status)
        status = event_result(first, "reading the time between two events",
                              cudaEventElapsedTime(&milliseconds, first->handle, last->handle), err);
    if (!status) *ns = milliseconds > 0 ? (uint64_t)((double)milliseconds * 1e6) : 0;
    return status;
}
