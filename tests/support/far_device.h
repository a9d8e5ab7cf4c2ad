/* A device that stands in for a GPU: its memory is this machine's, but out of reach for whoever is not working on it (by a
 * protection key, where the processor has them), its pages are large, and what its movers are asked to do they do only when
 * they have to. Kernels are the CPU's, so bits must be those of a run without it. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "engine/base/clock.h"
#include "engine/comm/comm.h"
#include "engine/memory/mover.h"
#include "engine/memory/pages.h"
#include "engine/zero/lane_stream.h"
#include "engine/zero/zero.h"
#include "kernels/backend.h"

enum { FAR_UNIT_BYTES = 64 << 10, FAR_QUEUE = 64 };

static int far_key = -1; /* -1: no protection keys here */

static inline void far_enter(void)
{
    if (far_key >= 0) pkey_set(far_key, 0);
}

static inline void far_leave(void)
{
    if (far_key >= 0) pkey_set(far_key, PKEY_DISABLE_ACCESS);
}

/* ---- pages ---- */

#define FAR_ROOM_BYTES ((int64_t)1 << 40)
static _Atomic int64_t far_room_bytes = FAR_ROOM_BYTES; /* what all ranks together may still commit */

static inline void *far_reserve(void *user, uint64_t bytes, struct error *err)
{
    (void)user;
    void *base = mmap(NULL, round_up(bytes, FAR_UNIT_BYTES), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base != MAP_FAILED) return base;
    error_set(err, STATUS_RUN, "no addresses");
    return NULL;
}

static inline void far_unreserve(void *user, void *base, uint64_t bytes)
{
    (void)user;
    munmap(base, round_up(bytes, FAR_UNIT_BYTES));
}

static inline int far_commit(void *user, unsigned char *base, uint64_t first, uint64_t end, struct error *err)
{
    (void)user;
    const int all = PROT_READ | PROT_WRITE;
    if (first % FAR_UNIT_BYTES || end % FAR_UNIT_BYTES) abort();
    if (atomic_fetch_sub(&far_room_bytes, (int64_t)(end - first)) < (int64_t)(end - first)) {
        atomic_fetch_add(&far_room_bytes, (int64_t)(end - first));
        return error_set(err, STATUS_RUN, "the device is full");
    }
    int refused = mprotect(base + first, end - first, all);
    if (!refused) memset(base + first, 0xa5, end - first); /* nobody may count on zeros */
    if (!refused && far_key >= 0) refused = pkey_mprotect(base + first, end - first, all, far_key);
    return refused ? error_set(err, STATUS_RUN, "no pages") : STATUS_OK;
}

static inline struct run far_give_back(void *user, unsigned char *base, struct run idle, uint64_t wanted)
{
    (void)user;
    if (idle.first % FAR_UNIT_BYTES || idle.end % FAR_UNIT_BYTES) abort();
    if (idle.end - idle.first > wanted) idle.end = idle.first + round_up(wanted, FAR_UNIT_BYTES);
    madvise(base + idle.first, idle.end - idle.first, MADV_DONTNEED);
    mprotect(base + idle.first, idle.end - idle.first, PROT_NONE);
    atomic_fetch_add(&far_room_bytes, (int64_t)(idle.end - idle.first));
    return idle;
}

static const struct pages far_pages = {
    .unit_bytes = FAR_UNIT_BYTES, .reserve = far_reserve, .unreserve = far_unreserve, .commit = far_commit, .give_back = far_give_back};

/* ---- a stream: what was asked for, and is done later, in order ---- */

struct far_task { void *to; const void *from; uint64_t bytes; }; /* from NULL: zeros */
struct far_stream { pthread_mutex_t lock; struct far_task tasks[FAR_QUEUE]; int count; };

static inline void far_carry_out(struct far_stream *stream)
{
    far_enter();
    for (int t = 0; t < stream->count; t++) {
        const struct far_task *task = &stream->tasks[t];
        if (task->from) memcpy(task->to, task->from, task->bytes);
        else memset(task->to, 0, task->bytes);
    }
    stream->count = 0;
    far_leave();
}

static inline int far_finish(void *user, struct error *err)
{
    struct far_stream *stream = user;
    (void)err;
    pthread_mutex_lock(&stream->lock);
    far_carry_out(stream);
    pthread_mutex_unlock(&stream->lock);
    return STATUS_OK;
}

static inline int far_ask(struct far_stream *stream, struct far_task task)
{
    pthread_mutex_lock(&stream->lock);
    if (stream->count == FAR_QUEUE) far_carry_out(stream);
    if (task.bytes) stream->tasks[stream->count++] = task;
    pthread_mutex_unlock(&stream->lock);
    return STATUS_OK;
}

/* Of a lane that runs ahead: a mark is a place in the queue, and all of the queue is done when one is awaited or reached. */
static inline int far_mark(void *user, int mark, struct error *err)
{
    (void)user, (void)mark, (void)err;
    return STATUS_OK;
}

static inline int far_await(void *user, const struct lane_stream *other, int mark, struct error *err)
{
    (void)mark;
    far_finish(user, err); /* what was asked for before does not wait */
    return far_finish(other->user, err);
}

static inline int far_reach(void *user, int mark, uint64_t *at_ns, struct error *err)
{
    (void)mark;
    far_finish(user, err);
    *at_ns = clock_ns();
    return STATUS_OK;
}

static inline int far_copy(void *user, void *to, const void *from, uint64_t bytes, struct error *err)
{
    (void)err;
    return far_ask(user, (struct far_task){to, from, bytes});
}

