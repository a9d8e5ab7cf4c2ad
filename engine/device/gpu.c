#include "engine/device/gpu.h"

#include <pthread.h>
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

/* Transfers some bytes to and from every other rank, and gathers: NCCL connects at the first transfer. */
static int connect(struct gpu_rank *rank, unsigned char *at, struct error *err)
{
    struct transfer transfers[2 * DEVICES_MOST];
    int count = 0;
    for (int r = 0; r < rank->gpu->rank_count; r++) {
        if (r == rank->number) continue;
        transfers[count++] = (struct transfer){.way = TRANSFER_SEND, .peer = r, .from = at, .bytes = TRANSFER_ALIGN};
        transfers[count++] = (struct transfer){
            .way = TRANSFER_RECEIVE, .peer = r, .to = at + (r + 1) * TRANSFER_ALIGN, .bytes = TRANSFER_ALIGN};
    }
    int status = communicator_pass(rank->communicator, transfers, count, err);
    if (status) return status;
    const struct transfer gather = {
        .way = TRANSFER_GATHER, .from = at, .to = at + TRANSFER_ALIGN, .bytes = TRANSFER_ALIGN};
    return communicator_pass(rank->communicator, &gather, 1, err);
}

/* Libraries load code, and take memory, when they are first used. So each is used once before anybody asks what is free. */
static int load_libraries(struct gpu_rank *rank, struct error *err)
{
    enum { N = 64, MATRIX_BYTES = N * N * 2 };
    struct device_range range;
    struct device_stream *compute = rank->lanes[LANE_COMPUTE].stream, *comm = rank->lanes[LANE_COMM].stream;
    int status = device_range_reserve(&range, rank->on, 3 * MATRIX_BYTES, err);
    unsigned char *at = range.base;
    if (!status) status = device_range_commit(&range, 0, range.bytes, err);
    if (!status) status = device_set(compute, at, 0, 3 * MATRIX_BYTES, err);
    if (!status)
        status = kernels_linear_forward(rank->kernels, DTYPE_BF16, at, at + MATRIX_BYTES, at + 2 * MATRIX_BYTES, NULL,
                                        NULL, N, N, N, err);
    if (!status) status = device_stream_wait(compute, err);
    if (!status && rank->communicator) status = connect(rank, at, err);
    if (!status) status = device_stream_wait(comm, err);
    device_range_release(&range);
    return status;
}

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
    if (!status) status = load_libraries(rank, err);
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

/* ---- what is free ---- */

static bool look_unloaded(int count, uint64_t *free_bytes, uint64_t *total_bytes)
{
    struct device_info info;
    struct error why;
    uint64_t bytes;
    for (int d = 0; d < count; d++) {
        if (device_look(d, &info, &bytes, &why)) return false;
        if (bytes >= *free_bytes) continue;
        *free_bytes = bytes;
        *total_bytes = info.total_bytes;
    }
    return count > 0;
}

struct look {
    struct gpu *gpu;
    int number;
    pthread_barrier_t *opened;
    uint64_t free_bytes; /* 0: its GPU cannot be opened or queried */
};

/* A rank that has opened asks what is free when all have; with NCCL it opens and closes together with the others. */
static void *look_as_rank(void *user)
{
    struct look *look = user;
    struct gpu_rank *rank = NULL;
    struct error why;
    if (gpu_rank_open(&rank, look->gpu, look->number, &why)) gpu_give_up(look->gpu);
    pthread_barrier_wait(look->opened);
    if (rank && device_free_bytes(rank->on, &look->free_bytes, &why)) look->free_bytes = 0;
    pthread_barrier_wait(look->opened);
    gpu_rank_close(rank);
    return NULL;
}

static bool look_loaded(const struct config *config, uint64_t *free_bytes, uint64_t *total_bytes)
{
    enum { RANKS_MOST = 64 };
    struct look looks[RANKS_MOST];
    pthread_t threads[RANKS_MOST];
    pthread_barrier_t opened;
    struct gpu *gpu;
    struct error why;
    const int ranks = config->topology.ranks;
    bool known = ranks <= RANKS_MOST && gpu_open(&gpu, config, &why) == STATUS_OK;
    if (!known) return false;
    pthread_barrier_init(&opened, NULL, (unsigned)ranks);
    for (int r = 0; r < ranks; r++) {
        looks[r] = (struct look){gpu, r, &opened, 0};
        if (pthread_create(&threads[r], NULL, look_as_rank, &looks[r])) abort(); /* the others would wait for it for ever */
    }
    for (int r = 0; r < ranks; r++) {
        pthread_join(threads[r], NULL);
        known &= looks[r].free_bytes > 0;
        if (looks[r].free_bytes >= *free_bytes) continue;
        *free_bytes = looks[r].free_bytes;
        *total_bytes = device_info(gpu->devices[r % gpu->count])->total_bytes;
    }
    pthread_barrier_destroy(&opened);
    gpu_close(gpu);
    return known;
}

bool gpu_look(const struct config *config, bool loaded, uint64_t *free_bytes, uint64_t *total_bytes)
{
    *free_bytes = UINT64_MAX;
    if (loaded && look_loaded(config, free_bytes, total_bytes)) return true;
    *free_bytes = UINT64_MAX;
    return look_unloaded(gpus_for(config, device_count()), free_bytes, total_bytes);
}
