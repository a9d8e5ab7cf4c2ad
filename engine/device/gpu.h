/* Implements struct zero_device on the GPUs of a process, with kernels/cuda/device.h. The process opens the GPUs once.
 * If there are as many GPUs as ranks, rank r has GPU r; NCCL joins them, or each maps the others' memory. Else all
 * ranks share GPU 0. Ranks are threads, each with a stream for every lane that uses its GPU.
 *
 *     gpu_open(&gpu, config, err)                      once
 *     gpu_rank_open(&mine, gpu, rank, err)             every rank; gpu_rank_device(mine) goes into struct zero_options
 *     gpu_rank_close(mine)                             after zero_close()
 *     gpu_close(gpu)
 *
 * Errors are STATUS_RUN; errors of gpu_check() are STATUS_USAGE. */
#pragma once

#include "engine/zero/zero.h"

struct device_info; /* kernels/cuda/device.h */
struct gpu;
struct gpu_rank;

/* Call it before the run starts. STATUS_USAGE: the configuration asks for GPUs or NCCL that this machine lacks. */
int gpu_check(const struct config *config, struct error *err);
bool gpu_shared(const struct config *config); /* whether all ranks share one GPU */
/* The free bytes of the configuration's GPU with the least free memory, and that GPU's total bytes. False: a GPU cannot be queried. For
 * a process that has no GPU open. `loaded`: opens all ranks first, because libraries, kernels and connections take memory, too; this
 * takes seconds. */
bool gpu_look(const struct config *config, bool loaded, uint64_t *free_bytes, uint64_t *total_bytes);

/* Whether NCCL joins the ranks. If so, gpu_settle() sets topology.collectives to nccl, because the plan depends on it. */
bool gpu_passes(const struct config *config);
void gpu_settle(struct config *config);

int gpu_open(struct gpu **out, const struct config *config, struct error *err);
void gpu_close(struct gpu *gpu);

/* With NCCL, opening and closing a rank waits for the other ranks. gpu_give_up() ends these waits when a rank has
 * failed; any thread may call it. */
void gpu_give_up(struct gpu *gpu); /* may be NULL */
int gpu_rank_open(struct gpu_rank **out, struct gpu *gpu, int number, struct error *err);
void gpu_rank_close(struct gpu_rank *rank);
/* The GPU of a rank, and the bytes of its memory that no tier counts (device_outside_bytes()); false: the GPU cannot be
 * queried. One call, by first_rank, serves all ranks that share the GPU. */
struct gpu_place { int gpu, first_rank, ranks; const struct device_info *info; };
struct gpu_place gpu_rank_place(const struct gpu_rank *rank);
bool gpu_rank_outside(const struct gpu_rank *rank, uint64_t *bytes, uint64_t *free_bytes);

/* Why the library of matrix products refused GELU in a product, which its GPU's own kernel has computed since. False: it did not. */
bool gpu_rank_gelu_refused(const struct gpu_rank *rank, struct error *why);

int gpu_rank_gpus(const struct gpu_rank *rank); /* number of GPUs of the run: 1 (shared), or one for each rank; 0 for NULL */
const struct zero_device *gpu_rank_device(const struct gpu_rank *rank); /* NULL for NULL */
