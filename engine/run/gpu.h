/* A GPU below the ranks of a process: what struct zero_device asks for, made of kernels/cuda/device.h. The process opens the GPU
 * once; its ranks are threads that share it, each with a stream for every lane that touches it.
 *
 *     gpu_open(&gpu, err)                              once
 *     gpu_rank_open(&mine, gpu, err)                   every rank; gpu_rank_device(mine) goes into struct zero_options
 *     gpu_rank_close(mine)                             after zero_close()
 *     gpu_close(gpu)
 *
 * Errors are STATUS_RUN, of gpu_open() also STATUS_USAGE: there is none here. */
#ifndef ENGINE_RUN_GPU_H
#define ENGINE_RUN_GPU_H

#include "engine/zero/zero.h"

struct gpu;
struct gpu_rank;

/* Before anything is started: STATUS_USAGE with the reason, if the configuration asks for a GPU and there is none. */
int gpu_check(const struct config *config, struct error *err);

int gpu_open(struct gpu **out, struct error *err);
void gpu_close(struct gpu *gpu);

int gpu_rank_open(struct gpu_rank **out, struct gpu *gpu, struct error *err);
void gpu_rank_close(struct gpu_rank *rank);
const struct zero_device *gpu_rank_device(const struct gpu_rank *rank); /* NULL for NULL */

#endif
