/* A hash table from 64-bit keys to numbers above 0. A zeroed struct is an empty table; map_release() makes it empty again. The key
 * of a text is its hash. Two texts with equal hashes count as one; among a million texts, the chance is 3 in 10^8. */
#pragma once

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct map_entry { uint64_t key, value; };
struct map { struct map_entry *at; size_t count, room; };

/* Hashes bytes. `hash`: the hash of the bytes before them, or a start value. */
static inline uint64_t map_hash(const void *bytes, size_t count, uint64_t hash)
{
    const uint8_t *at = bytes;
    for (; count >= 8; count -= 8, at += 8) {
        uint64_t word;
        memcpy(&word, at, 8);
        hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    for (; count; count--) hash = (hash ^ *at++) * 0x100000001b3u;
    return hash ^ hash >> 32;
}

/* The entry that has the key, or the free entry where the key belongs. */
static inline struct map_entry *map_place(const struct map *map, uint64_t key)
{
    size_t at = (size_t)(key * 0x9e3779b97f4a7c15u >> 24) & (map->room - 1);
    while (map->at[at].value && map->at[at].key != key) at = (at + 1) & (map->room - 1);
    return &map->at[at];
}

/* The number of a key; 0: the table does not have the key. */
static inline uint64_t map_get(const struct map *map, uint64_t key)
{
    return map->room ? map_place(map, key)->value : 0;
}

/* Returns the address of a key's number. A new key has 0; the caller must set it above 0 before the next call. NULL: no memory. */
static inline uint64_t *map_put(struct map *map, uint64_t key)
{
    if (2 * map->count >= map->room) {
        struct map larger = {.room = map->room ? 2 * map->room : 1024};
        if (!(larger.at = calloc(larger.room, sizeof *larger.at))) return NULL;
        for (size_t i = 0; i < map->room; i++)
            if (map->at[i].value) *map_place(&larger, map->at[i].key) = map->at[i];
        larger.count = map->count;
        free(map->at);
        *map = larger;
    }
    struct map_entry *place = map_place(map, key);
    map->count += !place->value;
    place->key = key;
    return &place->value;
}

static inline void map_release(struct map *map)
{
    free(map->at);
    *map = (struct map){0};
}
