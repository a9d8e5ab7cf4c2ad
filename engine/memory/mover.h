/* Copies and clears bytes of a rank's memory. Without a device the calling thread copies, and the call returns when the copy is done.
 * With a device the lane's stream copies, in order and asynchronously; all requests have ended when mover_finish() returns. Such a
 * mover copies between any addresses of the device and the host (it cuts a copy at the borders of pinned memory), but clears only
 * addresses of the device: cudaMemsetAsync() refuses host memory that is not pinned, or not in one piece. A mover belongs to one thread
 * at a time. Errors: STATUS_RUN, from the device. */
#pragma once

#include <stdint.h>
#include <string.h>

#include "engine/base/error.h"

struct mover {
    void *user;
    int (*copy)(void *user, void *to, const void *from, uint64_t bytes, struct error *err); /* the two do not overlap */
    int (*clear)(void *user, void *at, uint64_t bytes, struct error *err);                  /* to zero */
    int (*finish)(void *user, struct error *err);
};

/* mover NULL: the calling thread. */
static inline int mover_copy(const struct mover *mover, void *to, const void *from, uint64_t bytes, struct error *err)
{
    if (mover) return mover->copy(mover->user, to, from, bytes, err);
    memcpy(to, from, bytes);
    return STATUS_OK;
}

static inline int mover_clear(const struct mover *mover, void *at, uint64_t bytes, struct error *err)
{
    if (mover) return mover->clear(mover->user, at, bytes, err);
    memset(at, 0, bytes);
    return STATUS_OK;
}

static inline int mover_finish(const struct mover *mover, struct error *err)
{
    return mover ? mover->finish(mover->user, err) : STATUS_OK;
}
