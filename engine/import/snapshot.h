/* Walks a pickle as a snapshot of PyTorch's CUDA caching allocator: what torch.cuda.memory._dump_snapshot() writes.
 * Format: pytorch, torch/csrc/cuda/memory_snapshot.cpp (_memory_snapshot_pickled()) and the docstring of _snapshot() in
 * torch/cuda/memory.py; sizes: record_trace() in c10/cuda/CUDACachingAllocator.cpp; readers: torch/cuda/_memory_viz.py.
 *
 * Allocated bytes are what the program asked for, without the allocator's rounding: the trace records no other size.
 * Memory that is freed while another stream still uses it no longer counts. Reserved bytes are those of the segments. */
#pragma once

#include "engine/import/pickle.h"

enum { SNAPSHOT_UNKNOWN = -1 }; /* of bytes and devices */

/* The actions of a trace: ACTION(name in the file, what its size adds to allocated, to reserved bytes) */
#define SNAPSHOT_ACTIONS(ACTION)    \
    ACTION(alloc, 1, 0)             \
    ACTION(free_requested, -1, 0)   \
    ACTION(free_completed, 0, 0)    \
    ACTION(segment_alloc, 0, 1)     \
    ACTION(segment_free, 0, -1)     \
    ACTION(segment_map, 0, 1)       \
    ACTION(segment_unmap, 0, -1)    \
    ACTION(oom, 0, 0)               \
    ACTION(snapshot, 0, 0)          \
    ACTION(other, 0, 0) /* any other word; newer versions have more */

#define ACTION(name, ...) SNAPSHOT_##name,
enum snapshot_kind { SNAPSHOT_ACTIONS(ACTION) };
#undef ACTION

struct snapshot_action {
    enum snapshot_kind kind;
    struct foreign_text word;                /* the action's name in the file */
    bool has_time;                           /* old versions write none */
    int64_t time_ns;                         /* since 1970 */
    int64_t address, size_bytes, stream;     /* 0 where the file has none */
    int64_t device_free_bytes;               /* of oom, else unknown */
    int64_t allocated_bytes, reserved_bytes; /* after the action, or unknown */
    struct foreign_text frame, file;         /* innermost frame: function and file */
    int64_t line;
};

/* A device before its actions. Those at the beginning are unknown unless the actions lead to the segments (see snapshot.c).
 * Those at the end come from the segments; allocated bytes are unknown if a block does not say what was requested. */
struct snapshot_device {
    int device;
    uint64_t actions;
    int64_t allocated_begin_bytes, reserved_begin_bytes, allocated_end_bytes, reserved_end_bytes;
};

/* Called for each device, and then for each of its actions in their order. Not 0: stop with that status. */
struct snapshot_sink {
    void *user;
    int (*device)(void *user, const struct snapshot_device *device);
    int (*action)(void *user, int device, const struct snapshot_action *action);
};

/* STATUS_INPUT: the pickle is no such snapshot; STATUS_RUN: no memory; or the sink's status. Texts borrow from the pickle.
 * Its allocator_settings are pickle_get(pickle->root, "allocator_settings"). */
int snapshot_read(const struct pickle *pickle, const struct snapshot_sink *sink, struct error *err);

/* snapshot_job.c: adds each GPU that acted to a job, as ranks from first_rank on. *changes: how many changes of memory that were.
 * STATUS_INPUT also: none of them has a time, or known bytes. */
struct job;
int snapshot_to_job(struct job *job, const char *path, int first_rank, uint64_t *changes, struct error *err);
