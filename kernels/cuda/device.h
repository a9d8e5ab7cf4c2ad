/* One NVIDIA GPU as the engine sees it: memory, streams, events, copies, and a struct kernels whose work goes to a stream.
 * Plain C; nothing of CUDA shows through, and where zerolab was built without it, device_count() is 0 and device_open() says
 * so. In the words of the engine: memory is the device tier, a stream is a lane, an event is where a lane has come to.
 *
 *     struct device *device;                          struct device_stream *compute, *copy;
 *     device_open(&device, 0, err)                    device_stream_create(&compute, device, "compute", err)
 *     device_range_reserve(&range, device, bytes, err)
 *     device_range_commit(range, 0, granularity, err)         range.base is now memory of the GPU
 *     device_copy(copy, range.base, tokens, bytes, err)
 *     device_event_record(arrived, copy, err)                 here the copy lane has come to ...
 *     device_stream_await(compute, arrived, err)              ... and compute goes on from there
 *     kernels_create_cuda(&kernels, device, compute, err)
 *     kernels_embed_forward(kernels, ...)                     returns at once
 *     device_stream_wait(compute, err)                        returns when all that was sent is done, or says what failed
 *
 * Everything on a stream happens in the order in which it was sent; streams know nothing of each other but by events. A call
 * that sends returns before the work is done. An error of the GPU comes back from some later call, which names the stream and
 * what was sent to it last; it stays: nothing works on that device any more. All functions may be called from any thread,
 * one thread at a time for each stream. Errors are STATUS_RUN. */
#ifndef KERNELS_CUDA_DEVICE_H
#define KERNELS_CUDA_DEVICE_H

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

/* "CUDA 13.0", what products are multiplied with, and whether Hopper's own instructions are used; "no CUDA" where zerolab was
 * built without. */
void device_build_text(char *text, size_t room);
/* GPUs that can be opened; 0 where there is none, no driver, or no CUDA in this build. Never fails. */
int device_count(void);

/* Ranks that are threads of one process share one struct device. */
int device_open(struct device **out, int ordinal, struct error *err);
void device_close(struct device *device); /* streams, ranges and kernels first */
/* Puts them within each other's reach: what is committed from now on in a range of one, streams of all of them read and write.
 * STATUS_RUN: the machine has no way between two of them. */
enum { DEVICES_MOST = 64 };
int device_share(struct device *const *devices, int count, struct error *err);

struct device_info {
    char name[64];           /* "NVIDIA H100 80GB HBM3" */
    int major, minor;        /* compute capability: 9.0 */
    int processors;          /* multiprocessors */
    int64_t l2_bytes;
    uint64_t total_bytes;
    uint64_t granularity;    /* pages of a range are multiples of it: 2 MiB */
};
const struct device_info *device_info(const struct device *device);

/* Of the whole GPU, whoever took it. */
int device_free_bytes(struct device *device, uint64_t *free_bytes, struct error *err);
/* What the GPU holds that no range of this device counts: the context, kernels' code, workspaces, libraries' own buffers. Measured
 * as total less free less what ranges have committed; what other processes hold on the same GPU is counted in. */
int device_outside_bytes(struct device *device, uint64_t *bytes, uint64_t *free_bytes, struct error *err);
/* What a GPU is and has free, of a process that is not going to use it: nothing of it stays open, not even a context. */
int device_look(int ordinal, struct device_info *info, uint64_t *free_bytes, struct error *err);

/* ---- streams and events -------------------------------------------------------------------------------------------- */

/* name: of the lane, for errors; kept. */
int device_stream_create(struct device_stream **out, struct device *device, const char *name, struct error *err);
void device_stream_destroy(struct device_stream *stream); /* waits for what was sent */
/* Sleeps until all that was sent is done. */
int device_stream_wait(struct device_stream *stream, struct error *err);
/* What is sent to the stream from now on waits until the event's last record has happened, on whichever GPU. Does not wait
 * itself. */
int device_stream_await(struct device_stream *stream, const struct device_event *event, struct error *err);

