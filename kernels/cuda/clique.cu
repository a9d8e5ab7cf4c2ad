/* Ranks joined by NCCL. See clique.h.
 *
 * Communicators do not block: a call that waits for other ranks returns "in progress", and the rank polls until it is
 * done. So a rank is never inside NCCL for long, and another rank may abort its communicator, which ends a wait on the
 * GPU. Each communicator has a lock for that, held during every call, but not while its rank sleeps. */
#include "kernels/cuda/clique.h"
#include "kernels/cuda/nccl.cuh"
#include "kernels/cuda/runtime.cuh"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct communicator {
    struct clique *clique;
    struct communicator *next;
    struct device_stream *stream;
    pthread_mutex_t lock;
    ncclComm_t handle; /* NULL: not made yet, or given up */
};

struct clique {
    struct nccl nccl;
    int ranks;
    ncclUniqueId id;
    pthread_mutex_t lock;
    bool broken;
    struct communicator *first;
};

/* ---- the library ---------------------------------------------------------------------------------------------------------- */

bool clique_build_text(char *text, size_t room)
{
    snprintf(text, room, "NCCL %d.%d.%d", NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH);
    return true;
}

int clique_library_text(char *text, size_t room, struct error *err)
{
    struct nccl nccl;
    int version = 0, status = nccl_open(&nccl, err);
    if (status) return status;
    nccl.ncclGetVersion(&version); /* major * 10000 + minor * 100 + patch, since 2.9 */
    snprintf(text, room, "NCCL %d.%d.%d", version / 10000, version / 100 % 100, version % 100);
    nccl_close(&nccl);
    return STATUS_OK;
}

/* ---- the clique ------------------------------------------------------------------------------------------------------------- */

/* Between GPUs of one process NCCL accesses the callers' arrays directly, which works for memory of cudaMalloc(). Our arrays are pages
 * that only their own GPU can access (range.cu). With this setting NCCL uses its own buffers, as between processes. */
int clique_open(struct clique **out, int ranks, struct error *err)
{
    setenv("NCCL_P2P_DIRECT_DISABLE", "1", 1);
    struct clique *clique = (struct clique *)calloc(1, sizeof *clique);
    if (!clique) return error_set(err, STATUS_RUN, "no memory for NCCL");
    clique->ranks = ranks;
    pthread_mutex_init(&clique->lock, NULL);
    int status = nccl_open(&clique->nccl, err);
    ncclResult_t result = status ? ncclSuccess : clique->nccl.ncclGetUniqueId(&clique->id);
    if (result != ncclSuccess)
        status = error_set(err, STATUS_RUN, "NCCL cannot begin: %s", clique->nccl.ncclGetErrorString(result));
    if (status) clique_close(clique);
    else *out = clique;
    return status;
}

void clique_close(struct clique *clique)
{
    if (!clique) return;
    nccl_close(&clique->nccl);
    pthread_mutex_destroy(&clique->lock);
    free(clique);
}

/* The caller holds the communicator's lock. */
static void communicator_give_up(struct communicator *c)
{
    ncclComm_t handle = c->handle;
    c->handle = NULL;
    device_use(c->stream->device, NULL);
    if (handle) c->clique->nccl.ncclCommAbort(handle);
}

void clique_break(struct clique *clique)
{
    pthread_mutex_lock(&clique->lock);
    clique->broken = true;
    for (struct communicator *c = clique->first; c; c = c->next) {
        pthread_mutex_lock(&c->lock);
        communicator_give_up(c);
        pthread_mutex_unlock(&c->lock);
    }
    pthread_mutex_unlock(&clique->lock);
}

/* False: the clique is broken. */
static bool clique_join(struct communicator *c)
{
    struct clique *clique = c->clique;
    pthread_mutex_lock(&clique->lock);
    const bool joins = !clique->broken;
    c->next = clique->first;
    if (joins) clique->first = c;
    pthread_mutex_unlock(&clique->lock);
    return joins;
}

static void clique_leave(struct communicator *c)
{
    pthread_mutex_lock(&c->clique->lock);
    struct communicator **link = &c->clique->first;
    while (*link && *link != c) link = &(*link)->next;
    if (*link) *link = c->next;
    pthread_mutex_unlock(&c->clique->lock);
}

/* ---- a communicator --------------------------------------------------------------------------------------------------------- */

static int given_up(struct communicator *c, struct error *err)
{
    return error_set(err, STATUS_RUN, "GPU %d: NCCL was given up, because another rank had failed",
                     c->stream->device->ordinal);
}

