/* Ranks joined by NCCL. See clique.h.
 *
 * Communicators do not block: a call that waits for other ranks returns "in progress", and the rank polls until it is
 * done. So a rank is never inside NCCL for long, and another rank may abort its communicator, which ends a wait on the
 * GPU. Each communicator has a lock for that, held during every call, but not while its rank sleeps.
 *
 * An abort is collective: NCCL's manual asks for it by all ranks of a node, or it may not return. So no rank gives up alone:
 * clique_break() aborts all communicators at once, each in a thread, because their ranks may be waiting for their GPUs. */
#include "kernels/cuda/clique.h"
#include "kernels/cuda/nccl.cuh"
#include "kernels/cuda/runtime.cuh"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct communicator {
    struct clique *clique;
    struct communicator *next;
    struct device_stream *stream;
    int rank;
    pthread_mutex_t lock;
    ncclComm_t handle; /* NULL: not made yet, or given up */
    pthread_t aborts;
    char *met;         /* on the GPU: a byte of each rank, for communicator_meet() */
};

struct clique {
    struct nccl nccl;
    int ranks;
    struct clique_id id;
    pthread_mutex_t lock;
    bool broken; /* atomic: ranks read it without the lock */
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

int clique_make_id(struct clique_id *id, struct error *err)
{
    struct nccl nccl;
    ncclUniqueId made;
    static_assert(sizeof made == sizeof *id, "an identifier of NCCL has another size");
    int status = nccl_open(&nccl, err);
    if (status) return status;
    const ncclResult_t result = nccl.ncclGetUniqueId(&made);
    if (result == ncclSuccess) memcpy(id, &made, sizeof made);
    else status = error_set(err, STATUS_RUN, "NCCL cannot begin: %s", nccl.ncclGetErrorString(result));
    nccl_close(&nccl);
    return status;
}

/* ---- the clique ------------------------------------------------------------------------------------------------------------- */

/* Between GPUs of one process NCCL accesses the callers' arrays directly, which works for memory of cudaMalloc(). Our arrays are pages
 * that only their own GPU can access (range.cu). With this setting NCCL uses its own buffers, as between processes. */
int clique_open(struct clique **out, int ranks, const struct clique_id *id, struct error *err)
{
    setenv("NCCL_P2P_DIRECT_DISABLE", "1", 1);
    struct clique *clique = (struct clique *)calloc(1, sizeof *clique);
    if (!clique) return error_set(err, STATUS_RUN, "no memory for NCCL");
    clique->ranks = ranks;
    clique->id = *id;
    pthread_mutex_init(&clique->lock, NULL);
    int status = nccl_open(&clique->nccl, err);
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

static bool clique_is_broken(const struct clique *clique)
{
    return __atomic_load_n(&clique->broken, __ATOMIC_SEQ_CST);
}

static void *communicator_abort(void *user)
{
    struct communicator *c = (struct communicator *)user;
    pthread_mutex_lock(&c->lock);
    ncclComm_t handle = c->handle;
    c->handle = NULL;
    pthread_mutex_unlock(&c->lock);
    device_use(c->stream->device, NULL);
    if (handle) c->clique->nccl.ncclCommAbort(handle);
    return NULL;
}

/* An abort may never return, if a rank of another process is gone. */
static void communicator_await_abort(struct communicator *c)
{
    enum { LONGEST_S = 10 };
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += LONGEST_S;
    if (pthread_timedjoin_np(c->aborts, NULL, &until) == 0) return;
    fprintf(stderr, "zerolab: GPU %d: NCCL does not end after a failure\n", c->stream->device->ordinal);
    _exit(STATUS_RUN);
}

/* A rank that is about to join sees that the clique is broken, or has a handle by the time its lock is taken here. */
void clique_break(struct clique *clique)
{
    pthread_mutex_lock(&clique->lock);
    __atomic_store_n(&clique->broken, true, __ATOMIC_SEQ_CST);
    for (struct communicator *c = clique->first; c; c = c->next)
        if (pthread_create(&c->aborts, NULL, communicator_abort, c)) abort(); /* or all ranks would wait for ever */
    for (struct communicator *c = clique->first; c; c = c->next) communicator_await_abort(c);
    pthread_mutex_unlock(&clique->lock);
}

/* This call also ends a group that NCCL works on in the background; then the result of the call is that of the group. */
static ncclResult_t state_of(struct communicator *c)
{
    ncclResult_t result = ncclSuccess;
    const ncclResult_t asked = c->clique->nccl.ncclCommGetAsyncError(c->handle, &result);
    return asked == ncclSuccess ? result : asked;
}

int clique_look(struct clique *clique, struct error *err)
{
    int status = STATUS_OK;
    pthread_mutex_lock(&clique->lock);
    for (struct communicator *c = clique->first; c && !status; c = c->next) {
        ncclResult_t result = ncclSuccess;
        pthread_mutex_lock(&c->lock);
        if (c->handle) result = state_of(c);
        pthread_mutex_unlock(&c->lock);
        if (result != ncclSuccess && result != ncclInProgress)
            status = error_set(err, STATUS_RUN, "GPU %d, NCCL: %s (NCCL_DEBUG=INFO says more)", c->stream->device->ordinal,
                               clique->nccl.ncclGetErrorString(result));
    }
    pthread_mutex_unlock(&clique->lock);
    return status;
}

static void clique_join(struct communicator *c)
{
    pthread_mutex_lock(&c->clique->lock);
    c->next = c->clique->first;
    c->clique->first = c;
    pthread_mutex_unlock(&c->clique->lock);
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
        result = state_of(c);
    }
    if (result == ncclSuccess) return STATUS_OK;
    return error_set(err, STATUS_RUN, "GPU %d, NCCL, %s: %s (NCCL_DEBUG=INFO says more)", c->stream->device->ordinal,
                     what, nccl->ncclGetErrorString(result));
}

/* The caller holds the lock. */
static int communicator_init(struct communicator *c, int rank, struct error *err)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclUniqueId id;
    config.blocking = 0;
    if (clique_is_broken(c->clique)) return given_up(c, err);
    memcpy(&id, &c->clique->id, sizeof id);
    int status = cuda_result(err, "making room for meetings", cudaMalloc((void **)&c->met, (size_t)c->clique->ranks));
    if (status) return status;
    const ncclResult_t result =
        c->clique->nccl.ncclCommInitRankConfig(&c->handle, c->clique->ranks, id, rank, &config);
    return communicator_settle(c, "joining the ranks", result, err);
}

