/* The functions of device.h in a build without CUDA: there is no GPU, and opening one is an error that says why. The
 * functions that need a device can never be called; they exist so that callers need no conditional compilation. */
#include "kernels/cuda/device.h"

#include <stdio.h>

#include "kernels/cuda/product.h"
#include "kernels/cuda/profiler.h"
#include "kernels/cuda/sensors.h"
#include "kernels/kernels.h"

#define ABSENT_WHY "zerolab was built without CUDA; install the CUDA toolkit and run make again"
#include "kernels/cuda/absent.h"

void device_build_text(char *text, size_t room)
{
    snprintf(text, room, "no CUDA");
}

ANSWERS(int, 0, device_count, void)
ABSENT(device_open, struct device **out, int ordinal, struct error *err)
NOTHING(device_close, struct device *device)
ABSENT(device_share, struct device *const *devices, int count, struct error *err)
ANSWERS(const struct device_info *, 0, device_info, const struct device *device)
ABSENT(device_free_bytes, struct device *device, uint64_t *free_bytes, struct error *err)
ABSENT(device_outside_bytes, struct device *device, uint64_t *bytes, uint64_t *free_bytes, struct error *err)
ABSENT(device_look, int ordinal, struct device_info *info, uint64_t *free_bytes, struct error *err)
ABSENT(device_stream_create, struct device_stream **out, struct device *device, const char *name, struct error *err)
NOTHING(device_stream_destroy, struct device_stream *stream)
ABSENT(device_stream_wait, struct device_stream *stream, struct error *err)
ABSENT(device_stream_await, struct device_stream *stream, const struct device_event *event, struct error *err)
ABSENT(device_event_create, struct device_event **out, struct device *device, struct error *err)
NOTHING(device_event_destroy, struct device_event *event)
ABSENT(device_event_record, struct device_event *event, struct device_stream *stream, struct error *err)
ABSENT(device_event_query, struct device_event *event, bool *happened, struct error *err)
ABSENT(device_event_wait, struct device_event *event, struct error *err)
ABSENT(device_event_time, struct device_event *event, uint64_t *at_ns, uint64_t *error_ns, struct error *err)
ABSENT(device_event_between, const struct device_event *first, const struct device_event *last, uint64_t *ns,
       struct error *err)
ABSENT(device_range_reserve, struct device_range *range, struct device *device, uint64_t bytes, struct error *err)
NOTHING(device_range_release, struct device_range *range)
ABSENT(device_range_commit, struct device_range *range, uint64_t first, uint64_t end, struct error *err)
ABSENT(device_range_return, struct device_range *range, uint64_t *first, uint64_t *end, uint64_t wanted, struct error *err)
NOTHING(device_export, struct device *device)
ABSENT(device_range_export, const struct device_range *range, uint64_t first, int *fd, struct error *err)
ABSENT(device_range_import, struct device_range *range, uint64_t first, uint64_t end, int fd, struct error *err)
ABSENT(device_pin, struct device *device, void *host, uint64_t bytes, struct error *err)
ABSENT(device_unpin, struct device *device, void *host, struct error *err)
ABSENT(device_copy, struct device_stream *stream, void *to, const void *from, uint64_t bytes, struct error *err)
ABSENT(device_set, struct device_stream *stream, void *to, int byte, uint64_t bytes, struct error *err)
ABSENT(kernels_create_cuda, struct kernels **out, struct device *device, struct device_stream *stream,
       struct error *err)
ANSWERS(bool, false, device_range_piece, const struct device_range *range, uint64_t at, uint64_t *first, uint64_t *end)
ANSWERS(bool, false, kernels_cuda_groups, struct kernels *kernels, bool wanted)
NOTHING(kernels_cuda_fuse_gelu, struct kernels *kernels, bool wanted)
ANSWERS(bool, false, kernels_cuda_gelu_refused, const struct kernels *kernels, struct error *why)
ABSENT(device_reduce, struct device_stream *stream, enum dtype dtype, enum dtype to, void *destination,
       const void *const *sources, int count, const struct reduce_factors *factors, int64_t elems, bool accumulate,
       struct error *err)
ANSWERS(struct sensors *, NULL, sensors_open, const struct device *device)

struct sensor_reading sensors_read(const struct sensors *sensors)
{
    return (struct sensor_reading){UINT32_MAX, UINT32_MAX, UINT64_MAX};
}

NOTHING(sensors_close, struct sensors *sensors)
ANSWERS(bool, false, profiler_listens, void)
NOTHING(profiler_begin, const char *name)
NOTHING(profiler_end, void)

ABSENT(cuda_products_create, struct products **out, struct device_stream *stream, struct error *err)
NOTHING(cuda_products_free, struct products *products)
ABSENT(cuda_products_run, struct products *products, const struct product *product, const struct product_data *data,
       struct error *err)
ANSWERS(bool, false, cuda_products_can, struct products *products, const struct product *product,
        const struct product_data *data)
