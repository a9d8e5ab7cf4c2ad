/* What the tests of communication let ranks do: the same functions run on threads and on processes, so that the backends
 * are held against one scalar reference and against each other. A rank that finds a mistake says so and ends the
 * process: cmocka's assertions only work on the main thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/rng.h"
#include "engine/comm/comm.h"
#include "engine/memory/memory.h"

#define CHECK(condition, ...)                                                        \
    do {                                                                             \
        if (condition) break;                                                        \
        fprintf(stderr, "%s:%d: %s is false: ", __FILE__, __LINE__, #condition);     \
        fprintf(stderr, __VA_ARGS__);                                                \
        fputc('\n', stderr);                                                         \
        _exit(1);                                                                    \
    } while (0)

enum { SCENARIO_BYTES = 8 << 20, RANGES_MAX = 32 };

static inline struct memory *scenario_memory(void)
{
    struct memory_ranges ranges = {0};
    struct memory *memory;
    struct error err = {0};
    static const enum category categories[] = {CATEGORY_PARAMETERS, CATEGORY_BUCKETS, CATEGORY_GATHERED};
    for (int i = 0; i < 3; i++) ranges.bytes[TIER_DEVICE][categories[i]] = SCENARIO_BYTES;
    CHECK(!memory_create(&memory, &ranges, (uint64_t[TIERS]){0}, NULL, &err), "%s", err.text);
    for (int i = 0; i < 3; i++)
        CHECK(!memory_take(memory, TIER_DEVICE, categories[i], 0, SCENARIO_BYTES, &err), "%s", err.text);
    return memory;
}

/* The plain reference: bf16 by rounding to nearest even, one element at a time. */
static inline float element_get(enum dtype dtype, const void *at, int64_t i)
{
    float value;
    uint32_t bits = 0;
    if (dtype == DTYPE_F32) memcpy(&bits, (const char *)at + 4 * i, 4);
    if (dtype == DTYPE_BF16) bits = (uint32_t)((const uint16_t *)at)[i] << 16;
    memcpy(&value, &bits, 4);
    return value;
}

static inline void element_set(enum dtype dtype, void *at, int64_t i, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, 4);
    if (dtype == DTYPE_F32) memcpy((char *)at + 4 * i, &bits, 4);
    if (dtype == DTYPE_BF16) ((uint16_t *)at)[i] = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline float rounded(enum dtype dtype, float value)
{
    unsigned char room[4];
    element_set(dtype, room, 0, value);
    return element_get(dtype, room, 0);
}

/* A collective drawn at random; equal on every rank. */
struct trial {
    enum { TRIAL_GATHER, TRIAL_REDUCE, TRIAL_ALL_REDUCE } kind;
    enum dtype dtype;
    bool accumulate, in_place, exact;
    int count;
    struct comm_range ranges[RANGES_MAX];
    uint64_t seed;
};

/* Parts of unequal, odd lengths with gaps between them, some empty. sources lie in the bucket range. */
static inline void trial_draw(struct trial *trial, const struct comm *comm, const struct memory *memory, uint64_t round)
{
    int ranks = comm_layout(comm)->ranks;
    *trial = (struct trial){.kind = rng_u64(1, 1, round) % 3, .dtype = rng_u64(1, 2, round) % 2 ? DTYPE_F32 : DTYPE_BF16};
    trial->accumulate = trial->kind == TRIAL_REDUCE && rng_u64(1, 3, round) % 2;
    trial->in_place = rng_u64(1, 4, round) % 2;
    trial->exact = rng_u64(1, 5, round) % 2;
    trial->count = 1 + (int)(rng_u64(1, 6, round) % RANGES_MAX);
    trial->seed = round;
    bool huge = round == 140; /* more than fits the caches: copied another way */
    if (huge) trial->kind = TRIAL_GATHER, trial->dtype = DTYPE_F32, trial->count = RANGES_MAX;
    uint64_t width = (uint64_t)dtype_bytes(trial->dtype), at = memory_symmetric(memory)->offset[CATEGORY_BUCKETS];
    unsigned char *own = memory_symmetric(memory)->base, *private = memory_at(memory, TIER_DEVICE, CATEGORY_GATHERED, 0);
    for (int i = 0; i < trial->count; i++) {
        struct comm_range *range = &trial->ranges[i];
        const uint64_t largest = round % 64 == 0 && i % 8 == 0 ? 40000 : 300;
        at += width * (rng_u64(round, 7, (uint64_t)i) % 9);
        range->owner = (int)(rng_u64(round, 8, (uint64_t)i) % (uint64_t)ranks);
        range->elems = huge ? 50000 - i : (int64_t)(rng_u64(round, 9, (uint64_t)i) % largest);
        range->source = at;
        range->destination = trial->in_place ? own + at : private + (at - memory_symmetric(memory)->offset[CATEGORY_BUCKETS]);
        at += width * (uint64_t)range->elems;
    }
}

