/* One NVIDIA GPU for the engine: memory, streams, events, copies, and a struct kernels whose work goes to a stream.
 * Plain C, without CUDA's headers. In a build without CUDA, device_count() is 0 and device_open() returns an error that
 * says so. In the engine's words: GPU memory is the device tier, a stream is a lane, an event is a position in a lane.
 *
 *     struct device *device;                          struct device_stream *compute, *copy;
 *     device_open(&device, 0, err)                    device_stream_create(&compute, device, "compute", err)
 *     device_range_reserve(&range, device, bytes, err)
 *     device_range_commit(range, 0, granularity, err)         range.base is now memory of the GPU
 *     device_copy(copy, range.base, tokens, bytes, err)
 *     device_event_record(arrived, copy, err)                 happens when the copy has ended ...
 *     device_stream_await(compute, arrived, err)              ... and the compute lane waits for it
 *     kernels_create_cuda(&kernels, device, compute, err)
 *     kernels_embed_forward(kernels, ...)                     returns at once
 *     device_stream_wait(compute, err)                        returns when all sent work is done, or reports what failed
 *
 * Work on a stream runs in the order in which it was sent; only events order streams among each other. A call that
 * sends work returns before the work is done. A later call reports an error of the GPU and names the stream and the
 * work that was sent to it last. After such an error all calls on that device fail. All functions may be called from
 * any thread, one thread at a time for each stream. Errors are STATUS_RUN; STATUS_USAGE if there is no such GPU, or no CUDA in the
 * build. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#include "engine/base/dtype.h"
#include "engine/base/error.h"

struct kernels;
struct device;
struct device_stream;
struct device_event;

/* ---- the device ---------------------------------------------------------------------------------------------------- */

/* "CUDA 13.0", the library of matrix products, and whether Hopper's own instructions are used; "no CUDA" in a build
 * without CUDA. */
void device_build_text(char *text, size_t room);
/* Number of GPUs that can be opened; 0 if there is no GPU, no driver, or no CUDA in this build. Never fails. */
int device_count(void);

/* Ranks that are threads of one process share one struct device. */
int device_open(struct device **out, int ordinal, struct error *err);
void device_close(struct device *device); /* destroy its streams, ranges and kernels first */
/* Enables peer access: memory that is committed later on one of the devices can be read and written by streams of all.
 * STATUS_RUN: two of the GPUs cannot access each other's memory. */
enum { DEVICES_MOST = 64 };
int device_share(struct device *const *devices, int count, struct error *err);

struct device_info {
    char name[64];           /* "NVIDIA H100 80GB HBM3" */
    char bus[16];            /* "0000:1b:00.0": the same GPU has another ordinal where CUDA_VISIBLE_DEVICES differs */
    int major, minor;        /* compute capability: 9.0 */
    int processors;          /* multiprocessors */
    uint64_t total_bytes;
    uint64_t granularity;    /* bytes of a page of a range: 2 MiB */
};
const struct device_info *device_info(const struct device *device);

/* The free bytes of the whole GPU; memory of other processes counts as used. */
int device_free_bytes(struct device *device, uint64_t *free_bytes, struct error *err);
/* The GPU's memory in use that no range of this device counts: contexts, kernels' code, workspaces, libraries' buffers,
 * and other processes' memory. Measured as total minus free minus the ranges' committed bytes. */
int device_outside_bytes(struct device *device, uint64_t *bytes, uint64_t *free_bytes, struct error *err);
/* The properties and free bytes of a GPU, for a process that will not use it: closes everything again, also the context. */
int device_look(int ordinal, struct device_info *info, uint64_t *free_bytes, struct error *err);

/* ---- streams and events -------------------------------------------------------------------------------------------- */

/* name: the lane's name for error messages; the pointer is kept. */
int device_stream_create(struct device_stream **out, struct device *device, const char *name, struct error *err);
void device_stream_destroy(struct device_stream *stream); /* waits for the stream's work */
/* Sleeps until all work that was sent to the stream is done. */
int device_stream_wait(struct device_stream *stream, struct error *err);
/* Work that is sent to the stream from now on waits until the event's last record has happened, on any GPU. The call
 * itself does not wait. */
int device_stream_await(struct device_stream *stream, const struct device_event *event, struct error *err);

int device_event_create(struct device_event **out, struct device *device, struct error *err);
void device_event_destroy(struct device_event *event);
int device_event_record(struct device_event *event, struct device_stream *stream, struct error *err);
/* Whether the event's last record has happened; true for an event that was never recorded. */
int device_event_query(struct device_event *event, bool *happened, struct error *err);
int device_event_wait(struct device_event *event, struct error *err); /* sleeps */
/* The time of the event's last record on the host's clock_ns(); the event must have happened. GPU time is counted from
 * a base event whose time on the host's clock was measured. A new base is measured after four seconds at the latest;
 * two bases give the rate of the GPU's clock. *error_ns (may be NULL) is the possible error: some microseconds, more
 * for an event long past or after a long time without calls. So the times of two events may be in the wrong order by
 * that much. May wait some microseconds for the GPU; safe from any thread. */
