/* Reserves, commits and returns pages with mmap, madvise and memfd. */
#include "engine/memory/pages.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14; older kernels return EINVAL, and pages_commit() touches the pages */
#endif

void *pages_reserve(uint64_t bytes, int fd, struct error *err)
{
    uint64_t whole = round_up(bytes, BLOCK_BYTES);
    unsigned char *room =
        mmap(NULL, whole + BLOCK_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED) {
        error_set(err, STATUS_RUN, "no address space for %llu bytes: %s", (unsigned long long)bytes, strerror(errno));
        return NULL;
    }
    unsigned char *base = room + (BLOCK_BYTES - (uintptr_t)room % BLOCK_BYTES) % BLOCK_BYTES;
    int kind = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
    if (mmap(base, whole, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_NORESERVE | kind, fd, 0) == MAP_FAILED) {
        error_set(err, STATUS_RUN, "cannot map %llu bytes: %s", (unsigned long long)bytes, strerror(errno));
        munmap(room, whole + BLOCK_BYTES);
        return NULL;
    }
    if (base > room) munmap(room, (size_t)(base - room));
    if (base < room + BLOCK_BYTES) munmap(base + whole, (size_t)(room + BLOCK_BYTES - base));
    madvise(base, whole, MADV_NOHUGEPAGE); /* until a whole block is committed */
    return base;
}

void pages_unreserve(void *base, uint64_t bytes)
{
    if (base) munmap(base, round_up(bytes, BLOCK_BYTES));
}

int pages_file(const char *name, uint64_t bytes, struct error *err)
{
    int fd = memfd_create(name, MFD_CLOEXEC);
    if (fd >= 0 && ftruncate(fd, (off_t)round_up(bytes, BLOCK_BYTES)) == 0) return fd;
    error_set(err, STATUS_RUN, "cannot make shared memory of %llu bytes: %s", (unsigned long long)bytes,
              strerror(errno));
    if (fd >= 0) close(fd);
    return -1;
}

int pages_commit(unsigned char *base, uint64_t first, uint64_t end, struct error *err)
{
    uint64_t blocks_first = round_up(first, BLOCK_BYTES), blocks_end = round_down(end, BLOCK_BYTES);
    if (blocks_first < blocks_end) madvise(base + blocks_first, blocks_end - blocks_first, MADV_HUGEPAGE);
    if (madvise(base + first, end - first, MADV_POPULATE_WRITE) == 0) return 0;
    if (errno != EINVAL)
        return error_set(err, STATUS_RUN, "the machine has no memory left for %llu bytes: %s",
                         (unsigned long long)(end - first), strerror(errno));
    for (uint64_t at = first; at < end; at += PAGE_BYTES) *(volatile unsigned char *)(base + at) = 0;
    return 0;
}

void pages_return(unsigned char *base, uint64_t first, uint64_t end, bool shared)
{
    madvise(base + first, end - first, shared ? MADV_REMOVE : MADV_DONTNEED);
    uint64_t outer = round_down(first, BLOCK_BYTES);
    madvise(base + outer, round_up(end, BLOCK_BYTES) - outer, MADV_NOHUGEPAGE);
}