/* What a rank contributes: small integers whose sums are exact, or any value the type can hold. */
static inline float trial_value(const struct trial *trial, int rank, int range, int64_t i)
{
    uint64_t bits = rng_u64(trial->seed, (uint64_t)(rank * RANGES_MAX + range), (uint64_t)i);
    return trial->exact ? (float)(int)(bits % 17) - 8 : rounded(trial->dtype, (float)(int32_t)bits * 0x1p-28f);
}

static inline float trial_expected(const struct trial *trial, int ranks, int range, int64_t i)
{
    if (trial->kind == TRIAL_GATHER) return trial_value(trial, trial->ranges[range].owner, range, i);
    float sum = trial_value(trial, 0, range, i);
    for (int r = 1; r < ranks; r++) sum += trial_value(trial, r, range, i);
    float mean = rounded(trial->dtype, sum * (1.0f / (float)ranks));
    if (!trial->accumulate) return mean;
    float before = trial->in_place ? trial_value(trial, trial->ranges[range].owner, range, i) : (float)(i % 5);
    return rounded(trial->dtype, before + mean);
}

static inline void trial_fill(const struct trial *trial, int rank, unsigned char *own)
{
    for (int p = 0; p < trial->count; p++) {
        const struct comm_range *range = &trial->ranges[p];
        bool gives = trial->kind != TRIAL_GATHER || range->owner == rank;
        for (int64_t i = 0; i < range->elems; i++) {
            if (!trial->in_place) element_set(trial->dtype, range->destination, i, (float)(i % 5));
            element_set(trial->dtype, own + range->source, i, gives ? trial_value(trial, rank, p, i) : -1);
        }
    }
}

/* Every element this rank must now hold, and a hash of the bits of all of them. */
static inline uint64_t trial_check(const struct trial *trial, const struct comm_layout *layout, const unsigned char *own)
{
    uint64_t hash = 0;
    for (int p = 0; p < trial->count; p++) {
        const struct comm_range *range = &trial->ranges[p];
        if (trial->kind == TRIAL_REDUCE && range->owner != layout->rank) continue;
        const void *at = trial->kind == TRIAL_ALL_REDUCE ? own + range->source : range->destination;
        for (int64_t i = 0; i < range->elems; i++) {
            float expected = trial_expected(trial, layout->ranks, p, i), got = element_get(trial->dtype, at, i);
            CHECK(memcmp(&expected, &got, 4) == 0, "round %d kind %d %s range %d of %d, element %lld: %g, expected %g", (int)trial->seed,
                  trial->kind, dtype_name(trial->dtype), p, trial->count, (long long)i, (double)got, (double)expected);
            uint32_t bits;
            memcpy(&bits, &got, 4);
            hash = rng_mix(hash ^ bits);
        }
    }
    return hash;
}

