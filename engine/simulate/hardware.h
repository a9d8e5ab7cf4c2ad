/* Hardware profiles: what a device and its node can do. A profile is a JSON file: "name", "collectives" (a word of ways), and
 * the figures of figures.def, each as [value, "source of the value"]. configs/hardware has those that are built in. */
#pragma once

#include <stdint.h>

#include "engine/base/dtype.h"
#include "engine/base/error.h"
#include "engine/config/config.h"

/* How collectives send (cost.h). FASTEST: whichever of ring, tree and hierarchical takes the least time, as NCCL chooses. */
enum way { WAY_FASTEST, WAY_RING, WAY_TREE, WAY_HIERARCHICAL, WAY_DIRECT, WAYS };

struct hardware {
    char name[64];
    enum way way;
#define FIGURE(field, key, required, meaning) uint64_t field;
#include "engine/simulate/figures.def"
#undef FIGURE
    /* Of paces alone: each rank has a network and a disk of its own, and what has no figure takes no time. An operation that is
     * followed lasts least_ns at least, and every one slow_motion times as long (0: once). */
    bool paced;
    uint64_t least_ns;
    double slow_motion;
    int slow_rank; /* its operations take `straggler` times as long; straggler 0: none does */
    double straggler;
};

/* One that is built in ("a100"), or a file. STATUS_USAGE: there is neither (NULL: no name was given), or a figure is missing or wrong;
 * STATUS_INPUT: not readable, not JSON. */
int hardware_load(struct hardware *hardware, const char *name, struct error *err);

const char *hardware_names(void); /* of those that are built in, separated by spaces */

/* What a configuration paces: its links, a device, slow motion, a slow rank. False: neither links nor a device nor, to be followed by
 * eye, slow motion. */
bool hardware_of_paces(struct hardware *hardware, const struct config *config);

/* The text of a profile, each figure with `source`; the caller frees. NULL: no memory. */
char *hardware_text(const struct hardware *hardware, const char *source);

/* Nodes are the configuration's (topology.ranks_per_node), else the hardware's. STATUS_USAGE: the ranks do not fill them. */
int hardware_place(struct config *config, const struct hardware *hardware, struct error *err);

/* calibrate.c: measures this machine, with the engine's own kernels, on one thread: what a rank of one thread reaches. Takes some
 * seconds; each figure of a kernel is the median of several rounds. disk: a folder whose disk is measured, too; NULL: none. */
int calibrate_machine(struct hardware *hardware, const char *disk, struct error *err);

/* FLOP/s at the peak of this type; 0: the profile does not say it. */
uint64_t hardware_flops(const struct hardware *hardware, enum dtype dtype);
