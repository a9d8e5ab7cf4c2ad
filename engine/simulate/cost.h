/* How long one operation lasts on given hardware, in whole nanoseconds. All arithmetic is in integers, so that every machine
 * finds the same times. Two exceptions are doubles that are rounded down: FLOPs, which only products and sums make, and times that slow
 * motion or a slow rank multiplies.
 *
 * Computing: latency + FLOPs at the matmul rate of the type + bytes of its buffers at the memory's rate, or at the rate of the kernels
 * between matmuls. Both terms are added, because the kernels of an operation run one after the other. The optimizer, norms and casts
 * have no FLOPs: they are bound by memory.
 *
 * Collectives: alpha-beta. n ranks of a group lie on `nodes` nodes, m of them on the fullest; each moves n - 1 chunks of b
 * bytes, where b is the chunk of the rank that sends most: buckets lie unevenly over shards, and the other ranks wait. A message
 * takes alpha + bytes x beta of its link class. All ranks of a node communicate at the same time and share its network, so
 * `per_node` ranks get 1/per_node of it each; a ring crosses from node to node once, so per_node/m rings share it.
 *
 *     ring          (n-1) max(alpha_intra + b beta_intra, alpha_inter + b (per_node/m) beta_inter)
 *     tree          sum over i < log2 n of alpha + min(2^i, n - 2^i) b beta, in a node while 2^i < m, else shared
 *     hierarchical  (nodes-1) (alpha_inter + b per_node beta_inter) + (m-1) (alpha_intra + nodes b beta_intra)
 *
 * These are times of an all-gather. A reduce-scatter takes the same time, an all-reduce takes both (Thakur, Rabenseifner and
 * Gropp 2005, section 4; Chan et al. 2007). The bytes of links are the plan's, whatever the algorithm (enum way).
 *
 * With direct collectives, as in the engine, each rank reads from all others. The time is that of the rank that sends most: alpha +
 * bytes x beta of the slower link. A copy between tiers has the same formula; the ranks of a node share its disks. */
#pragma once

#include "engine/plan/schedule.h"
#include "engine/simulate/hardware.h"

/* How a group lies on nodes of per_node ranks. `nodes` and `most` decide the time of its collectives. */
struct group_shape { int ranks, nodes, most; };
struct group_shape group_shape_of(const struct process_group *group, int per_node);

struct cost_input {
    const struct schedule *schedule;
    const struct model *model;
    const struct hardware *hardware;
    int per_node; /* ranks of a node */
};

/* Nanoseconds to all-gather or reduce-scatter n - 1 chunks of `chunk` bytes per rank. way: any but WAY_DIRECT. */
uint64_t way_ns(const struct hardware *hardware, enum way way, const struct group_shape *shape, int per_node, uint64_t chunk);

/* Nanoseconds of one operation alone. The time of a collective begins when its last rank arrives. */
uint64_t op_ns(const struct cost_input *input, const struct op *op, const struct group_shape *shape);

/* Bytes that a computing operation reads and writes in its buffers. */
uint64_t op_touched_bytes(const struct cost_input *input, const struct op *op);

/* STATUS_USAGE: the hardware lacks a figure that the schedule needs. */
int cost_check(const struct cost_input *input, struct error *err);