/* The volume a ring would send: a gather sends each range to all others, a reduction sends it to its owner. */
static inline void trial_check_sent(const struct trial *trial, const struct comm_layout *layout, const struct comm_stat *stat)
{
    uint64_t sent[2] = {0};
    for (int p = 0; p < trial->count; p++) {
        uint64_t bytes = (uint64_t)trial->ranges[p].elems * (uint64_t)dtype_bytes(trial->dtype);
        int owner = trial->ranges[p].owner;
        for (int r = 0; r < layout->ranks; r++) {
            enum link link = r / layout->ranks_per_node == layout->node ? LINK_INTRA : LINK_INTER;
            if (r == layout->rank) continue;
            if (trial->kind != TRIAL_REDUCE && owner == layout->rank) sent[link] += bytes;
            if (trial->kind != TRIAL_GATHER && owner == r) sent[link] += bytes;
        }
    }
    CHECK(sent[0] == stat->sent_bytes[0] && sent[1] == stat->sent_bytes[1], "round %d kind %d: %llu + %llu sent, expected %llu + %llu",
          (int)trial->seed, trial->kind, (unsigned long long)stat->sent_bytes[0], (unsigned long long)stat->sent_bytes[1],
          (unsigned long long)sent[0], (unsigned long long)sent[1]);
}

/* Without devices: a link over which nothing goes is not in use, and one that has brought more than a page is. */
static inline void trial_check_links(const struct trial *trial, const struct comm_layout *layout, const struct comm_stat *stat)
{
    uint64_t brought[2] = {0};
    for (int p = 0; p < trial->count; p++)
        for (int r = 0; r < layout->ranks; r++) {
            const enum link link = r / layout->ranks_per_node == layout->node ? LINK_INTRA : LINK_INTER;
            const int owner = trial->ranges[p].owner;
            const bool gathers = trial->kind != TRIAL_REDUCE && owner == r, reduces = trial->kind != TRIAL_GATHER && owner == layout->rank;
            if (r != layout->rank && (gathers || reduces)) brought[link] += (uint64_t)trial->ranges[p].elems * (uint64_t)dtype_bytes(trial->dtype);
        }
    for (int link = 0; link < 2; link++) {
        if (brought[link] > 4096) CHECK(stat->link_ns[link] > 0, "round %d: link %d in use for no time", (int)trial->seed, link);
        if (!brought[link] && !stat->sent_bytes[link]) CHECK(stat->link_ns[link] == 0, "round %d: link %d in use for nothing", (int)trial->seed, link);
    }
}

static inline int trial_run(const struct trial *trial, struct comm *comm, bool healthy, struct comm_stat *stat, struct error *err)
{
    if (trial->kind == TRIAL_GATHER) return comm_all_gather(comm, trial->dtype, trial->ranges, trial->count, healthy, stat, err);
    if (trial->kind == TRIAL_REDUCE) return comm_reduce_scatter(comm, trial->dtype, trial->dtype, trial->ranges, trial->count, trial->accumulate, healthy, stat, err);
    return comm_all_reduce(comm, trial->dtype, trial->ranges, trial->count, healthy, stat, err);
}

/* Random collectives against the reference; the hash covers the bits of all results of all ranks. times_links: there are no devices, which
 * do not time links. */
static inline uint64_t scenario_random(struct comm *comm, struct memory *memory, uint64_t rounds, bool times_links)
{
    const struct comm_layout *layout = comm_layout(comm);
    unsigned char *own = memory_symmetric(memory)->base;
    uint64_t hash = 0, all[layout->ranks];
    struct trial trial;
    struct comm_stat stat;
    struct error err = {0};
    for (uint64_t round = 0; round < rounds; round++) {
        trial_draw(&trial, comm, memory, round);
        trial_fill(&trial, layout->rank, own);
        CHECK(!trial_run(&trial, comm, true, &stat, &err), "%s", err.text);
        CHECK(stat.healthy, "round %d", (int)round);
        hash = rng_mix(hash ^ trial_check(&trial, layout, own));
        trial_check_sent(&trial, layout, &stat);
        if (times_links) trial_check_links(&trial, layout, &stat);
    }
    CHECK(!comm_exchange(comm, &hash, all, sizeof hash, &stat, &err), "%s", err.text);
    for (int r = 0; r < layout->ranks; r++) hash = r ? rng_mix(hash ^ all[r]) : all[r];
    return hash;
}

