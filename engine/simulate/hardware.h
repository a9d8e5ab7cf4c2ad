/* Hardware profiles: what a device and its node can do. A profile is a JSON file: "name", "collectives" (enum way), and
 * the figures of figures.def, each as [value, "source of the value"]. The built-in profiles are in configs/hardware. */
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
    /* paced: the figures are those of pacing (hardware_of_paces()). Each rank has a network and a disk of its own, and a figure of 0
     * takes no time. An operation with op_is_followed() lasts least_ns or more; slow_motion multiplies every operation (0: by 1). */
    bool paced;
    uint64_t least_ns;
    double slow_motion;
    int slow_rank; /* its operations take `straggler` times as long; straggler 0: none does */
    double straggler;
};

/* Loads a built-in profile ("a100") or a file. STATUS_USAGE: there is neither (NULL: no name was given), or a figure is missing or
 * wrong; STATUS_INPUT: the file is not readable or not JSON. */
int hardware_load(struct hardware *hardware, const char *name, struct error *err);

const char *hardware_names(void); /* names of the built-in profiles, separated by spaces */

/* Makes a profile of what a configuration paces: its links, a device, slow motion, a slow rank. False: no link and no device is paced,
 * and slow motion is below SLOW_MOTION_EYE. */
bool hardware_of_paces(struct hardware *hardware, const struct config *config);

/* The text of a profile, each figure with `source`; the caller frees. NULL: no memory. */
char *hardware_text(const struct hardware *hardware, const char *source);

/* Sets topology.ranks_per_node to the profile's devices of a node, if it is not given and the ranks need several nodes. STATUS_USAGE: the
 * ranks do not fill the nodes. */
int hardware_place(struct config *config, const struct hardware *hardware, struct error *err);

/* calibrate.c: measures what a rank of one thread reaches on this machine, with the engine's own kernels. Takes some seconds; each
 * figure of a kernel is the median of several rounds. disk: a folder whose disk is measured, too; NULL: none. */
int calibrate_machine(struct hardware *hardware, const char *disk, struct error *err);

/* Peak FLOP/s of this type; 0: the profile does not have it. */
uint64_t hardware_flops(const struct hardware *hardware, enum dtype dtype);