/* Waits until a call is done and returns its result. The caller holds the lock, which is released between polls. */
static int communicator_settle(struct communicator *c, const char *what, ncclResult_t result, struct error *err)
{
    const struct nccl *nccl = &c->clique->nccl;
    const struct timespec nap = {0, 50000};
    while (result == ncclInProgress) {
        pthread_mutex_unlock(&c->lock);
        nanosleep(&nap, NULL);
        pthread_mutex_lock(&c->lock);
        if (!c->handle) return given_up(c, err);
        const ncclResult_t asked = nccl->ncclCommGetAsyncError(c->handle, &result);
        if (asked != ncclSuccess) result = asked;
    }
    if (result == ncclSuccess) return STATUS_OK;
    return error_set(err, STATUS_RUN, "GPU %d, NCCL, %s: %s (NCCL_DEBUG=INFO says more)", c->stream->device->ordinal,
                     what, nccl->ncclGetErrorString(result));
}

static int communicator_init(struct communicator *c, int rank, struct error *err)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    int status = device_use(c->stream->device, err);
    if (status) return status;
    pthread_mutex_lock(&c->lock);
    const ncclResult_t result =
        c->clique->nccl.ncclCommInitRankConfig(&c->handle, c->clique->ranks, c->clique->id, rank, &config);
    status = communicator_settle(c, "joining the ranks", result, err);
    if (status) communicator_give_up(c);
    pthread_mutex_unlock(&c->lock);
    return status;
}

int communicator_open(struct communicator **out, struct clique *clique, int rank, struct device_stream *stream,
                      struct error *err)
{
    struct communicator *c = (struct communicator *)calloc(1, sizeof *c);
    if (!c) return error_set(err, STATUS_RUN, "no memory for NCCL");
    c->clique = clique;
    c->stream = stream;
    pthread_mutex_init(&c->lock, NULL);
    int status = clique_join(c) ? communicator_init(c, rank, err) : given_up(c, err);
    if (status) communicator_close(c);
    else *out = c;
    return status;
}

void communicator_close(struct communicator *c)
{
    if (!c) return;
    const struct nccl *nccl = &c->clique->nccl;
    pthread_mutex_lock(&c->lock);
    if (c->handle) {
        device_use(c->stream->device, NULL);
        if (communicator_settle(c, "parting", nccl->ncclCommFinalize(c->handle), NULL)) communicator_give_up(c);
        else nccl->ncclCommDestroy(c->handle);
        c->handle = NULL;
    }
    pthread_mutex_unlock(&c->lock);
    clique_leave(c);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

/* ---- passing ---------------------------------------------------------------------------------------------------------------- */

static ncclResult_t send_one(struct communicator *c, const struct transfer *t)
{
    const struct nccl *nccl = &c->clique->nccl;
    const cudaStream_t stream = c->stream->handle;
    const size_t bytes = (size_t)t->bytes;
    switch (t->way) {
    case TRANSFER_SEND: return nccl->ncclSend(t->from, bytes, ncclUint8, t->peer, c->handle, stream);
    case TRANSFER_RECEIVE: return nccl->ncclRecv(t->to, bytes, ncclUint8, t->peer, c->handle, stream);
    case TRANSFER_BROADCAST: return nccl->ncclBroadcast(t->from, t->to, bytes, ncclUint8, t->peer, c->handle, stream);
    default: return nccl->ncclAllGather(t->from, t->to, bytes, ncclUint8, c->handle, stream);
    }
}

/* Sends all transfers as one group, or sends and receives of several peers would wait for each other. Always ends the group. */
static ncclResult_t send_group(struct communicator *c, const struct transfer *transfers, int count)
{
    const struct nccl *nccl = &c->clique->nccl;
    ncclResult_t result = nccl->ncclGroupStart();
    if (result != ncclSuccess) return result;
    for (int t = 0; t < count && (result == ncclSuccess || result == ncclInProgress); t++)
        result = send_one(c, &transfers[t]);
    const ncclResult_t ended = nccl->ncclGroupEnd();
    return result == ncclSuccess || result == ncclInProgress ? ended : result;
}

int communicator_pass(struct communicator *c, const struct transfer *transfers, int count, struct error *err)
{
    int status = device_use(c->stream->device, err);
    if (status || count == 0) return status;
    pthread_mutex_lock(&c->lock);
    c->stream->last = "NCCL";
    status = c->handle ? communicator_settle(c, "passing", send_group(c, transfers, count), err) : given_up(c, err);
    pthread_mutex_unlock(&c->lock);
    return status;
}