static inline int far_clear(void *user, void *at, uint64_t bytes, struct error *err)
{
    (void)err;
    return far_ask(user, (struct far_task){at, NULL, bytes});
}

/* ---- inside collectives ---- */

struct far_device;
static inline struct far_stream *far_device_ops(struct far_device *far);
static inline struct far_device *far_other(struct far_device *far, int rank); /* NULL: that was the last */

/* As with marks: where it has come to is where its queue ends by the time that others meet it, or later. */
static inline int far_come(void *user, int meeting, struct error *err)
{
    (void)user, (void)meeting, (void)err;
    return STATUS_OK;
}

static inline int far_meet(void *user, int meeting, struct error *err)
{
    (void)meeting;
    far_finish(far_device_ops(user), err);
    for (int r = 0; far_other(user, r); r++) far_finish(far_device_ops(far_other(user, r)), err);
    return STATUS_OK;
}

static inline int far_waited(void *user, int meeting, uint64_t *ns, struct error *err)
{
    (void)user, (void)meeting, (void)err;
    *ns = 1;
    return STATUS_OK;
}

static inline int far_reduce(void *user, enum dtype dtype, enum dtype to, void *destination, const void *const *sources, int count,
                             const struct reduce_factors *factors, int64_t elems, bool accumulate, struct error *err)
{
    far_finish(far_device_ops(user), err);
    far_enter();
    kernels_reduce(dtype, to, destination, sources, count, factors, elems, accumulate);
    far_leave();
    return STATUS_OK;
}

/* ---- kernels: the CPU's, behind what their stream has still to do ---- */

struct far_kernels { struct kernels head; struct kernels *inner; struct far_stream *stream; };

static inline struct kernels *far_begin(struct kernels *kernels)
{
    struct far_kernels *far = (struct far_kernels *)kernels;
    far_finish(far->stream, NULL);
    far_enter();
    return far->inner;
}

static inline void far_end(struct kernels **inner)
{
    (void)inner;
    far_leave();
}

#define KERNEL(type, name, parameters, arguments)                                            \
    static inline type far_##name parameters                                                 \
    {                                                                                        \
        struct kernels *inner __attribute__((cleanup(far_end))) = far_begin(kernels);        \
        kernels = inner;                                                                     \
        return kernels->backend->name arguments;                                             \
    }
#include "kernels/kernels.def"
#undef KERNEL

static inline void far_free(struct kernels *kernels)
{
    kernels_free(((struct far_kernels *)kernels)->inner);
}

static inline bool far_native_products(const struct kernels *kernels, enum dtype dtype)
{
    return kernels_native_products(((const struct far_kernels *)kernels)->inner, dtype);
}

static inline int far_check(struct kernels *kernels, struct error *err)
{
    (void)kernels, (void)err;
    return STATUS_OK;
}

static const struct backend far_backend = {
    .free = far_free,
    .native_products = far_native_products,
    .check = far_check,
#define KERNEL(type, name, parameters, arguments) .name = far_##name,
#include "kernels/kernels.def"
#undef KERNEL
};

/* ---- all of it, for one rank ---- */

struct far_device {
    struct far_kernels kernels;
    struct far_stream streams[LANES];
    struct mover movers[LANES];
    struct lane_stream ahead[LANES];
    struct comm_device_ops device_ops;
    struct zero_device device;
    struct far_device *all; /* by rank, of `ranks`, this one too */
    int ranks;
};

static inline struct far_stream *far_device_ops(struct far_device *far)
{
    return &far->streams[LANE_COMM];
}

static inline struct far_device *far_other(struct far_device *far, int rank)
{
    return rank < far->ranks ? &far->all[rank] : NULL;
}

/* Once, before there are threads: those that start later begin out of reach. */
static inline bool far_protect(void)
{
    far_key = pkey_alloc(0, PKEY_DISABLE_ACCESS);
    return far_key >= 0;
}

/* all: those of all ranks. ahead: lanes run ahead. */
static inline int far_open(struct far_device *far, struct far_device *all, int ranks, int threads, bool ahead, struct error *err)
{
    memset(far, 0, sizeof *far);
    far->all = all;
    far->ranks = ranks;
    for (int lane = 0; lane < LANES; lane++) {
        far->movers[lane] = (struct mover){&far->streams[lane], far_copy, far_clear, far_finish};
        far->device.movers[lane] = lane == LANE_HOST ? NULL : &far->movers[lane];
        pthread_mutex_init(&far->streams[lane].lock, NULL);
        far->ahead[lane] = (struct lane_stream){&far->streams[lane], far_mark, far_await, far_reach};
        if (ahead && (lane == LANE_COMPUTE || lane == LANE_COMM || lane == LANE_D2H || lane == LANE_H2D)) far->device.streams[lane] = &far->ahead[lane];
    }
    far->kernels = (struct far_kernels){.head = {.backend = &far_backend, .threads = threads}, .stream = &far->streams[LANE_COMPUTE]};
    far->device_ops = (struct comm_device_ops){.mover = &far->movers[LANE_COMM], .user = far, .reduce = far_reduce};
    if (ahead) far->device_ops.come = far_come, far->device_ops.meet = far_meet, far->device_ops.waited = far_waited;
    far->device.pages = &far_pages;
    far->device.device_ops = &far->device_ops;
    far->device.kernels = &far->kernels.head;
    return kernels_create(&far->kernels.inner, threads, NULL, err);
}

static inline void far_close(struct far_device *far)
{
    kernels_free(far->kernels.inner);
    for (int lane = 0; lane < LANES; lane++) pthread_mutex_destroy(&far->streams[lane].lock);
}
