/* GPUs below the ranks of a process: what struct zero_device asks for, made of kernels/cuda/device.h. The process opens them
 * once. Where there are as many as ranks, rank r has GPU r to itself, and NCCL joins them, or they are put within each other's
 * reach; else all ranks share GPU 0. Either way ranks are threads, each with a stream for every lane that touches its GPU.
 *
 *     gpu_open(&gpu, config, err)                      once
 *     gpu_rank_open(&mine, gpu, rank, err)             every rank; gpu_rank_device(mine) goes into struct zero_options
 *     gpu_rank_close(mine)                             after zero_close()
 *     gpu_close(gpu)
 *
 * Errors are STATUS_RUN, of gpu_check() STATUS_USAGE. */
#ifndef ENGINE_DEVICE_GPU_H
#define ENGINE_DEVICE_GPU_H

#include "engine/zero/zero.h"

struct device_info; /* kernels/cuda/device.h */
struct gpu;
struct gpu_rank;

/* Before anything is started: STATUS_USAGE with the reason, if the configuration asks for GPUs that are not here. */
int gpu_check(const struct config *config, struct error *err);
bool gpu_shared(const struct config *config); /* one by all ranks, rather than each by one */
/* The least that is free on any GPU of the configuration, and all memory of that one; false: they cannot be asked. For a process
 * that has no GPU open. */
bool gpu_look(const struct config *config, uint64_t *free_bytes, uint64_t *total_bytes);

/* Whether NCCL joins the ranks here. gpu_settle() puts that in the place of topology.collectives=auto: the plan depends on it. */
bool gpu_passes(const struct config *config);
void gpu_settle(struct config *config);

int gpu_open(struct gpu **out, const struct config *config, struct error *err);
void gpu_close(struct gpu *gpu);

/* Opening a rank waits for the others where there is NCCL; closing too, unless somebody gave up: from any thread, for a rank that
 * will not come. */
void gpu_give_up(struct gpu *gpu); /* may be NULL */
int gpu_rank_open(struct gpu_rank **out, struct gpu *gpu, int number, struct error *err);
void gpu_rank_close(struct gpu_rank *rank);
/* Where a rank is, and what its GPU's memory holds that no tier counts (device_outside_bytes()); false: it cannot be asked. The first
 * of the ranks that share a GPU asks for all. */
struct gpu_place { int gpu, first_rank, ranks; const struct device_info *info; };
struct gpu_place gpu_rank_place(const struct gpu_rank *rank);
bool gpu_rank_outside(const struct gpu_rank *rank, uint64_t *bytes, uint64_t *free_bytes);

int gpu_rank_gpus(const struct gpu_rank *rank); /* that the run has: 1, which ranks share, or as many as ranks; 0 for NULL */
const struct zero_device *gpu_rank_device(const struct gpu_rank *rank); /* NULL for NULL */

#endif
