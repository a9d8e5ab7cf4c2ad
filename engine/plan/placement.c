/* Memory of a schedule: makes takes wait for gives, assigns every buffer an address, and bounds the address ranges that all schedules of
 * a model stay within. */
#include <stdlib.h>
#include <string.h>

#include "engine/plan/buckets.h"

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

/* What is live in a category of a tier, in the order of addresses. For the sizes that were placed last it is known where a search may
 * begin: no hole before buffer[from - 1] has room for so many bytes. */
enum { SIZES = 16 };
struct live {
    int count, *buffer, newest; /* newest: of the sizes */
    struct {
        int64_t bytes;
        int from;
    } size[SIZES];
};

static uint64_t aligned(int64_t bytes, uint64_t align)
{
    return ((uint64_t)bytes + align - 1) / align * align;
}

static uint64_t end_of(const struct buffer *buffer)
{
    const bool pages = buffer->tier == TIER_NVME || (buffer->tier == TIER_HOST && buffer->category == CATEGORY_STAGING);
    return aligned((int64_t)buffer->offset + buffer->bytes, pages ? PAGE_ALIGN : ADDRESS_ALIGN);
}

/* Where a search for a hole of this size begins. */
static int *searched(struct live *live, int64_t bytes)
{
    for (int i = 0; i < SIZES; i++)
        if (live->size[i].bytes == bytes) return &live->size[i].from;
    live->newest = (live->newest + 1) % SIZES;
    live->size[live->newest].bytes = bytes;
    live->size[live->newest].from = 0;
    return &live->size[live->newest].from;
}

/* First fit in the canonical order. Valid for every interleaving, because a take waits for all gives above it. */
static void place(const struct schedule *schedule, struct live *live, int b)
{
    struct buffer *buffer = &schedule->buffers[b];
    int start = 0, *from = buffer->bytes ? searched(live, buffer->bytes) : &start, at = *from;
    buffer->offset = at ? end_of(&schedule->buffers[live->buffer[at - 1]]) : 0;
    while (at < live->count && schedule->buffers[live->buffer[at]].offset < buffer->offset + (uint64_t)buffer->bytes)
        buffer->offset = end_of(&schedule->buffers[live->buffer[at++]]);
    memmove(&live->buffer[at + 1], &live->buffer[at], (size_t)(live->count++ - at) * sizeof *live->buffer);
    live->buffer[at] = b;
    for (int i = 0; i < SIZES; i++) live->size[i].from += live->size[i].from > at;
    *from = at + 1;
}

static void take_away(const struct schedule *schedule, struct live *live, int b)
{
    int at = 0, end = live->count;
    while (at < end) { /* the first at its address: those of 0 bytes share one */
        const int middle = at + (end - at) / 2;
        if (schedule->buffers[live->buffer[middle]].offset < schedule->buffers[b].offset) at = middle + 1;
        else end = middle;
    }
    while (live->buffer[at] != b) at++;
    memmove(&live->buffer[at], &live->buffer[at + 1], (size_t)(--live->count - at) * sizeof *live->buffer);
    for (int i = 0; i < SIZES; i++)
        if (live->size[i].from > at) live->size[i].from = at;
}

void placement_of_all(struct builder *builder)
{
    struct schedule *schedule = builder->schedule;
    struct live live[TIERS][CATEGORIES] = {0};
    const size_t room = (size_t)schedule->buffer_count + 1;
    int *rooms = malloc(room * TIERS * CATEGORIES * sizeof *rooms);
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
        for (int g = 0; g < op->give_count; g++) take_away(schedule, LIVE(give[g]), give[g]);
    }
#undef LIVE
    free(rooms);
}

/* ---- ranges for all schedules ---- */

/* First fit leaves holes below what stays. So a range in which buffers of many sizes come and go is twice as wide as
 * what is live. A range is only addresses: memory is committed when a buffer is taken. */
enum { HOLES = 2 };

/* One array of every unit, of elements of so many bytes: whole, as a shard of a group of one rank is. */
static uint64_t arrays(const struct schedule_input *input, int element_bytes, uint64_t align)
{
    uint64_t bytes = 0;
    for (int u = 0; u < input->model->unit_count; u++) {
        const int64_t shard = shard_elems(input->model->units[u].elems, input->ranks);
        bytes += aligned(shard * input->ranks * element_bytes, align);
    }
    return bytes;
}

/* The largest unit, as a shard of a group of one rank. */
static uint64_t largest_array(const struct schedule_input *input, int element_bytes, uint64_t align)
{
    uint64_t most = 0;
    for (int u = 0; u < input->model->unit_count; u++) {
        const int64_t shard = shard_elems(input->model->units[u].elems, input->ranks);
        const uint64_t bytes = aligned(shard * input->ranks * element_bytes, align);
        if (bytes > most) most = bytes;
    }
    return most;
}

/* Outputs of a micro-step, from the embedding to the last norm. */
static uint64_t outputs(const struct schedule_input *input)
{
    const uint64_t each = aligned(activation_output_bytes(input->model, input->B, input->T), ADDRESS_ALIGN);
    return (uint64_t)(input->model->places - 1) * each;
}

