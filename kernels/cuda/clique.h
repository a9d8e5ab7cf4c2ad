/* Joins ranks, each with its own GPU, by NCCL. The ranks are threads of one process, which share one clique, or processes on one
 * or several machines, each with a clique of its own. Each rank has a communicator, which enqueues its work on the rank's stream.
 *
 *     clique_make_id(&id, err)                                    one rank, whose `id` all others get
 *     clique_open(&clique, ranks, &id, err)                       once in each process
 *     communicator_open(&mine, clique, rank, stream, err)         every rank, at once: it waits for the others
 *     communicator_pass(mine, transfers, count, err)              enqueued: device_stream_wait() waits for it
 *     communicator_close(mine)                                    every rank
 *     clique_close(clique)
 *
 * If a rank fails, the others would wait for it for ever, on their GPUs or in communicator_open(). clique_break() ends
 * all such waits of this process, now and later. clique_open() loads the library, libnccl.so.2, which is not linked because it has
 * 200 MB. Errors are STATUS_RUN; in a build without NCCL, STATUS_USAGE. */
#pragma once

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

/* The version of the header that zerolab was built with, "NCCL 2.28.9"; false: built without NCCL. */
bool clique_build_text(char *text, size_t room);
/* The version of the installed library; an error if there is none, or if it is too old. */
int clique_library_text(char *text, size_t room, struct error *err);

/* The id by which the ranks of a clique find each other: bytes without pointers, which can be sent to other processes. */
struct clique_id { char bytes[128]; };
int clique_make_id(struct clique_id *id, struct error *err);
int clique_open(struct clique **out, int ranks, const struct clique_id *id, struct error *err);
void clique_close(struct clique *clique); /* close the communicators first */
/* Ends all waits for other ranks after a rank has failed. Safe from any thread, and more than once. */
void clique_break(struct clique *clique);
/* STATUS_RUN: NCCL has found in the background that a rank of another process is gone. Safe from any thread. */
int clique_look(struct clique *clique, struct error *err);

/* The rank uses the stream's device; no two ranks may use the same device. */
int communicator_open(struct communicator **out, struct clique *clique, int rank, struct device_stream *stream, struct error *err);
void communicator_close(struct communicator *communicator);
/* Enqueues a list of transfers of memory on the stream's device, and returns. After clique_break() the enqueued work is aborted. */
int communicator_pass(struct communicator *communicator, const struct transfer *transfers, int count, struct error *err);
/* Enqueues a barrier of the streams of all ranks: an all-gather of one byte. For ranks whose events other ranks cannot wait for. */
int communicator_meet(struct communicator *communicator, struct error *err);

#ifdef __cplusplus
}
#endif
