/* What was allocated before a trace's first action is not in the file. It is found by undoing all actions, from the last to the
 * first, on the blocks that the segments have at the end. The trace ends at the snapshot, because PyTorch's ring overwrites
 * the oldest entries, so this also holds for a truncated history.
 *
 * It does not hold if recording was switched off before the snapshot, if it left out actions (skip_actions), or if another
 * thread allocated while the snapshot was taken. This shows as an undo that does not fit: an allocation of a block that is not
 * there, or there with another size, or a free of one that is there. Then the beginning is unknown, and so is all that follows.
 * A gap that no later action contradicts is not noticed. */
#include "engine/import/snapshot.h"

#include <stdlib.h>

enum { MEMBERS_MAX = 64 }; /* of a dict below the root, so that a made-up file cannot make a search long */

static const struct {
    const char *name;
    int allocated, reserved;
} rows[] = {
#define ACTION(name, allocated, reserved) {#name, allocated, reserved},
    SNAPSHOT_ACTIONS(ACTION)
#undef ACTION
};

struct walk {
    const struct pickle_value *segments, *traces;
    uint64_t most; /* visits left: a DAG can have more paths than bytes; a snapshot has not */
    struct error *err;
};

static int no_snapshot(struct walk *walk, const char *what)
{
    return error_set(walk->err, STATUS_INPUT, "no snapshot of PyTorch's memory: %s", what);
}

static bool is_list(const struct pickle_value *value)
{
    return value && (value->kind == PICKLE_LIST || value->kind == PICKLE_TUPLE);
}

static const struct pickle_value *member(const struct pickle_value *dict, const char *key)
{
    return dict && dict->kind == PICKLE_DICT && dict->count <= 2 * MEMBERS_MAX ? pickle_get(dict, key) : NULL;
}

static int64_t number_of(const struct pickle_value *dict, const char *key, int64_t otherwise)
{
    const struct pickle_value *value = member(dict, key);
    return value && value->kind == PICKLE_INT ? value->integer : otherwise;
}

static struct foreign_text text_of(const struct pickle_value *dict, const char *key)
{
    const struct pickle_value *value = member(dict, key);
    return value && value->kind == PICKLE_TEXT ? value->text : (struct foreign_text){0};
}

/* ---- allocated blocks, by address ---- */

struct blocks {
    struct block {
        int64_t address, size_bytes;
        bool used, allocated;
    } * at;
    size_t room; /* a power of 2, at least twice the addresses */
};

static bool blocks_init(struct blocks *blocks, uint64_t addresses)
{
    for (blocks->room = 16; blocks->room < 2 * addresses; blocks->room *= 2)
        ;
    return (blocks->at = calloc(blocks->room, sizeof *blocks->at));
}

static struct block *block_at(const struct blocks *blocks, int64_t address)
{
    size_t i = (size_t)((uint64_t)address * 0x9e3779b97f4a7c15u >> 20) & (blocks->room - 1);
    while (blocks->at[i].used && blocks->at[i].address != address) i = (i + 1) & (blocks->room - 1);
    blocks->at[i].used = true;
    blocks->at[i].address = address;
    return &blocks->at[i];
}

/* ---- the end ---- */

static bool add(int64_t *sum, int64_t more)
{
    return more >= 0 && !__builtin_add_overflow(*sum, more, sum);
}

/* Adds up a segment's blocks, and puts them into `blocks`. */
static int add_segment(struct walk *walk, const struct pickle_value *segment, struct snapshot_device *device,
                       struct blocks *blocks)
{
    const struct pickle_value *list = member(segment, "blocks");
    int64_t address = number_of(segment, "address", 0);
    if (!add(&device->reserved_end_bytes, number_of(segment, "total_size", -1)) || !is_list(list))
        return no_snapshot(walk, "a segment lacks its total_size or its blocks");
    for (size_t b = 0; b < list->count; b++) {
        const int64_t size = number_of(list->items[b], "size", -1),
                      bytes = number_of(list->items[b], "requested_size", -1);
        if (foreign_is(text_of(list->items[b], "state"), "active_allocated")) {
            struct block *block = block_at(blocks, address);
            *block = (struct block){address, bytes, true, true};
            if (device->allocated_end_bytes >= 0 && !add(&device->allocated_end_bytes, bytes))
                device->allocated_end_bytes = SNAPSHOT_UNKNOWN;
        }
        if (!add(&address, size)) return no_snapshot(walk, "a block has no size");
    }
    return STATUS_OK;
}

/* ---- the beginning ---- */

static enum snapshot_kind kind_of(struct foreign_text word)
{
    enum snapshot_kind kind = 0;
    while (kind < SNAPSHOT_other && !foreign_is(word, rows[kind].name)) kind++;
    return kind;
}

/* Takes `sign` times the size off *bytes, which becomes unknown if that does not fit. */
static void undo(int64_t *bytes, int sign, int64_t size, bool fits)
{
    if (!sign || *bytes < 0) return;
    if (!fits || size < 0 || __builtin_sub_overflow(*bytes, sign * size, bytes) || *bytes < 0)
        *bytes = SNAPSHOT_UNKNOWN;
}

