/* Reduce buckets: gradients leave backward tensor by tensor, last tensor first, and are collected until a bucket of
 * reduce_bucket_size elements is full (DeepSpeed's rule: a tensor that would overflow the bucket flushes it first; a tensor
 * larger than the bucket is a bucket by itself). Nothing is copied: a bucket is a list of pieces of the units' gradients. If a unit
 * has its own gradient buffer, the flush with its last piece gives that buffer back. With overlap_comm the
 * planner writes a flush after the next compute operation, so one bucket is in flight while the next fills. Without it the flush
 * comes directly after the operation that closed the bucket, and waits for it.
 * Internal to engine/plan. */
#pragma once

#include "engine/plan/builder.h"

/* With NCCL collectives (model.passes) a reduction has a buffer for what other ranks send: one strip for each other rank, all of
 * one size, and at most this many bytes for all strips. A bucket that needs more is sent in several rounds. At 8 ranks a strip is
 * 4.5 MiB, which keeps a link between two GPUs busy for some 20 us, several times what a round costs. */
enum { ARRIVALS_BYTES = 32 << 20 };

struct bucket { struct piece *pieces; int count, room, ready_op, micro_step; int64_t elems; enum flush why; };

struct buckets {
    struct builder *builder;
    enum op_kind kind;    /* OP_REDUCE_SCATTER or OP_ALL_REDUCE */
    bool quantized;       /* ZeRO++ */
    bool every_time;      /* reduces after every micro-step; results are added from the second micro-step on */
    struct bucket open;   /* filling */
    struct bucket *full;  /* waiting to be written down, in order */
    int full_count, full_room;
    int written;          /* number of the next bucket */
    int last_op;          /* newest flush in the schedule; -1: none yet */
};

void buckets_init(struct buckets *buckets, struct builder *builder, enum op_kind kind, bool every_time);
void buckets_release(struct buckets *buckets);

/* The gradient of `unit` is complete with operation `ready_op`: its tensors enter the bucket. `source` holds the whole
 * gradient, the owner's result goes to `destination`. */
void buckets_add_unit(struct buckets *buckets, int micro_step, int unit, int source, int destination, int ready_op);

/* At the end of backward: closes the open bucket, full or not, so that buckets_write() writes it too. */
void buckets_close(struct buckets *buckets);

/* Adds one reduction to the schedule for every closed bucket. Each waits for operation `serial`; -1: it may overlap. */
void buckets_write(struct buckets *buckets, int serial);
