/* Reduce buckets: gradients leave backward tensor by tensor, last tensor first, and are collected until a bucket of
 * reduce_bucket_size elements is full (DeepSpeed's rule: a tensor that would overflow the bucket flushes it first; a tensor
 * larger than the bucket is one by itself). Nothing is copied: a bucket is a list of pieces of the units' gradients. A unit's
 * own gradient buffer, where it has one, goes back with the flush that holds its last piece. With overlap_comm a flush is
 * written down after the next compute operation, so that one bucket is in flight while the next fills; without, before it, and
 * it follows the operation that filled it: the tensor that did not fit, not only those that did.
 * Internal to engine/plan. */
#ifndef ENGINE_PLAN_BUCKETS_H
#define ENGINE_PLAN_BUCKETS_H

#include "engine/plan/builder.h"

/* Where ranks have a device each, a reduction has room for what the others send: a strip for each, all of one size, and at most this
 * much for all strips. A larger bucket comes in rounds. At 8 ranks a strip is 4.5 MiB, which keeps a link between two GPUs busy for
 * some 20 us, several times what a round costs. */
enum { ARRIVALS_BYTES = 32 << 20 };

struct bucket { struct piece *pieces; int count, room, ready_op, micro_step; int64_t elems; enum flush why; };

struct buckets {
    struct builder *builder;
    enum op_kind kind;    /* OP_REDUCE_SCATTER or OP_ALL_REDUCE */
    bool every_time;      /* after every micro-step: from the second on, results are added */
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

/* End of backward: what is in the open bucket goes too. */
void buckets_close(struct buckets *buckets);

/* Writes down an operation for every full bucket; each follows operation `serial` where nothing may overlap (-1: it may). */
void buckets_write(struct buckets *buckets, int serial);

#endif
