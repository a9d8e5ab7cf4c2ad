/* What a schedule says about memory, traffic and arithmetic: its running sums. Predicted marks, `zerolab plan` and the tests that hold
 * the measured bytes against the plan all come from here. */
#pragma once

#include "engine/plan/schedule.h"

struct footprint {
    struct {
        int64_t resting_bytes, peak_bytes, at_peak_bytes; /* between steps; within; at the instant of the tier's peak */
        uint64_t extent_bytes;                            /* address range in use: planned `reserved` */
    } category[TIERS][CATEGORIES];
    int64_t resting_bytes[TIERS], peak_bytes[TIERS];
    int peak_op[TIERS]; /* operation at whose start the peak is reached */
};

void footprint_of(struct footprint *footprint, const struct schedule *schedule);

/* limits: by tier; 0: none. */
bool footprint_fits(const struct footprint *footprint, const uint64_t limits[TIERS]);

/* across_bytes: the part that goes to other (virtual) nodes. */
struct traffic_sum { int count; int64_t sent_bytes, across_bytes; };

/* What an operation of that kind counts as; TRAFFIC_KINDS: it moves nothing. */
enum traffic op_traffic(enum op_kind kind);

/* How long transfers take one after the other at a link's pace; 0: it is not paced. */
double traffic_seconds(const struct traffic_sum *sum, const struct config_link *link);

/* Planned tensor traffic of one rank in one step, on nodes of per_node ranks each; 0: there is one. */
void traffic_of(struct traffic_sum sums[TRAFFIC_KINDS], const struct schedule *schedule, const struct model *model, int rank,
                int per_node);
struct traffic_sum traffic_between_ranks(const struct traffic_sum sums[TRAFFIC_KINDS]); /* of all kinds but copies */

/* The same of one operation, by link: what `rank` sends to ranks of its node and of others, or copies between tiers. */
void op_link_bytes(int64_t bytes[LINKS], const struct schedule *schedule, const struct model *model, const struct op *op, int rank,
                   int per_node);

/* Elements of a piece that lie in an extent of its unit on `rank`; *from: the first of them, or NULL. */
int64_t piece_elems(const struct schedule *schedule, const struct model *model, const struct piece *piece, enum extent extent,
                    int rank, int64_t *from);

/* The part of what a rank sends in a group that goes to other (virtual) nodes, mean over the ranks: each of the others gets as much.
 * per_node 0: there is one node; else it divides ranks. */
double traffic_inter_share(const struct schedule *schedule, enum group kind, int per_node);

/* The paper's volume for this stage and accumulation: k x Psi x bytes x (N-1)/N (ZeRO section 7). */
double traffic_theory_bytes(const struct model *model, const struct schedule *schedule);
/* Its terms: the k, how often all elements of parameters or gradients are sent among the ranks of a group. */
struct volume_term { bool gradients; enum group group; int times; bool quantized; };
enum { VOLUME_TERMS = 5 };
struct volume { int count; struct volume_term term[VOLUME_TERMS]; };
struct volume traffic_theory_volume(const struct schedule *schedule);
/* The part of all elements that a rank sends each time: (n-1)/n in a group of n ranks; replicas have only
 * a shard each to send, and ranks of different nodes the sums that their place is to send on. */
double volume_share(const struct schedule *schedule, const struct volume_term *term);

/* Floating-point operations of a schedule: its matrix products and attention, two to a multiply-add, as the kernels compute
 * them (attention is causal, so half of its T x T; its backward makes the scores again). Norms, GELU and the optimizer are
 * not counted: they are bound by memory.
 *
 * Counts are doubles: a step of a model of 1e12 parameters takes 5e19 of them, more than 64 bits hold. They are exact up to 2^53, and
 * to 16 digits beyond. */
double op_flops(const struct schedule *schedule, const struct model *model, const struct op *op);
double op_attention_flops(const struct schedule *schedule, const struct model *model, const struct op *op); /* among these: q k^T, p v */

/* Of one rank in one step. */
struct flops { double forward, backward, recomputed; };
void flops_of(struct flops *flops, const struct schedule *schedule, const struct model *model);
