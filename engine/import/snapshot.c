/* A snapshot of PyTorch's CUDA caching allocator, which torch.cuda.memory._dump_snapshot() writes as a pickle: the memory of each GPU over
 * time, without operations.
 * Format: pytorch, torch/csrc/cuda/memory_snapshot.cpp (_memory_snapshot_pickled()) and the docstring of _snapshot() in
 * torch/cuda/memory.py; sizes: record_trace() in c10/cuda/CUDACachingAllocator.cpp; readers: torch/cuda/_memory_viz.py.
 *
 * Allocated bytes are what the program asked for, without the allocator's rounding: the trace records no other size.
 * Memory that is freed while another stream still uses it no longer counts. Reserved bytes are those of the segments.
 *
 * What was allocated before a trace's first action is not in the file. It is found by undoing all actions, from the last to the
 * first, on the blocks that the segments have at the end. The trace ends at the snapshot, because PyTorch's ring overwrites
 * the oldest entries, so this also holds for a truncated history.
 *
 * It does not hold if recording was switched off before the snapshot, if it left out actions (skip_actions), or if another
 * thread allocated while the snapshot was taken. This shows as an undo that does not fit: an allocation of a block that is not
 * there, or there with another size, or a free of one that is there. Then the beginning is unknown, and so is all that follows.
 * A gap that no later action contradicts is not noticed. */
#include <stdio.h>

#include "engine/import/job.h"
#include "engine/import/pickle.h"

enum { UNKNOWN = -1, GPUS_MAX = 1024 };
enum { MEMBERS_MAX = 64 }; /* of a dict below the root, so that a made-up file cannot make a search long */

/* What the size of an action adds. Any other word adds nothing; newer versions have more. */
static const struct action {
    const char *word;
    int allocated, reserved;
} actions[] = {{"alloc", 1, 0},
               {"free_requested", -1, 0},
               {"segment_alloc", 0, 1},
               {"segment_free", 0, -1},
               {"segment_map", 0, 1},
               {"segment_unmap", 0, -1},
               {"", 0, 0}};
enum { ACTIONS = sizeof actions / sizeof actions[0] };

enum { FREE = 1, ALLOCATED }; /* what is at an address; to ALLOCATED the bytes are added */

struct walk {
    struct job *job;
    const struct pickle *pickle;
    const struct pickle_value *segments, *traces;
    uint64_t most;                       /* visits left: values may have more paths than bytes; a snapshot has not */
    uint64_t changes, timeless, unknown; /* actions that were used; that could not be */
    int next_rank;                       /* of the next GPU that acted */
    struct error *err;
    struct map blocks;           /* of one GPU, by address */
    int64_t allocated, reserved; /* its bytes, at the end and led back to the beginning */
};

static int no_snapshot(struct walk *walk, const char *what)
{
    return error_set(walk->err, STATUS_INPUT, "no snapshot of PyTorch's memory: %s", what);
}

static const struct pickle_value none = {.kind = PICKLE_LIST};

static bool is_list(const struct pickle_value *value)
{
    return value && value->kind == PICKLE_LIST;
}

static const struct pickle_value *member(const struct walk *walk, const struct pickle_value *dict, const char *key)
{
    return pickle_count(dict) <= 2 * MEMBERS_MAX ? pickle_get(walk->pickle, dict, key) : NULL;
}

static int64_t number_of(const struct walk *walk, const struct pickle_value *dict, const char *key, int64_t otherwise)
{
    const struct pickle_value *value = member(walk, dict, key);
    return value && value->kind == PICKLE_INT ? value->integer : otherwise;
}

static struct foreign_text text_of(const struct walk *walk, const struct pickle_value *dict, const char *key)
{
    const struct pickle_value *value = member(walk, dict, key);
    return value && value->kind == PICKLE_TEXT ? value->text : (struct foreign_text){0};
}

static uint64_t held(int64_t bytes)
{
    return bytes < 0 ? FREE : ALLOCATED + (uint64_t)bytes;
}