int device_event_create(struct device_event **out, struct device *device, struct error *err);
void device_event_destroy(struct device_event *event);
int device_event_record(struct device_event *event, struct device_stream *stream, struct error *err);
/* Whether its last record has happened; an event never recorded has. */
int device_event_query(struct device_event *event, bool *happened, struct error *err);
int device_event_wait(struct device_event *event, struct error *err); /* sleeps */
/* When its last record happened, on the host's clock_ns(). Only of an event that has happened. GPU time is counted from a base
 * event whose place on the host's clock was measured, and is measured anew every four seconds at the latest; from two of them
 * follows how fast the GPU's clock runs. How far off the answer may be is *error_ns (NULL: not asked): some microseconds, more
 * for an event long past or where nothing was asked for long. Answers for two events may so be in another order than the
 * events, by as much. May wait some microseconds for the GPU; for any thread. */
int device_event_time(struct device_event *event, uint64_t *at_ns, uint64_t *error_ns, struct error *err);
/* From one to the other, by the clock of the GPU on which both have happened. */
int device_event_between(const struct device_event *first, const struct device_event *last, uint64_t *ns, struct error *err);

/* ---- memory -------------------------------------------------------------------------------------------------------- */

/* Addresses without memory, and memory under parts of it: what engine/memory/pages.h is to the host. */
struct device_range {
    struct device *device;
    unsigned char *base; /* of the GPU: not for the host to touch */
    uint64_t bytes;      /* rounded up to whole pages of granularity */
    void *pages;         /* which are committed, and how many bytes that is */
    uint64_t committed_bytes;
};
int device_range_reserve(struct device_range *range, struct device *device, uint64_t bytes, struct error *err);
void device_range_release(struct device_range *range); /* with what is committed */
/* Commits or returns [first, end), multiples of the granularity. Committing is all or nothing; where returning fails, what lies
 * before the page that was refused is gone. Committing what is committed, or returning what is not, does nothing. Streams must
 * be done with what is returned. STATUS_RUN also when the GPU's memory is used up. */
int device_range_commit(struct device_range *range, uint64_t first, uint64_t end, struct error *err);
int device_range_return(struct device_range *range, uint64_t first, uint64_t end, struct error *err);

/* Pins host memory that the caller owns, so that copies from and to it run while the host does other things, at full speed. */
int device_pin(struct device *device, void *host, uint64_t bytes, struct error *err);
int device_unpin(struct device *device, void *host, struct error *err);

/* Sends a copy; of what to what, the addresses say. From or to host memory that is not pinned it returns only when the host's
 * side may be touched again. */
int device_copy(struct device_stream *stream, void *to, const void *from, uint64_t bytes, struct error *err);
int device_set(struct device_stream *stream, void *to, int byte, uint64_t bytes, struct error *err);

/* ---- kernels ------------------------------------------------------------------------------------------------------- */

/* All of kernels.h, enqueued on the stream, with pointers into the device's memory (tensors, scratch, losses; not `factors`, shapes
 * and structs of arguments, which are read before the call returns). The call that returns a number waits for it.
 * kernels_linear_* and kernels_check() report what was refused when it was sent. Holds a workspace of its own, some 36 MiB,
 * which counts as outside. Bits depend on shapes and on the kind of GPU, not on the run. Scratch: see scratch.h, *_cuda_bytes. */
int kernels_create_cuda(struct kernels **out, struct device *device, struct device_stream *stream, struct error *err);

/* For tests and figures: whether attention is done by the instructions of warpgroups that a GPU of 9.0 has (wgmma), as it is from
 * the beginning where they are, or by those of warps, which all have. Says whether it is by warpgroups now. */
bool kernels_cuda_groups(struct kernels *kernels, bool wanted);

/* kernels_reduce() over sources on the stream's device, or within its reach, sent to the stream; the same bits.
 * At most DEVICE_REDUCE_SOURCES sources; `destination` may be one of them. */
enum { DEVICE_REDUCE_SOURCES = 64 };
struct reduce_factors;
int device_reduce(struct device_stream *stream, enum dtype dtype, enum dtype to, void *destination,
                  const void *const *sources, int count, const struct reduce_factors *factors, int64_t elems,
                  bool accumulate, struct error *err);

#ifdef __cplusplus
}
#endif

#endif
