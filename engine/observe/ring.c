#include "engine/observe/ring.h"

#include <stdlib.h>

enum { ROOM_AT_FIRST = 32 };

void ring_init(struct ring *ring, size_t item_bytes, int64_t most)
{
    *ring = (struct ring){.item_bytes = item_bytes, .most = most > 1 ? most : 1};
}

void ring_release(struct ring *ring)
{
    free(ring->items);
    ring->items = NULL;
    ring->room = ring->count = 0;
}

/* A ring grows only while it is full and has never dropped anything, so its items lie in order from place 0. */
static void ring_grow(struct ring *ring, struct allowance *allowance)
{
    int64_t room = ring->room ? 2 * ring->room : ROOM_AT_FIRST;
    if (room > ring->most) room = ring->most;
    size_t more_bytes = (size_t)(room - ring->room) * ring->item_bytes;
    char *items = more_bytes <= allowance->bytes ? realloc(ring->items, (size_t)room * ring->item_bytes) : NULL;
    if (!items) {
        ring->most = ring->room; /* this is all it gets */
        return;
    }
    allowance->bytes -= more_bytes;
    ring->items = items;
    ring->room = room;
}

void *ring_push(struct ring *ring, struct allowance *allowance)
{
    if (ring->count == ring->room && ring->room < ring->most) ring_grow(ring, allowance);
    if (ring->room == 0) return NULL;
    if (ring->count == ring->room) {
        ring->first++;
        ring->count--;
        if (++ring->head == ring->room) ring->head = 0;
    }
    ring->count++;
    return ring_item(ring, ring_end(ring) - 1);
}