/* What is at an address; 0: nothing is known, so it is free. NULL: no memory. */
static uint64_t *block_at(struct walk *walk, int64_t address)
{
    uint64_t *block = map_put(&walk->blocks, (uint64_t)address);
    if (!block) error_set(walk->err, STATUS_RUN, "no memory for its blocks");
    return block;
}

/* ---- the end ---- */

static bool add(int64_t *sum, int64_t more)
{
    return more >= 0 && !__builtin_add_overflow(*sum, more, sum);
}

/* Adds up a segment and its blocks. Allocated bytes are unknown if a block does not say what was requested. */
static int add_segment(struct walk *walk, const struct pickle_value *segment)
{
    const struct pickle_value *list = member(walk, segment, "blocks");
    int64_t address = number_of(walk, segment, "address", 0);
    if (!add(&walk->reserved, number_of(walk, segment, "total_size", -1)) || !is_list(list))
        return no_snapshot(walk, "a segment lacks its total_size or its blocks");
    for (size_t b = 0; b < pickle_count(list); b++) {
        const struct pickle_value *from = pickle_member(walk->pickle, list, b);
        const int64_t bytes = number_of(walk, from, "requested_size", -1);
        if (foreign_is(text_of(walk, from, "state"), "active_allocated")) {
            uint64_t *block = block_at(walk, address);
            if (!block) return STATUS_RUN;
            *block = held(bytes);
            if (walk->allocated != UNKNOWN && !add(&walk->allocated, bytes)) walk->allocated = UNKNOWN;
        }
        if (!add(&address, number_of(walk, from, "size", -1))) return no_snapshot(walk, "a block has no size");
    }
    return STATUS_OK;
}

/* ---- the beginning ---- */

static const struct action *action_of(const struct walk *walk, const struct pickle_value *entry)
{
    const struct foreign_text word = text_of(walk, entry, "action");
    const struct action *action = actions;
    while (action < actions + ACTIONS - 1 && !foreign_is(word, action->word)) action++;
    return action;
}

/* Takes `sign` times the size off *bytes, which becomes unknown if that does not fit. */
static void undo(int64_t *bytes, int sign, int64_t size, bool fits)
{
    if (!sign || *bytes == UNKNOWN) return;
    if (!fits || size < 0 || __builtin_sub_overflow(*bytes, sign * size, bytes) || *bytes < 0) *bytes = UNKNOWN;
}

/* Leads the bytes of the end back through all actions. */
static int undo_actions(struct walk *walk, const struct pickle_value *trace)
{
    for (size_t a = pickle_count(trace); a--;) {
        const struct pickle_value *entry = pickle_member(walk->pickle, trace, a);
        const struct action *action = action_of(walk, entry);
        const int64_t size = number_of(walk, entry, "size", -1);
        undo(&walk->reserved, action->reserved, size, true);
        if (!action->allocated) continue;
        uint64_t *block = block_at(walk, number_of(walk, entry, "addr", 0));
        if (!block) return STATUS_RUN;
        undo(&walk->allocated, action->allocated, size, action->allocated > 0 ? *block == held(size) : *block <= FREE);
        *block = action->allocated > 0 ? FREE : held(size);
    }
    return STATUS_OK;
}

/* ---- the actions ---- */

/* Follows the actions again, from the beginning. */
static int take_actions(struct walk *walk, const struct pickle_value *trace, struct job_rank *rank)
{
    for (size_t a = 0; a < pickle_count(trace); a++) {
        const struct pickle_value *entry = pickle_member(walk->pickle, trace, a);
        const struct pickle_value *time = member(walk, entry, "time_us");
        const struct action *action = action_of(walk, entry);
        const int64_t size = number_of(walk, entry, "size", 0);
        int64_t time_ns;
        if (!text_of(walk, entry, "action").at) return no_snapshot(walk, "an entry of a trace has no action");
        if (walk->allocated != UNKNOWN) walk->allocated += action->allocated * size;
        if (walk->reserved != UNKNOWN) walk->reserved += action->reserved * size;
        const bool timed = time && time->kind == PICKLE_INT && !__builtin_mul_overflow(time->integer, 1000, &time_ns);
        walk->timeless += !timed;
        walk->unknown += timed && walk->allocated < 0;
        if (!timed || walk->allocated < 0) continue;
        walk->changes++;
        job_add(walk->job, rank, JOB_MEMORY,
                (struct job_span){.started_ns = time_ns,
                                  .live_bytes = (uint64_t)walk->allocated,
                                  .reserved_bytes = walk->reserved < 0 ? 0 : (uint64_t)walk->reserved});
    }
    return STATUS_OK;
}