int device_event_time(struct device_event *event, uint64_t *at_ns, uint64_t *error_ns, struct error *err);
/* The time between two events that have happened on the same GPU, by that GPU's clock. */
int device_event_between(const struct device_event *first, const struct device_event *last, uint64_t *ns, struct error *err);

/* ---- memory -------------------------------------------------------------------------------------------------------- */

/* Reserved addresses, parts of which have committed memory, as engine/memory/pages.h has them on the host. */
struct device_range {
    struct device *device;
    unsigned char *base; /* device pointer: the host must not dereference it */
    uint64_t bytes;      /* rounded up to whole pages of granularity */
    unsigned char *pages; /* the state of each page */
    uint64_t committed_bytes;
    bool imported;       /* device_range_import() */
};
int device_range_reserve(struct device_range *range, struct device *device, uint64_t bytes, struct error *err);
void device_range_release(struct device_range *range); /* also returns committed pages */
/* Commits the bytes [first, end), multiples of the granularity: all of them or none. Pages that are already committed are skipped.
 * The bytes of new pages are undefined. STATUS_RUN also if the GPU has no memory left. */
int device_range_commit(struct device_range *range, uint64_t first, uint64_t end, struct error *err);
/* Returns memory in the pieces in which it was committed (range.cu): pieces that lie in [*first, *end), until `wanted` bytes are back.
 * Then [*first, *end) extends from the first returned piece to the last, also after an error; it is empty if none was returned. No
 * stream may still use the memory. */
int device_range_return(struct device_range *range, uint64_t *first, uint64_t *end, uint64_t wanted, struct error *err);

/* ---- memory of other processes -------------------------------------------------------------------------------------- */

/* Memory that is committed from now on can be given to other processes. */
void device_export(struct device *device);
/* The piece of the byte at `at`: the bytes [first, end) that were committed together with it; false: that byte is not committed. */
bool device_range_piece(const struct device_range *range, uint64_t at, uint64_t *first, uint64_t *end);
/* A file descriptor for the piece that begins at `first`, which the caller closes. */
int device_range_export(const struct device_range *range, uint64_t first, int *fd, struct error *err);
/* Maps the piece [first, end) of another process's range at the same offsets of `range`, which must have the same size and contain only
 * such pieces. The memory counts as committed only in the process that committed it. It is freed when no process maps it any more. The
 * caller keeps fd. */
int device_range_import(struct device_range *range, uint64_t first, uint64_t end, int fd, struct error *err);

/* Pins host memory that the caller owns, so that copies from and to it run asynchronously and at full speed. */
int device_pin(struct device *device, void *host, uint64_t bytes, struct error *err);
int device_unpin(struct device *device, void *host, struct error *err);

/* Sends a copy; the addresses tell host and device memory apart. A copy from or to unpinned host memory returns only
 * when that memory may be used again. */
int device_copy(struct device_stream *stream, void *to, const void *from, uint64_t bytes, struct error *err);
int device_set(struct device_stream *stream, void *to, int byte, uint64_t bytes, struct error *err);

/* ---- kernels ------------------------------------------------------------------------------------------------------- */

/* Makes the kernels of kernels.h, whose calls enqueue work on the stream. Tensors, scratch and losses are device pointers; `factors`,
 * shapes and structs of arguments are host memory, read before the call returns. A call that returns a number waits for it.
 * kernels_linear_* and kernels_check() report work that CUDA refused. The kernels own a workspace of about 36 MiB, which counts as
 * outside. Bits depend on shapes and on the GPU's model, not on the run. Scratch: the *_cuda_bytes() functions of scratch.h. */
int kernels_create_cuda(struct kernels **out, struct device *device, struct device_stream *stream, struct error *err);

/* For tests and benchmarks: chooses between attention with warpgroup instructions (wgmma; the default where GPU and
 * build have them) and with warp instructions, which every GPU has. Returns whether attention now uses warpgroups. */
bool kernels_cuda_groups(struct kernels *kernels, bool wanted);

/* Whether products may compute GELU, where the library can; the default. Their bits differ from those of our own kernel, which rounds
 * once more. If the library refuses such a product when it is to run, these kernels use their own from then on: `refused` says why. */
void kernels_cuda_fuse_gelu(struct kernels *kernels, bool wanted);
bool kernels_cuda_gelu_refused(const struct kernels *kernels, struct error *why);

/* Sends a kernels_reduce() to the stream, with the same bits. The sources are on the stream's device or on a device
 * shared with it (device_share()). At most DEVICE_REDUCE_SOURCES sources; `destination` may be one of them. */
enum { DEVICE_REDUCE_SOURCES = 64 };
struct reduce_factors;
int device_reduce(struct device_stream *stream, enum dtype dtype, enum dtype to, void *destination,
                  const void *const *sources, int count, const struct reduce_factors *factors, int64_t elems,
                  bool accumulate, struct error *err);

#ifdef __cplusplus
}
#endif
