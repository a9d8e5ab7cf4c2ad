/* What stands for the GPU in a build without CUDA: there is none, and whoever asks for one is told why. The other functions of
 * device.h need a device to be called with, and no one has one: that they are here keeps callers free of conditions. */
#include "kernels/cuda/device.h"

#include <stdio.h>

#include "kernels/kernels.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

static int absent(struct error *err)
{
    return error_set(err, STATUS_USAGE, "zerolab was built without CUDA; install the CUDA toolkit and run make again");
}

void device_build_text(char *text, size_t room)
{
    snprintf(text, room, "no CUDA");
}

int device_count(void)
{
    return 0;
}

int device_open(struct device **out, int ordinal, struct error *err)
{
    return absent(err);
}

void device_close(struct device *device)
{
}

int device_share(struct device *const *devices, int count, struct error *err)
{
    return absent(err);
}

const struct device_info *device_info(const struct device *device)
{
    return 0;
}

int device_free_bytes(struct device *device, uint64_t *free_bytes, struct error *err)
{
    return absent(err);
}

int device_outside_bytes(struct device *device, uint64_t *bytes, uint64_t *free_bytes, struct error *err)
{
    return absent(err);
}

int device_look(int ordinal, struct device_info *info, uint64_t *free_bytes, struct error *err)
{
    return absent(err);
}

int device_stream_create(struct device_stream **out, struct device *device, const char *name, struct error *err)
{
    return absent(err);
}

void device_stream_destroy(struct device_stream *stream)
{
}

int device_stream_wait(struct device_stream *stream, struct error *err)
{
    return absent(err);
}

int device_stream_await(struct device_stream *stream, const struct device_event *event, struct error *err)
{
    return absent(err);
}

int device_event_create(struct device_event **out, struct device *device, struct error *err)
{
    return absent(err);
}

void device_event_destroy(struct device_event *event)
{
}

int device_event_record(struct device_event *event, struct device_stream *stream, struct error *err)
{
    return absent(err);
}

int device_event_query(struct device_event *event, bool *happened, struct error *err)
{
    return absent(err);
}

int device_event_wait(struct device_event *event, struct error *err)
{
    return absent(err);
}

int device_event_time(struct device_event *event, uint64_t *at_ns, uint64_t *error_ns, struct error *err)
{
    return absent(err);
}

int device_event_between(const struct device_event *first, const struct device_event *last, uint64_t *ns,
                         struct error *err)
{
    return absent(err);
}

int device_range_reserve(struct device_range *range, struct device *device, uint64_t bytes, struct error *err)
{
    return absent(err);
}

void device_range_release(struct device_range *range)
{
}

int device_range_commit(struct device_range *range, uint64_t first, uint64_t end, struct error *err)
{
    return absent(err);
}

int device_range_return(struct device_range *range, uint64_t first, uint64_t end, struct error *err)
{
    return absent(err);
}

int device_pin(struct device *device, void *host, uint64_t bytes, struct error *err)
{
    return absent(err);
}

int device_unpin(struct device *device, void *host, struct error *err)
{
    return absent(err);
}

int device_copy(struct device_stream *stream, void *to, const void *from, uint64_t bytes, struct error *err)
{
    return absent(err);
}

int device_set(struct device_stream *stream, void *to, int byte, uint64_t bytes, struct error *err)
{
    return absent(err);
}

int kernels_create_cuda(struct kernels **out, struct device *device, struct device_stream *stream, struct error *err)
{
    return absent(err);
}

bool kernels_cuda_groups(struct kernels *kernels, bool wanted)
{
    return false;
}

int device_reduce(struct device_stream *stream, enum dtype dtype, enum dtype to, void *destination,
                  const void *const *sources, int count, const struct reduce_factors *factors, int64_t elems,
                  bool accumulate, struct error *err)
{
    return absent(err);
}
