/* Address ranges and the pages in them: the allocator's requests to the operating system.
 *
 * A range starts at a multiple of 2 MiB. Pages are committed explicitly, so that page faults happen when memory is taken and
 * not inside a compute kernel, and so that the committed bytes are known. Whole 2 MiB blocks are committed as huge pages, the
 * rest page by page with huge pages off; otherwise the system would commit more than is counted. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/error.h"
#include "engine/memory/runs.h"

enum { PAGE_BYTES = 4096, BLOCK_BYTES = 2 << 20 };

static inline uint64_t round_down(uint64_t value, uint64_t unit)
{
    return value / unit * unit;
}

static inline uint64_t round_up(uint64_t value, uint64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

/* Reserves addresses for `bytes` (rounded up to whole blocks): a shared mapping of the file `fd` from its start, or private
 * memory for fd -1. NULL and STATUS_RUN in err when the system refuses. */
void *pages_reserve(uint64_t bytes, int fd, struct error *err);
void pages_unreserve(void *base, uint64_t bytes);

/* A memfd of that size (rounded up to whole blocks), owned by the caller; -1 and STATUS_RUN in err when the system refuses. */
int pages_file(const char *name, uint64_t bytes, struct error *err);

/* Commits or returns the pages [first, end) of the range at base; both are multiples of PAGE_BYTES. STATUS_RUN: no memory left. */
int pages_commit(unsigned char *base, uint64_t first, uint64_t end, struct error *err);
void pages_return(unsigned char *base, uint64_t first, uint64_t end, bool shared);

/* A device as the source of pages for the device tier. Ranges begin at a multiple of `unit_bytes`, and are committed and
 * returned in multiples of it. Newly committed bytes are undefined. */
struct pages {
    uint64_t unit_bytes;
    void *user;
    void *(*reserve)(void *user, uint64_t bytes, struct error *err);
    void (*unreserve)(void *user, void *base, uint64_t bytes);
    int (*commit)(void *user, unsigned char *base, uint64_t first, uint64_t end, struct error *err);
    /* Gives pages of the idle run back to the device until `wanted` bytes are back. Returns the run that went back.
     * A device may give back only what it committed at once, so that run may begin later than `idle`, and have more or fewer than
     * `wanted` bytes. The rest stays committed. */
    struct run (*give_back)(void *user, unsigned char *base, struct run idle, uint64_t wanted);
    /* pin() locks a piece of the host tier, so that copies to and from the device run asynchronously; unpin() unlocks exactly
     * such a piece. An error, or false: refused, and nothing changed. pin NULL: the allocator uses mlock(). */
    int (*pin)(void *user, void *host, uint64_t bytes, struct error *err);
    bool (*unpin)(void *user, void *host, uint64_t bytes);
};
