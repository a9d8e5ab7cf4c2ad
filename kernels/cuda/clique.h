/* Ranks of one process, each with a GPU of its own, joined by NCCL. What they share is the clique; each has a communicator, whose
 * work goes to a stream like any other.
 *
 *     clique_open(&clique, ranks, err)                            once
 *     communicator_open(&mine, clique, rank, stream, err)         every rank, at once: it waits for the others
 *     communicator_pass(mine, transfers, count, err)              sent to the stream: device_stream_wait() waits for it
 *     communicator_close(mine)                                    every rank
 *     clique_close(clique)
 *
 * Who waits for a rank that will not come waits for ever: on the GPU, or in communicator_open(). clique_break() ends all that, now
 * and later. The library, libnccl.so.2, is opened by clique_open() and not linked: it is 200 MB. Errors are STATUS_RUN;
 * where zerolab was built without NCCL, STATUS_USAGE. */
#ifndef KERNELS_CUDA_CLIQUE_H
#define KERNELS_CUDA_CLIQUE_H

#ifdef __cplusplus
extern "C" {
#endif

#include <stdbool.h>
#include <stddef.h>

#include "engine/base/error.h"
#include "engine/base/transfer.h"
#include "kernels/cuda/device.h"

struct clique;
struct communicator;

/* The version whose header zerolab was built with, "NCCL 2.28.9"; false: it was built without. */
bool clique_build_text(char *text, size_t room);
/* The version of the library that is here; an error where there is none, or a too old one. */
int clique_library_text(char *text, size_t room, struct error *err);

int clique_open(struct clique **out, int ranks, struct error *err);
void clique_close(struct clique *clique); /* communicators first */
/* For a rank that will not take part any more: nobody waits for it. Any thread, once is enough. */
void clique_break(struct clique *clique);

/* The stream's device is the rank's; no two ranks may have the same. */
int communicator_open(struct communicator **out, struct clique *clique, int rank, struct device_stream *stream, struct error *err);
void communicator_close(struct communicator *communicator);
/* Of a list with bytes of the stream's device. Returns when it is sent. After clique_break() the stream's work ends undone. */
int communicator_pass(struct communicator *communicator, const struct transfer *transfers, int count, struct error *err);

#ifdef __cplusplus
}
#endif

#endif
