/* Implements struct zero_device on GPUs, with kernels/cuda/device.h. A process opens its GPUs once: those of all ranks if ranks are
 * its threads, or that of its own rank. The ranks of a machine divide its GPUs: one each if there are enough, else consecutive ranks
 * share one. NCCL joins ranks that have a GPU each; ranks of one machine can also map each other's memory. A rank has a stream for
 * every lane that uses its GPU.
 *
 *     gpu_open(&gpu, config, comm, err)                once
 *     gpu_rank_open(&mine, gpu, rank, err)             every rank; gpu_rank_device(mine) goes into struct zero_options
 *     gpu_rank_close(mine)                             after zero_close()
 *     gpu_close(gpu)
 *
 * Errors are STATUS_RUN, or STATUS_USAGE if the configuration asks for GPUs or for links between them that are not here. */
#pragma once

#include "engine/zero/zero.h"
#include "kernels/cuda/sensors.h"

struct comm;
struct device_info; /* kernels/cuda/device.h */
struct gpu;
struct gpu_rank;

/* Call it before the run starts. STATUS_USAGE: the configuration asks for GPUs or NCCL that this machine lacks. */
int gpu_check(const struct config *config, struct error *err);
int gpu_ranks_each(const struct config *config); /* the most ranks that share a GPU */
/* The free bytes of the configuration's GPU with the least free memory, and that GPU's total bytes. False: a GPU cannot be queried. For
 * a process that has no GPU open. `loaded`: opens all ranks first, because libraries, kernels and connections take memory, too; this
 * takes seconds. */
bool gpu_look(const struct config *config, bool loaded, uint64_t *free_bytes, uint64_t *total_bytes);

/* Sets CUDA's environment for ranks that NCCL may join. CUDA reads it when it starts. */
void gpu_environment(const struct config *config);

/* Whether NCCL joins the ranks. If so, gpu_settle() sets topology.collectives to nccl, because the plan depends on it. */
bool gpu_passes(const struct config *config);
void gpu_settle(struct config *config);

/* comm: that of the process's one rank; the call is collective then. NULL: all ranks are threads of this process. On STATUS_RUN or
 * STATUS_USAGE the caller aborts comm, so that no other rank waits. */
int gpu_open(struct gpu **out, const struct config *config, struct comm *comm, struct error *err);
void gpu_close(struct gpu *gpu);

/* With NCCL, opening and closing a rank waits for the other ranks. gpu_give_up() ends these waits when a rank has
 * failed; any thread may call it. */
void gpu_give_up(struct gpu *gpu); /* may be NULL */
int gpu_rank_open(struct gpu_rank **out, struct gpu *gpu, int number, struct error *err);
void gpu_rank_close(struct gpu_rank *rank);
/* The GPU of a rank, and the bytes of its memory that no tier counts (device_outside_bytes()); false: the GPU cannot be
 * queried, or other processes' ranks share it. One call, by first_rank, serves all ranks that share the GPU. */
struct gpu_place { int gpu, first_rank, ranks; const struct device_info *info; };
struct gpu_place gpu_rank_place(const struct gpu_rank *rank);
bool gpu_rank_outside(const struct gpu_rank *rank, uint64_t *bytes, uint64_t *free_bytes);
struct sensor_reading gpu_rank_sensors(const struct gpu_rank *rank); /* only first_rank can read them; for other ranks all is unknown */

/* Why the library of matrix products refused GELU in a product, which its GPU's own kernel has computed since. False: it did not. */
bool gpu_rank_gelu_refused(const struct gpu_rank *rank, struct error *why);

int gpu_rank_gpus(const struct gpu_rank *rank); /* number of GPUs of the run; 0 for NULL */
const struct zero_device *gpu_rank_device(const struct gpu_rank *rank); /* NULL for NULL */
