/* Address ranges and the pages in them: what the allocator asks of the kernel.
 *
 * A range starts at a multiple of 2 MiB. Pages are committed explicitly, so that faults are paid when memory is taken and
 * not inside a kernel, and so that "committed" is a number we know and not a guess. Whole 2 MiB blocks are committed as huge
 * pages; what is smaller, page by page with huge pages switched off, or the system would commit more than we count. */
#ifndef ENGINE_MEMORY_PAGES_H
#define ENGINE_MEMORY_PAGES_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/error.h"

enum { PAGE_BYTES = 4096, BLOCK_BYTES = 2 << 20 };

static inline uint64_t round_down(uint64_t value, uint64_t unit)
{
    return value / unit * unit;
}

static inline uint64_t round_up(uint64_t value, uint64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

/* Reserves addresses for `bytes` (rounded up to whole blocks): of the file `fd` from its start, shared, or private
 * memory for fd -1. NULL and an error when the system refuses. */
void *pages_reserve(uint64_t bytes, int fd, struct error *err);
void pages_unreserve(void *base, uint64_t bytes);

/* A file in memory of that size, without a name on any disk; -1 and an error when the system refuses. */
int pages_file(const char *name, uint64_t bytes, struct error *err);

/* Commits or returns the pages [first, end) of the range at base; both are multiples of PAGE_BYTES. */
int pages_commit(unsigned char *base, uint64_t first, uint64_t end, struct error *err);
void pages_return(unsigned char *base, uint64_t first, uint64_t end, bool shared);

/* Who gives pages to the device tier: of memory (this file), or of a device. Ranges begin at a multiple of `unit_bytes`, and
 * are committed and returned in multiples of it; what is newly committed reads as zero. */
struct pages {
    uint64_t unit_bytes;
    void *user;
    void *(*reserve)(void *user, uint64_t bytes, struct error *err);
    void (*unreserve)(void *user, void *base, uint64_t bytes);
    int (*commit)(void *user, unsigned char *base, uint64_t first, uint64_t end, struct error *err);
    /* How many bytes from `first` on went back; what was refused stays committed. */
    uint64_t (*give_back)(void *user, unsigned char *base, uint64_t first, uint64_t end);
    /* Locks a piece of the host tier so that copies to and from the device run by themselves; lets go of exactly such a piece.
     * An error, or false: refused, and all is as before. NULL: mlock() does. */
    int (*pin)(void *user, void *host, uint64_t bytes, struct error *err);
    bool (*unpin)(void *user, void *host, uint64_t bytes);
};

#endif