/* Leads the bytes of the beginning, which are those of the end, back through all actions. */
static void undo_actions(const struct pickle_value *trace, const struct blocks *blocks, struct snapshot_device *device)
{
    for (size_t a = trace->count; a--;) {
        const struct pickle_value *entry = trace->items[a];
        const int kind = kind_of(text_of(entry, "action")), sign = rows[kind].allocated;
        const int64_t size = number_of(entry, "size", -1);
        undo(&device->reserved_begin_bytes, rows[kind].reserved, size, true);
        if (!sign) continue;
        struct block *block = block_at(blocks, number_of(entry, "addr", 0));
        const bool fits = sign > 0 ? block->allocated && block->size_bytes == size : !block->allocated;
        undo(&device->allocated_begin_bytes, sign, size, fits);
        block->size_bytes = size;
        block->allocated = sign < 0;
    }
}

/* ---- the actions ---- */

static void first_frame(const struct pickle_value *entry, struct snapshot_action *action)
{
    const struct pickle_value *frames = member(entry, "frames");
    if (!is_list(frames) || !frames->count) return;
    action->frame = text_of(frames->items[0], "name");
    action->file = text_of(frames->items[0], "filename");
    action->line = number_of(frames->items[0], "line", 0);
}

static int give_action(struct walk *walk, const struct pickle_value *entry, const struct snapshot_sink *sink,
                       int device, int64_t *allocated, int64_t *reserved)
{
    const struct pickle_value *time = member(entry, "time_us");
    struct snapshot_action action = {.word = text_of(entry, "action"),
                                     .address = number_of(entry, "addr", 0),
                                     .size_bytes = number_of(entry, "size", 0),
                                     .stream = number_of(entry, "stream", 0),
                                     .device_free_bytes = number_of(entry, "device_free", SNAPSHOT_UNKNOWN)};
    if (!action.word.at) return no_snapshot(walk, "an entry of a trace has no action");
    action.kind = kind_of(action.word);
    action.has_time = time && time->kind == PICKLE_INT && !__builtin_mul_overflow(time->integer, 1000, &action.time_ns);
    if (*allocated >= 0) *allocated += rows[action.kind].allocated * action.size_bytes;
    if (*reserved >= 0) *reserved += rows[action.kind].reserved * action.size_bytes;
    action.allocated_bytes = *allocated;
    action.reserved_bytes = *reserved;
    first_frame(entry, &action);
    return sink->action(sink->user, device, &action);
}

static int walk_device(struct walk *walk, int number, const struct snapshot_sink *sink)
{
    static const struct pickle_value none = {.kind = PICKLE_LIST};
    const struct pickle_value *trace = (size_t)number < walk->traces->count ? walk->traces->items[number] : &none;
    struct snapshot_device device = {.device = number};
    struct blocks blocks = {0};
    uint64_t addresses = 0;
    int status = STATUS_OK;
    if (!is_list(trace)) return no_snapshot(walk, "a trace is no list");
    device.actions = addresses = trace->count;
    for (size_t s = 0; s < walk->segments->count; s++) {
        const struct pickle_value *list = member(walk->segments->items[s], "blocks");
        if (is_list(list) && number_of(walk->segments->items[s], "device", 0) == number) addresses += list->count;
    }
    const uint64_t visits = addresses + walk->segments->count;
    if (visits > walk->most) return no_snapshot(walk, "it refers to the same entries many times");
    walk->most -= visits;
    if (!blocks_init(&blocks, addresses)) return error_set(walk->err, STATUS_RUN, "no memory for its blocks");
    for (size_t s = 0; s < walk->segments->count && !status; s++)
        if (number_of(walk->segments->items[s], "device", 0) == number)
            status = add_segment(walk, walk->segments->items[s], &device, &blocks);
    device.allocated_begin_bytes = device.allocated_end_bytes;
    device.reserved_begin_bytes = device.reserved_end_bytes;
    undo_actions(trace, &blocks, &device);
    free(blocks.at);
    int64_t allocated = device.allocated_begin_bytes, reserved = device.reserved_begin_bytes;
    if (!status) status = sink->device(sink->user, &device);
    for (size_t a = 0; a < trace->count && !status; a++)
        status = give_action(walk, trace->items[a], sink, number, &allocated, &reserved);
    return status;
}

int snapshot_read(const struct pickle *pickle, const struct snapshot_sink *sink, struct error *err)
{
    static const struct pickle_value none = {.kind = PICKLE_LIST};
    const struct pickle_value *root = pickle->root;
    struct walk walk = {pickle_get(root, "segments"), pickle_get(root, "device_traces"), pickle->bytes, err};
    if (is_list(root)) walk.segments = root; /* torch.cuda.memory_snapshot(): the segments alone */
    if (!walk.traces) walk.traces = &none;
    if (!is_list(walk.segments) || !is_list(walk.traces)) return no_snapshot(&walk, "it has no segments");
    int64_t devices = (int64_t)walk.traces->count;
    for (size_t s = 0; s < walk.segments->count; s++) {
        const int64_t device = number_of(walk.segments->items[s], "device", 0);
        if (device < 0 || device > 1023) return no_snapshot(&walk, "a segment's device is not from 0 to 1023");
        if (device >= devices) devices = device + 1;
    }
    if (devices > 1024) return no_snapshot(&walk, "it has more than 1024 devices");
    int status = STATUS_OK;
    for (int d = 0; d < devices && !status; d++) status = walk_device(&walk, d, sink);
    return status;
}
