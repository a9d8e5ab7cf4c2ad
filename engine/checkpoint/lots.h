/* Buffers for who loads, checks or converts without a rank: lots of STATE_BUFFERS_BYTES out of a tier allocator of its own, so
 * that what such a command has in memory is counted as a rank's memory is (host tier, staging). */
#ifndef ENGINE_CHECKPOINT_LOTS_H
#define ENGINE_CHECKPOINT_LOTS_H

#include "engine/memory/memory.h"
#include "engine/zero/state.h"

enum { LOTS_MOST = 2 }; /* one to read through, one to write through */

struct lots {
    struct memory *memory;
    void *lot[LOTS_MOST];
    int count;
};

int lots_open(struct lots *lots, int count, struct error *err);
void lots_close(struct lots *lots); /* all zeros will do */
uint64_t lots_peak_bytes(const struct lots *lots); /* as the allocator saw it */

#endif
