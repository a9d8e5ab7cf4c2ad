/* Sums over a schedule: memory, traffic and arithmetic. The planned values on screens and in `zerolab plan` come from here, and tests
 * compare the measured bytes with them. */
#pragma once

#include "engine/plan/schedule.h"

struct footprint {
    struct {
        int64_t resting_bytes, peak_bytes, at_peak_bytes; /* between steps; the peak in a step; at the instant of the tier's peak */
        uint64_t extent_bytes; /* highest end of a buffer in the category's address range: reserved_bytes (memory.h) as planned */
    } category[TIERS][CATEGORIES];
    int64_t resting_bytes[TIERS], peak_bytes[TIERS];
    int peak_op[TIERS]; /* operation at whose start the peak is reached; -1: between steps */
};

void footprint_of(struct footprint *footprint, const struct schedule *schedule);

/* limits: by tier; 0: none. */
bool footprint_fits(const struct footprint *footprint, const uint64_t limits[TIERS]);

/* across_bytes: the part that goes to other (virtual) nodes. */
struct traffic_sum { int count; int64_t sent_bytes, across_bytes; };

/* The kind of traffic of operations of this kind; TRAFFIC_KINDS: they move nothing. */
enum traffic op_traffic(enum op_kind kind);

/* Seconds that these transfers take one after the other on a paced link; 0: the link is not paced. */
double traffic_seconds(const struct traffic_sum *sum, const struct config_link *link);

/* Planned tensor traffic of one rank in one step, on nodes of per_node ranks each; 0: there is one node. */
void traffic_of(struct traffic_sum sums[TRAFFIC_KINDS], const struct schedule *schedule, const struct model *model, int rank,
                int per_node);
struct traffic_sum traffic_between_ranks(const struct traffic_sum sums[TRAFFIC_KINDS]); /* the sum over all kinds but copies */

/* Planned bytes of one operation, by link: what `rank` sends within its node and to other nodes, or copies between tiers. */
void op_link_bytes(int64_t bytes[LINKS], const struct schedule *schedule, const struct model *model, const struct op *op, int rank,
                   int per_node);

/* Elements of a piece that lie in an extent of its unit on `rank`. Sets *from to the first of them; from may be NULL. */
int64_t piece_elems(const struct schedule *schedule, const struct model *model, const struct piece *piece, enum extent extent,
                    int rank, int64_t *from);

/* Share (0 to 1) of a rank's bytes in a group that go to other (virtual) nodes, if every other member gets equally many; mean over the
 * ranks. per_node 0: there is one node; else the number of ranks is a multiple of it. */
double traffic_inter_share(const struct schedule *schedule, enum group kind, int per_node);

/* The paper's volume for this stage and accumulation: k x Psi x bytes x (N-1)/N (ZeRO section 7). */
double traffic_theory_bytes(const struct model *model, const struct schedule *schedule);
/* The terms of that volume. times is the k: how often all parameters, or all gradients, are sent among the ranks of a group. */
struct volume_term { bool gradients; enum group group; int times; bool quantized; };
enum { VOLUME_TERMS = 5 };
struct volume { int count; struct volume_term term[VOLUME_TERMS]; };
struct volume traffic_theory_volume(const struct schedule *schedule);
/* Share of all elements that a rank sends each time: (n-1)/n in a group of n ranks. In GROUP_REPLICAS a rank sends
 * only parts of its own shard, so the share is divided by the number of ranks of a shard group. In GROUP_ACROSS each rank of a node sends
 * an equal part of what the node sends, so the share is divided by the number of ranks of a node. */
double volume_share(const struct schedule *schedule, const struct volume_term *term);

/* Floating-point operations of a schedule: its matrix products and attention, two to a multiply-add, as the kernels compute
 * them (attention is causal, so half of its T x T; its backward makes the scores again). Norms, GELU and the optimizer are
 * not counted: they are bound by memory.
 *
 * Counts are doubles: a step of a model of 1e12 parameters takes 5e19 of them, more than 64 bits hold. They are exact up to 2^53, and
 * to 16 digits beyond. */
double op_flops(const struct schedule *schedule, const struct model *model, const struct op *op);
double op_attention_flops(const struct schedule *schedule, const struct model *model, const struct op *op); /* the part for q k^T and p v */

/* Floating-point operations of one rank in one step. */
struct flops { double forward, backward, recomputed; };
void flops_of(struct flops *flops, const struct schedule *schedule, const struct model *model);
