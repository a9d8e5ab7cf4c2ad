/* A growing array of bytes. All-zero is an empty one; bytes_release() frees it and makes it empty again. Growing can fail:
 * false means nothing was changed, and the caller decides what that loses. */
#ifndef ENGINE_BASE_BYTES_H
#define ENGINE_BASE_BYTES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct bytes {
    uint8_t *at;
    size_t count, room;
};

/* Makes room for `more` bytes after the first `count`. */
static inline bool bytes_reserve(struct bytes *bytes, size_t more)
{
    if (more <= bytes->room - bytes->count) return true;
    if (more > SIZE_MAX / 2 - bytes->count) return false;
    size_t room = bytes->room + bytes->room / 2;
    if (room < bytes->count + more) room = bytes->count + more;
    uint8_t *at = realloc(bytes->at, room);
    if (!at) return false;
    bytes->at = at;
    bytes->room = room;
    return true;
}

static inline bool bytes_append(struct bytes *bytes, const void *more, size_t count)
{
    if (!bytes_reserve(bytes, count)) return false;
    if (count) memcpy(bytes->at + bytes->count, more, count);
    bytes->count += count;
    return true;
}

/* Forgets the first `count` bytes; moves the rest down. */
static inline void bytes_drop(struct bytes *bytes, size_t count)
{
    if (!count) return;
    bytes->count -= count;
    memmove(bytes->at, bytes->at + count, bytes->count);
}

static inline void bytes_release(struct bytes *bytes)
{
    free(bytes->at);
    *bytes = (struct bytes){0};
}

/* An array of other things: room for one more item of `size` bytes after the first `count`, by doubling. False: nothing was changed. */
static inline bool array_grow(void **items, int count, int *room, size_t size)
{
    if (count < *room) return true;
    const int wanted = *room ? 2 * *room : 16;
    void *larger = realloc(*items, (size_t)wanted * size);
    if (!larger) return false;
    *items = larger;
    *room = wanted;
    return true;
}

#endif
