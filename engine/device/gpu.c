#include "engine/device/gpu.h"

#include <stdlib.h>

#include "engine/device/gpu_parts.h"
#include "kernels/kernels.h"

/* The number of GPUs to use: topology.gpus if set; else one for each rank if present, or the only one. 0: none of these holds. */
static int gpus_for(const struct config *config, int present)
{
    const int ranks = config->topology.ranks;
    if (config->topology.gpus) return config->topology.gpus;
    return present >= ranks ? ranks : present == 1;
}

static int check_nccl(const struct config *config, int gpus, struct error *err)
{
    char version[32];
    const int ranks = config->topology.ranks;
    if (gpus < ranks)
        return error_set(
            err, STATUS_USAGE,
            "topology.collectives = nccl: needs a GPU for each of %d ranks; use direct where they share one", ranks);
    return clique_library_text(version, sizeof version, err) ? error_prefix(err, "topology.collectives = nccl")
                                                             : STATUS_OK;
}

int gpu_check(const struct config *config, struct error *err)
{
    char build[64];
    if (config->topology.backend != BACKEND_CUDA) return STATUS_OK; /* nor is the driver woken up */
    const int present = device_count(), wanted = gpus_for(config, present);
    device_build_text(build, sizeof build);
    if (present == 0)
        return error_set(err, STATUS_USAGE,
                         "topology.backend=cuda: there is no GPU that this program can use (%s); use cpu, and see "
                         "zerolab doctor",
                         build);
    if (wanted == 0)
        return error_set(err, STATUS_USAGE,
                         "topology.ranks = %d: there are %d GPUs; give topology.ranks=%d for one each, or "
                         "topology.gpus=1, which all ranks share",
                         config->topology.ranks, present, present);
    if (wanted > present)
        return error_set(err, STATUS_USAGE, "topology.gpus = %d: there %s %d here", wanted, present == 1 ? "is" : "are",
                         present);
    return config->topology.collectives == COLLECTIVES_NCCL ? check_nccl(config, wanted, err) : STATUS_OK;
}

bool gpu_shared(const struct config *config)
{
    return gpus_for(config, device_count()) < config->topology.ranks;
}

bool gpu_passes(const struct config *config)
{
    char version[32];
    if (config->topology.backend != BACKEND_CUDA || config->topology.collectives == COLLECTIVES_DIRECT) return false;
    if (config->topology.collectives == COLLECTIVES_NCCL) return true;
    if (config->topology.ranks == 1 || gpu_shared(config)) return false;
    return clique_library_text(version, sizeof version, NULL) == STATUS_OK;
}

void gpu_settle(struct config *config)
{
    if (gpu_passes(config)) config->topology.collectives = COLLECTIVES_NCCL;
}

bool gpu_look(const struct config *config, uint64_t *free_bytes, uint64_t *total_bytes)
{
    struct device_info info;
    struct error why;
    uint64_t bytes;
    const int count = gpus_for(config, device_count());
    *free_bytes = UINT64_MAX;
    for (int d = 0; d < count; d++) {
        if (device_look(d, &info, &bytes, &why)) return false;
        if (bytes >= *free_bytes) continue;
        *free_bytes = bytes;
        *total_bytes = info.total_bytes;
    }
    return count > 0;
}

static int open_devices(struct gpu *gpu, int count, struct error *err)
{
    int status = STATUS_OK;
    for (; gpu->count < count && !status; gpu->count += !status)
        status = device_open(&gpu->devices[gpu->count], gpu->count, err);
    return status;
}

/* Without NCCL: lets the GPUs map each other's memory. */
static int put_in_reach(struct gpu *gpu, struct error *err)
{
    struct error why, no_nccl = {.text = "topology.collectives is direct"};
    char version[32];
    if (device_share(gpu->devices, gpu->count, &why) == STATUS_OK) return STATUS_OK;
    clique_library_text(version, sizeof version, &no_nccl);
    return error_set(err, STATUS_RUN, "%s, and %s; with topology.gpus=1 all ranks share one GPU", why.text,
                     no_nccl.text);
}

