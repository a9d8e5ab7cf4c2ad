/* I/O buffers for offline checkpoint commands (load, check, convert), STATE_BUFFERS_BYTES each. They come from a tier allocator of
 * their own, so that the command's memory is counted like a rank's (host tier, staging). */
#ifndef ENGINE_CHECKPOINT_IO_BUFFERS_H
#define ENGINE_CHECKPOINT_IO_BUFFERS_H

#include "engine/memory/memory.h"
#include "engine/zero/state.h"

enum { IO_BUFFERS_MOST = 2 }; /* one to read through, one to write through */

struct io_buffers {
    struct memory *memory;
    void *lot[IO_BUFFERS_MOST];
    int count;
};

int io_buffers_open(struct io_buffers *buffers, int count, struct error *err);
void io_buffers_close(struct io_buffers *buffers); /* accepts a zeroed struct */
uint64_t io_buffers_peak_bytes(const struct io_buffers *buffers); /* the allocator's peak */

#endif
