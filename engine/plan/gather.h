/* Stage 3's gathers: which unit is gathered when, how far ahead, and when it is released (ZeRO, section 5.3; DeepSpeed's
 * parameter coordinator). The walk over a step is known in advance, so the rules are exact:
 *
 *   demand    before a use whose unit is not gathered, gather it;
 *   prefetch  then go on along the walk and gather units ahead, until stage3_prefetch_bucket_size elements are on their
 *             way for this use (the unit that reaches the size is the last; 0: none), as long as the gathered elements
 *             stay within stage3_max_live_parameters;
 *   release   after a use, unless the unit comes again within stage3_max_reuse_distance elements of other units' uses
 *             and the gathered elements are within stage3_max_live_parameters, or is one of the last keep_last_units
 *             of a forward pass, which backward uses first.
 *
 * With zero_hpz_partition_size (ZeRO++, section 3.2) a unit that is released and used again in this step leaves a secondary copy in
 * the partition: each of its ranks keeps a part. Later gathers of the step read that copy, so they stay within a node; the last of
 * them gives it back.
 *
 * If shards lie in the host tier, each rank first copies its own shard to the device. The planner writes this copy one gather
 * earlier, so the copy, the gather and the use of three units overlap (ZeRO-Infinity, section 6.2). If they lie on
 * NVMe, a read precedes that copy. The planner writes it one more gather earlier, or several, as far as offload_param.buffer_count
 * buffers of buffer_size elements allow.
 *
 * Where parameters are whole (stages 0 to 2) there is nothing to gather and every call finds nothing to do.
 * Internal to engine/plan. */
#pragma once

#include "engine/plan/builder.h"
#include "engine/plan/walk.h"

/* A unit's buffers, and the operations that made them. -1: none. */
struct gathered {
    int buffer, op;                    /* the gathered unit */
    int device_shard, device_shard_op; /* the own shard, copied from the host tier to gather from */
    int host_shard, host_shard_op;     /* the own shard, read from NVMe into the host tier */
    int consumed;                      /* device shard that it was gathered from, not given back yet */
    int secondary, secondary_op;       /* the rank's part of the secondary copy */
    int quantized;                     /* gathered int8 blocks that are not unpacked yet */
    int quantized_shard;               /* the own shard's int8 blocks, from which they were gathered */
};

struct gatherer {
    struct builder *builder;
    const struct walk *walk;
    struct gathered *of;                 /* by unit */
    int64_t live_elems, staging_buffers; /* staging_buffers: how many of offload_param.buffer_count are in use */
    enum held_by held;                   /* what ended the gathers ahead of the previous use */
    bool active;
};

int gatherer_init(struct gatherer *gatherer, struct builder *builder, const struct walk *walk, bool active);

/* How many of offload_param's buffers the shard of a unit fills. */
int64_t staging_buffers_of(const struct schedule *schedule, const struct model *model, int unit);

/* Writes the gathers that belong before use `at`: its own and those ahead. `serial` is the operation that each must follow
 * when communication may not overlap (-1: none). Returns the newest gather written, or -1. */
int gatherer_before(struct gatherer *gatherer, int at, int serial);

/* Before use `at`, with zero_quantized_weights: writes the operation that dequantizes the int8 blocks of its gather. Returns its number;
 * -1: there is nothing to dequantize. */
int gatherer_unpack(struct gatherer *gatherer, int at);

/* The buffer that use `at` gives back because its unit was gathered from it: the shard's copy on the device or, at the unit's last use in
 * the step, its part of the secondary copy. -1: none. (If the gather gave it back, the operations between a gather ahead and its use
 * would wait for the gather, because every take waits for every earlier give.) */
int gatherer_consumed(struct gatherer *gatherer, int at);

/* Whether the unit is released after use `at`. Then that use's operation gives the buffer back, and the gatherer forgets it. */
bool gatherer_lets_go(struct gatherer *gatherer, int at);

/* Whether the unit, released after use `at`, needs a secondary copy. Then gatherer_keep() makes it from the gathered buffer after the use,
 * and gives that buffer back in place of the use. Returns the number of its operation. */
bool gatherer_keeps(const struct gatherer *gatherer, int at);
int gatherer_keep(struct gatherer *gatherer, int at, int buffer);