/* Each rank in turn lacks its buffer: all learn it, nothing moves, and the next collective is well again. */
static inline void scenario_unhealthy(struct comm *comm, struct memory *memory)
{
    const struct comm_layout *layout = comm_layout(comm);
    unsigned char *own = memory_symmetric(memory)->base;
    struct comm_stat stat;
    struct error err = {0};
    for (int sick = 0; sick < layout->ranks; sick++) {
        for (uint64_t kind = 0; kind < 3; kind++) {
            struct trial trial;
            trial_draw(&trial, comm, memory, 7);
            trial.kind = (int)kind;
            trial.in_place = trial.accumulate = false;
            trial_fill(&trial, layout->rank, own);
            uint64_t bytes = trial.ranges[trial.count - 1].source - trial.ranges[0].source;
            unsigned char *before = malloc(bytes);
            memcpy(before, own + trial.ranges[0].source, bytes);
            CHECK(!trial_run(&trial, comm, layout->rank != sick, &stat, &err), "%s", err.text);
            CHECK(!stat.healthy && stat.sent_bytes[0] + stat.sent_bytes[1] == 0, "rank %d sick", sick);
            CHECK(memcmp(before, own + trial.ranges[0].source, bytes) == 0, "data moved");
            free(before);
            CHECK(!trial_run(&trial, comm, true, &stat, &err) && stat.healthy, "%s", err.text);
        }
    }
}

/* Control data: exchange of several sizes, broadcast of any size. */
static inline void scenario_control(struct comm *comm)
{
    enum { LARGE = 20001 };
    const struct comm_layout *layout = comm_layout(comm);
    struct error err = {0};
    for (size_t bytes = 0; bytes <= 4096; bytes = bytes * 3 + 1) {
        unsigned char mine[4096], all[4096 * layout->ranks];
        struct comm_stat stat;
        memset(mine, layout->rank + 1, sizeof mine);
        CHECK(!comm_exchange(comm, mine, all, bytes, &stat, &err), "%s", err.text);
        for (size_t i = 0; i < bytes * (size_t)layout->ranks; i++) CHECK(all[i] == i / bytes + 1, "byte %zu of %zu", i, bytes);
        CHECK(stat.sent_bytes[0] + stat.sent_bytes[1] == bytes * (size_t)(layout->ranks - 1), "%zu bytes", bytes);
    }
    unsigned char *data = malloc(LARGE);
    for (int i = 0; i < LARGE; i++) data[i] = layout->rank ? 0 : (unsigned char)(i * 7);
    CHECK(!comm_broadcast_control(comm, data, LARGE, &err), "%s", err.text);
    for (int i = 0; i < LARGE; i++) CHECK(data[i] == (unsigned char)(i * 7), "byte %d", i);
    free(data);
}

/* Every rank writes into its own shared memory and reads everybody's. */
static inline void scenario_share(struct comm *comm)
{
    const struct comm_layout *layout = comm_layout(comm);
    struct error err = {0};
    CHECK(!comm_share(comm, 5000, &err), "%s", err.text);
    unsigned char *own = comm_segment_of(comm, layout->rank);
    for (int i = 0; i < 5000; i++) CHECK(own[i] == 0, "byte %d", i);
    memset(own, layout->rank + 1, 5000);
    CHECK(!comm_exchange(comm, NULL, NULL, 0, NULL, &err), "%s", err.text);
    for (int r = 0; r < layout->ranks; r++) {
        const unsigned char *theirs = comm_segment_of(comm, r);
        CHECK(theirs && theirs[4999] == r + 1, "rank %d", r);
    }
}