static int walk_gpu(struct walk *walk, int number)
{
    const struct pickle_value *trace = &none;
    int status = STATUS_OK;
    if ((size_t)number < pickle_count(walk->traces)) trace = pickle_member(walk->pickle, walk->traces, (size_t)number);
    if (!is_list(trace)) return no_snapshot(walk, "a trace is no list");
    uint64_t visits = pickle_count(trace) + pickle_count(walk->segments);
    walk->allocated = walk->reserved = 0;
    for (size_t s = 0; s < pickle_count(walk->segments) && !status; s++) {
        const struct pickle_value *segment = pickle_member(walk->pickle, walk->segments, s);
        if (number_of(walk, segment, "device", 0) != number) continue;
        visits += pickle_count(member(walk, segment, "blocks"));
        status = visits > walk->most ? no_snapshot(walk, "it refers to the same entries many times")
                                     : add_segment(walk, segment);
    }
    if (!status && visits > walk->most) status = no_snapshot(walk, "it refers to the same entries many times");
    walk->most -= visits;
    if (!status) status = undo_actions(walk, trace);
    map_release(&walk->blocks);
    if (status || !pickle_count(trace)) return status;
    struct job_rank *to = job_rank(walk->job, walk->next_rank++);
    if (!to) return error_set(walk->err, STATUS_RUN, "it has too many GPUs, or no memory for them");
    snprintf(to->lane[LANE_COMPUTE].name, sizeof to->lane[0].name, "GPU %d", number);
    return take_actions(walk, trace, to);
}

static int walk_all(struct walk *walk)
{
    const struct pickle_value *root = walk->pickle->root;
    /* torch.cuda.memory_snapshot() has the segments alone */
    walk->segments = is_list(root) ? root : pickle_get(walk->pickle, root, "segments");
    walk->traces = pickle_get(walk->pickle, root, "device_traces");
    if (!walk->traces) walk->traces = &none;
    if (!is_list(walk->segments) || !is_list(walk->traces)) return no_snapshot(walk, "it has no segments");
    int64_t gpus = (int64_t)pickle_count(walk->traces);
    for (size_t s = 0; s < pickle_count(walk->segments); s++) {
        const int64_t gpu = number_of(walk, pickle_member(walk->pickle, walk->segments, s), "device", 0);
        if (gpu < 0 || gpu >= GPUS_MAX) return no_snapshot(walk, "a segment's device is not from 0 to 1023");
        if (gpu >= gpus) gpus = gpu + 1;
    }
    if (gpus > GPUS_MAX) return no_snapshot(walk, "it has more than 1024 devices");
    int status = STATUS_OK;
    for (int gpu = 0; gpu < gpus && !status; gpu++) status = walk_gpu(walk, gpu);
    return status;
}

int snapshot_to_job(struct job *job, const char *path, int first_rank, uint64_t *changes, struct error *err)
{
    struct pickle pickle;
    int status = pickle_read(&pickle, path, err);
    if (status) return status;
    struct walk walk = {.job = job, .pickle = &pickle, .most = pickle.bytes, .next_rank = first_rank, .err = err};
    status = walk_all(&walk);
    pickle_release(&pickle);
    *changes = walk.changes;
    if (!status && !*changes)
        status = error_set(err, STATUS_INPUT, "%s: the snapshot has no change of memory %s", path,
                           walk.timeless  ? "with its time; PyTorch writes times from version 2.1 on"
                           : walk.unknown ? "whose bytes are known"
                                          : "(call torch.cuda.memory._record_memory_history() before the steps)");
    if (!job->program[0]) snprintf(job->program, sizeof job->program, "PyTorch memory snapshot");
    return status;
}
