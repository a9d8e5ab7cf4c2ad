/* Who moves a rank's bytes between places of its memory. Where all tiers are memory of this machine that is the calling thread;
 * where the device tier is a device, the stream of the lane that asks. Places are addresses of either.
 *
 * What was asked for is done, in order, when mover_finish() returns; until then it may be on its way. A mover belongs to one
 * thread at a time. */
#ifndef ENGINE_MEMORY_MOVER_H
#define ENGINE_MEMORY_MOVER_H

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

#endif
