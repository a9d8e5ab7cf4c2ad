/* Buffers for who loads, checks or converts without a rank: lots of STATE_BUFFERS_BYTES out of a tier allocator of its own, so
 * that what such a command has in memory is counted as a rank's memory is (host tier, staging). */
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
void io_buffers_close(struct io_buffers *buffers); /* all zeros will do */
uint64_t io_buffers_peak_bytes(const struct io_buffers *buffers); /* as the allocator saw it */

#endif
