/* Is there room on this machine for what is planned? Found out before ranks are started: a run that outgrows the machine's
 * memory is ended by the kernel, and perhaps a neighbour with it. */
#ifndef ENGINE_LAUNCH_CAPACITY_H
#define ENGINE_LAUNCH_CAPACITY_H

#include "engine/advise/fit.h"

/* What this machine has left for ranks. On the CPU backend their device tiers lie in its memory; else on GPUs, which `ranks_on_gpu`
 * of them share. */
struct capacity {
    uint64_t memory_bytes; /* UINT64_MAX: the kernel does not say */
    bool on_gpu;
    int ranks_on_gpu;
    uint64_t gpu_bytes, gpu_total_bytes; /* free, and all, of the GPU that has least; UINT64_MAX: not known */
};

/* As it is now. Looks at GPUs, if the configuration asks for them: for a process that has none open. */
struct capacity capacity_now(const struct config *config);
/* ... of a rank that goes on, on its GPU; gpu NULL: it computes on the processor. */
struct gpu_rank;
struct capacity capacity_beside(const struct config *config, const struct gpu_rank *gpu);

/* Bytes that the kernel says can still be had; UINT64_MAX: it does not say. */
uint64_t capacity_available_bytes(void);

/* The question of `zerolab plan --fit`: the budgets of the configuration, and what is free here where a tier has none. */
struct fit_question capacity_question(const struct config *config, const struct capacity *room, bool any_model);

/* Refuses (STATUS_USAGE) a configuration whose ranks together are planned to hold more than there is, or whose device budgets
 * together are more than a GPU has. A rank with a budget stays below it, whatever its plan. */
int capacity_check(const struct config *config, const struct capacity *room, struct error *err);

/* The same for a change of a run that goes on: `ranks` of them on this machine, each of which holds held_bytes already. */
int capacity_check_change(const struct config *config, int ranks, const uint64_t held_bytes[TIERS], const struct capacity *room,
                      struct error *err);

#endif
