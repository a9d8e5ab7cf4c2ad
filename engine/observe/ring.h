/* A ring of numbered items of one size: it keeps the newest `most` and drops the oldest. It starts small and doubles,
 * so a short run costs little. It grows out of a shared allowance, so many rings together stay within a bound. */
#ifndef ENGINE_OBSERVE_RING_H
#define ENGINE_OBSERVE_RING_H

#include <stddef.h>
#include <stdint.h>

struct ring {
    size_t item_bytes;
    int64_t most, room;   /* items: the limit, and allocated now */
    int64_t first, count; /* number of the oldest item kept; how many are kept */
    int64_t head;         /* index of the oldest item in `items` */
    char *items;
};

/* Bytes that a group of rings may still allocate. */
struct allowance { size_t bytes; };

void ring_init(struct ring *ring, size_t item_bytes, int64_t most);
void ring_release(struct ring *ring);

/* Returns an uninitialized new item, with number ring_end() - 1; a full ring drops its oldest. NULL: the first item
 * could not be allocated. Pointers into the ring are valid until the next push. */
void *ring_push(struct ring *ring, struct allowance *allowance);
static inline void ring_pop(struct ring *ring) { ring->count--; } /* the newest */

static inline int64_t ring_end(const struct ring *ring) { return ring->first + ring->count; }

/* The item of that number, which is kept. */
static inline void *ring_item(const struct ring *ring, int64_t number)
{
    int64_t place = ring->head + (number - ring->first);
    if (place >= ring->room) place -= ring->room;
    return ring->items + (size_t)place * ring->item_bytes;
}

/* NULL: not kept. */
static inline void *ring_at(const struct ring *ring, int64_t number)
{
    return number >= ring->first && number < ring_end(ring) ? ring_item(ring, number) : NULL;
}

static inline void *ring_newest(const struct ring *ring)
{
    return ring->count ? ring_item(ring, ring_end(ring) - 1) : NULL;
}

#endif