/* What forward saves, with nothing made again, and the tokens. */
static uint64_t activations(const struct schedule_input *input)
{
    const struct model *model = input->model;
    const struct architecture *of = model->architecture;
    uint64_t bytes = outputs(input) + aligned((int64_t)input->B * input->T * 2 * 4, ADDRESS_ALIGN);
    for (int saved = 0; saved < of->saved_count; saved++) {
        struct activation_layout layout;
        of->layout(&layout, model, saved, input->B, input->T);
        for (int use = 0; use < of->use_count; use++)
            if (of->uses[use].saves >> saved & 1)
                bytes += (uint64_t)model_repeats(model, &of->uses[use]) * aligned(layout.bytes, ADDRESS_ALIGN);
    }
    return bytes;
}

/* Gradients of activations and, between them, the largest scratch. */
static uint64_t workspace(const struct schedule_input *input)
{
    const struct architecture *of = input->model->architecture;
    int64_t scratch = 0;
    for (int use = 0; use < of->use_count; use++)
        for (enum op_kind kind = 0; kind < USE_KINDS; kind++) {
            const int64_t bytes =
                of->scratch_bytes(input->model, kind, &of->uses[use], input->B, input->T, input->threads);
            if (bytes > scratch) scratch = bytes;
        }
    return HOLES * aligned(scratch, ADDRESS_ALIGN) +
           2 * aligned(activation_output_bytes(input->model, input->B, input->T), ADDRESS_ALIGN);
}

/* Int8 blocks of parameters, own and gathered, and int4 blocks of gradients and of their sums; short blocks and their scales. */
static uint64_t quantized(const struct schedule_input *input)
{
    enum { SHORT_BYTES = 2 * QUANT_SCALE_BYTES };
    return 2 * arrays(input, 2, ADDRESS_ALIGN) +
           4 * (uint64_t)input->model->unit_count * (uint64_t)input->ranks * SHORT_BYTES;
}

/* Whole: gradients as backward makes them, added up, and to be sent. Own: reduced, parameters to be gathered, and updated. */
static uint64_t buckets(const struct schedule_input *input)
{
    const struct model *model = input->model;
    const int own = dtype_bytes(model->dtype), sum = dtype_bytes(model->gradient), wire = dtype_bytes(model->wire);
    return HOLES * (arrays(input, own + sum + wire, ADDRESS_ALIGN) + arrays(input, wire + 2 * own, ADDRESS_ALIGN) + quantized(input)) +
           (model->passes ? ARRIVALS_BYTES : 0);
}

/* Gradients to add, shards from NVMe, parameters on their way there and back; and states: read, updated, written. */
static uint64_t staging(const struct schedule_input *input, int states)
{
    const int own = dtype_bytes(input->model->dtype), wire = dtype_bytes(input->model->wire);
    return HOLES * (arrays(input, wire + 3 * own, PAGE_ALIGN) +
                    3 * (uint64_t)states * largest_array(input, dtype_bytes(DTYPE_F32), PAGE_ALIGN));
}

void schedule_ranges(uint64_t bytes[TIERS][CATEGORIES], const struct schedule_input *input)
{
    const struct model *model = input->model;
    const int states = 1 + optimizer_table[model->optimizer].states; /* with master weights */
    memset(bytes, 0, TIERS * sizeof *bytes);
    for (enum tier tier = 0; tier < TIERS; tier++) {
        bytes[tier][CATEGORY_PARAMETERS] = arrays(input, dtype_bytes(model->dtype), PAGE_ALIGN);
        bytes[tier][CATEGORY_GRADIENTS] =
            arrays(input, dtype_bytes(model->gradient), PAGE_ALIGN) +
            (tier == TIER_DEVICE ? arrays(input, dtype_bytes(DTYPE_BF16), PAGE_ALIGN) : 0); /* and their errors */
        bytes[tier][CATEGORY_OPTIMIZER] = (uint64_t)states * arrays(input, dtype_bytes(DTYPE_F32), PAGE_ALIGN);
    }
    bytes[TIER_DEVICE][CATEGORY_GATHERED] = HOLES * arrays(input, dtype_bytes(model->dtype), PAGE_ALIGN);
    bytes[TIER_DEVICE][CATEGORY_SECONDARY] =
        input->ranks > 1 ? arrays(input, dtype_bytes(model->dtype), ADDRESS_ALIGN) : 0;
    bytes[TIER_DEVICE][CATEGORY_BUCKETS] = buckets(input);
    bytes[TIER_DEVICE][CATEGORY_ACTIVATIONS] = HOLES * activations(input);
    bytes[TIER_DEVICE][CATEGORY_WORKSPACE] = workspace(input);
    bytes[TIER_HOST][CATEGORY_ACTIVATIONS] = HOLES * outputs(input);
    bytes[TIER_HOST][CATEGORY_STAGING] = staging(input, states);
}
