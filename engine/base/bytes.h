/* A growing array of bytes. A zeroed struct is an empty array; bytes_release() frees the array and makes it empty
 * again. Functions that grow an array return false without memory; the array is then unchanged. */
#pragma once

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

/* Removes the first `count` bytes; moves the rest down. */
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

/* The same for an array of items of `size` bytes: makes room for one more item after the first `count`, by doubling `room`. */
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

/* Appends an item to such an array and returns its address, where the caller writes it; NULL: no memory. */
#define array_add(items, count, room)                                                                                  \
    (array_grow((void **)&(items), count, &(room), sizeof *(items)) ? &(items)[(count)++] : NULL)
