/* The capacity check: compares the planned memory with the free memory of this machine and its GPUs before ranks are
 * started. The kernel ends a run that outgrows the machine's memory, and perhaps a neighbour with it. */
#pragma once

#include "engine/advise/fit.h"

/* Memory that this machine has left for ranks. On the CPU backend their device tiers lie in its memory; on the CUDA
 * backend they lie on GPUs, each shared by `ranks_on_gpu` ranks. */
struct capacity {
    uint64_t memory_bytes; /* UINT64_MAX: the kernel does not say */
    bool on_gpu;
    int ranks_on_gpu;
    uint64_t gpu_bytes, gpu_total_bytes; /* free and total memory of the GPU that has least; UINT64_MAX: not known */
};

/* The capacity now. Looks at GPUs if the configuration asks for them, so the calling process must have none open. loaded: opens all
 * ranks first, so that gpu_bytes no longer counts as free what libraries, kernels and connections take; if the ranks cannot be opened, it
 * still does (gpu_look()). */
struct capacity capacity_now(const struct config *config, bool loaded);
/* The same for a running rank, with its own GPU; gpu NULL: the rank computes on the processor. */
struct gpu_rank;
struct capacity capacity_beside(const struct config *config, const struct gpu_rank *gpu);

/* Available bytes of the machine's memory, or of this container's if that is less; UINT64_MAX: the kernel does not
 * say. */
uint64_t capacity_available_bytes(void);

/* The question of `zerolab plan --fit`: each tier is limited by its budget, or by the free bytes if it has none. */
struct fit_question capacity_question(const struct config *config, const struct capacity *room, bool any_model);

/* STATUS_USAGE: the ranks together are planned to hold more than is free, or their device budgets together are more
 * than a GPU has. A rank with a budget counts with at most that budget, whatever its plan. */
int capacity_check(const struct config *config, const struct capacity *room, struct error *err);

/* The same for a change of a running run: `ranks` ranks on this machine hold held_bytes each already. STATUS_RUN: the
 * change needs more than is free. */
int capacity_check_change(const struct config *config, int ranks, const uint64_t held_bytes[TIERS], const struct capacity *room,
                      struct error *err);