int gpu_open(struct gpu **out, const struct config *config, struct error *err)
{
    int status = gpu_check(config, err);
    struct gpu *gpu = *out = status ? NULL : calloc(1, sizeof *gpu);
    if (status) return status;
    if (!gpu) return error_set(err, STATUS_RUN, "no memory for GPUs");
    atomic_flag_clear(&gpu->is_told);
    gpu->ranks = gpu_shared(config) ? config->topology.ranks : 1;
    gpu->rank_count = config->topology.ranks;
    gpu->fused_gelu = config->topology.fused_gelu;
    gpu->rank = calloc((size_t)gpu->rank_count, sizeof(struct gpu_rank *));
    status = gpu->rank ? STATUS_OK : error_set(err, STATUS_RUN, "no memory for ranks on GPUs");
    if (!status) status = open_devices(gpu, gpus_for(config, device_count()), err);
    if (!status)
        status = config->topology.collectives == COLLECTIVES_NCCL
                     ? clique_open(&gpu->clique, config->topology.ranks, err)
                     : put_in_reach(gpu, err);
    if (!status) return STATUS_OK;
    gpu_close(gpu);
    *out = NULL;
    return status;
}

void gpu_give_up(struct gpu *gpu)
{
    if (gpu && gpu->clique) clique_break(gpu->clique);
}

void gpu_close(struct gpu *gpu)
{
    if (!gpu) return;
    clique_close(gpu->clique);
    for (int d = 0; d < gpu->count; d++) device_close(gpu->devices[d]);
    free(gpu->rank);
    free(gpu);
}

/* ---- a rank ---- */

int gpu_rank_open(struct gpu_rank **out, struct gpu *gpu, int number, struct error *err)
{
    struct gpu_rank *rank = *out = calloc(1, sizeof *rank);
    if (!rank) return error_set(err, STATUS_RUN, "no memory for a rank's part of a GPU");
    gpu->rank[number] = rank;
    rank->gpu = gpu;
    rank->number = number;
    rank->on = gpu->devices[number % gpu->count];
    rank->place = (struct gpu_place){number % gpu->count, number % gpu->count, gpu->ranks, device_info(rank->on)};
    gpu_pages_open(&rank->pages, rank->on);
    int status = gpu_lanes_open(rank, err);
    if (!status) status = kernels_create_cuda(&rank->kernels, rank->on, rank->lanes[LANE_COMPUTE].stream, err);
    if (!status) kernels_cuda_fuse_gelu(rank->kernels, gpu->fused_gelu);
    if (!status) status = gpu_ops_open(rank, err);
    rank->device.pages = &rank->pages.pages;
    rank->device.kernels = rank->kernels;
    if (!status) return STATUS_OK;
    gpu_rank_close(rank);
    *out = NULL;
    return status;
}

void gpu_rank_close(struct gpu_rank *rank)
{
    if (!rank) return;
    gpu_ops_close(rank);
    kernels_free(rank->kernels);
    gpu_lanes_close(rank);
    gpu_pages_close(&rank->pages);
    free(rank);
}

bool gpu_rank_gelu_refused(const struct gpu_rank *rank, struct error *why)
{
    return kernels_cuda_gelu_refused(rank->kernels, why);
}

int gpu_rank_gpus(const struct gpu_rank *rank)
{
    return rank ? rank->gpu->count : 0;
}

const struct zero_device *gpu_rank_device(const struct gpu_rank *rank)
{
    return rank ? &rank->device : NULL;
}

struct gpu_place gpu_rank_place(const struct gpu_rank *rank)
{
    return rank->place;
}

bool gpu_rank_outside(const struct gpu_rank *rank, uint64_t *bytes, uint64_t *free_bytes)
{
    struct error why;
    return device_outside_bytes(rank->on, bytes, free_bytes, &why) == STATUS_OK;
}