int communicator_open(struct communicator **out, struct clique *clique, int rank, struct device_stream *stream,
                      struct error *err)
{
    struct communicator *c = (struct communicator *)calloc(1, sizeof *c);
    if (!c) return error_set(err, STATUS_RUN, "no memory for NCCL");
    c->clique = clique;
    c->stream = stream;
    c->rank = rank;
    pthread_mutex_init(&c->lock, NULL);
    clique_join(c);
    int status = device_use(stream->device, err);
    pthread_mutex_lock(&c->lock);
    if (!status) status = communicator_init(c, rank, err);
    pthread_mutex_unlock(&c->lock);
    if (!status) return *out = c, STATUS_OK;
    clique_break(clique);
    communicator_close(c);
    return status;
}

void communicator_close(struct communicator *c)
{
    if (!c) return;
    const struct nccl *nccl = &c->clique->nccl;
    int status = STATUS_OK;
    pthread_mutex_lock(&c->lock);
    if (c->handle) {
        device_use(c->stream->device, NULL);
        status = communicator_settle(c, "parting", nccl->ncclCommFinalize(c->handle), NULL);
        if (!status) nccl->ncclCommDestroy(c->handle);
        if (!status) c->handle = NULL;
    }
    pthread_mutex_unlock(&c->lock);
    if (status) clique_break(c->clique);
    clique_leave(c);
    pthread_mutex_destroy(&c->lock);
    cudaFree(c->met);
    free(c);
}

/* ---- passing ---------------------------------------------------------------------------------------------------------------- */

static ncclDataType_t type_of(enum dtype dtype)
{
    return dtype == DTYPE_F32 ? ncclFloat32 : dtype == DTYPE_BF16 ? ncclBfloat16 : ncclFloat16;
}

static ncclResult_t send_one(struct communicator *c, const struct transfer *t)
{
    const struct nccl *nccl = &c->clique->nccl;
    const cudaStream_t stream = c->stream->handle;
    const size_t bytes = (size_t)t->bytes, width = (size_t)dtype_bytes(t->dtype);
    switch (t->way) {
    case TRANSFER_SEND: return nccl->ncclSend(t->from, bytes, ncclUint8, t->peer, c->handle, stream);
    case TRANSFER_RECEIVE: return nccl->ncclRecv(t->to, bytes, ncclUint8, t->peer, c->handle, stream);
    case TRANSFER_SUM: return nccl->ncclReduce(t->from, t->to, bytes / width, type_of(t->dtype), ncclSum, t->peer, c->handle, stream);
    case TRANSFER_SUM_RANGES:
        return nccl->ncclReduceScatter(t->from, t->to, bytes / width, type_of(t->dtype), ncclSum, c->handle, stream);
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

int communicator_meet(struct communicator *c, struct error *err)
{
    const struct transfer all = {TRANSFER_GATHER, 0, c->met + c->rank, c->met, 1, DTYPE_F32};
    return communicator_pass(c, &all, 1, err);
}
