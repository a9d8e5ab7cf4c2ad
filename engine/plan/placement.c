/* Memory of a schedule that is written down: the dependencies that keep what is live within the canonical order, and an address
 * for every buffer. */
#include <stdlib.h>
#include <string.h>

#include "engine/plan/builder.h"

enum { ADDRESS_ALIGN = 64 };

/* "Take this only after that was given back": each operation that takes from a tier waits for the last giver to that tier
 * above it on every other lane. That one edge stands for all givers above, because lanes are in order. */
void placement_order(struct builder *builder)
{
    struct schedule *schedule = builder->schedule;
    int last_giver[TIERS][LANES];
    memset(last_giver, -1, sizeof last_giver);
    for (int i = 0; i < schedule->op_count; i++) {
        struct op *op = builder->op = &schedule->ops[i];
        for (int t = 0; t < op->take_count; t++)
            for (int lane = 0; lane < LANES; lane++)
                builder_depend(builder, last_giver[schedule->buffers[schedule->effects[op->first_take + t]].tier][lane],
                               WAIT_MEMORY);
        for (int g = 0; g < op->give_count; g++)
            last_giver[schedule->buffers[schedule->effects[op->first_give + g]].tier][op->lane] = i;
    }
    builder->op = NULL;
}

/* What is live in a category of a tier, in the order of addresses. */
struct live {
    int count, *buffer;
};

static uint64_t end_of(const struct buffer *buffer)
{
    const bool pages = buffer->tier == TIER_NVME || (buffer->tier == TIER_HOST && buffer->category == CATEGORY_STAGING);
    const uint64_t end = buffer->offset + (uint64_t)buffer->bytes, align = pages ? PAGE_ALIGN : ADDRESS_ALIGN;
    return (end + align - 1) / align * align;
}

/* First fit in the canonical order. Valid for every interleaving: whoever takes waits for all who gave above. */
static void place(const struct schedule *schedule, struct live *live, int b)
{
    struct buffer *buffer = &schedule->buffers[b];
    int at = 0;
    buffer->offset = 0;
    while (at < live->count && schedule->buffers[live->buffer[at]].offset < buffer->offset + (uint64_t)buffer->bytes)
        buffer->offset = end_of(&schedule->buffers[live->buffer[at++]]);
    memmove(&live->buffer[at + 1], &live->buffer[at], (size_t)(live->count++ - at) * sizeof *live->buffer);
    live->buffer[at] = b;
}

static void take_away(struct live *live, int b)
{
    int at = 0;
    while (live->buffer[at] != b) at++;
    memmove(&live->buffer[at], &live->buffer[at + 1], (size_t)(--live->count - at) * sizeof *live->buffer);
}

void placement_of_all(struct builder *builder)
{
    struct schedule *schedule = builder->schedule;
    struct live live[TIERS][CATEGORIES] = {0};
    const size_t room = (size_t)schedule->buffer_count + 1;
    int *rooms = calloc(room * TIERS * CATEGORIES, sizeof *rooms);
    if (!rooms) {
        builder->failed = true;
        return;
    }
    for (int i = 0; i < TIERS * CATEGORIES; i++) live[i / CATEGORIES][i % CATEGORIES].buffer = rooms + (size_t)i * room;
#define LIVE(b) &live[schedule->buffers[b].tier][schedule->buffers[b].category]
    for (int b = 0; b < schedule->lasting_count; b++) place(schedule, LIVE(b), b);
    for (int i = 0; i < schedule->op_count; i++) {
        const struct op *op = &schedule->ops[i];
        const int *take = &schedule->effects[op->first_take], *give = &schedule->effects[op->first_give];
        for (int t = 0; t < op->take_count; t++) place(schedule, LIVE(take[t]), take[t]);
        for (int g = 0; g < op->give_count; g++) take_away(LIVE(give[g]), give[g]);
    }
#undef LIVE
    free(rooms);
}
