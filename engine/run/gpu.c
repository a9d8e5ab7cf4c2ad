#include "engine/run/gpu.h"

#include <stdlib.h>

#include "engine/memory/mover.h"
#include "engine/run/gpu_pages.h"
#include "engine/zero/lane_stream.h"
#include "kernels/cuda/clique.h"
#include "kernels/cuda/device.h"
#include "kernels/kernels.h"

struct gpu {
    struct device *devices[DEVICES_MOST];
    int count;             /* one for each rank, or one for all */
    int ranks;             /* on each */
    struct clique *clique; /* NULL: ranks read each other's memory */
};

struct gpu_lane {
    struct gpu_rank *rank;
    struct device_stream *stream;
    struct mover mover;
    struct lane_stream ahead;
    struct device_event *marks[LANE_MARKS];
};

struct gpu_rank {
    struct gpu *gpu;
    struct gpu_place place;
    struct device *on;
    struct communicator *communicator;
    struct gpu_pages pages;
    struct gpu_lane lanes[LANES];
    struct kernels *kernels;
    struct comm_hands hands;
    struct zero_device device;
};

/* As many as are asked for; else one for each rank where there are so many, or the only one. 0: that leaves it open. */
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

/* Ranks that have a GPU each, without NCCL. */
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
    gpu->ranks = gpu_shared(config) ? config->topology.ranks : 1;
    status = open_devices(gpu, gpus_for(config, device_count()), err);
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
    free(gpu);
}

/* ---- lanes ---- */

/* Host memory that is not pinned is read and written before this returns. So who depends on it may go on when it has been sent, also
 * with memory that was written that way. */
static int copy(void *user, void *to, const void *from, uint64_t bytes, struct error *err)
{
    struct gpu_lane *lane = user;
    struct gpu_pages *pages = &lane->rank->pages;
    int status = STATUS_OK;
    for (uint64_t done = 0, more; done < bytes && !status; done += more) {
        unsigned char *next_to = (unsigned char *)to + done;
        const unsigned char *next_from = (const unsigned char *)from + done;
        more = gpu_pages_stretch(pages, next_to, bytes - done);
        more = gpu_pages_stretch(pages, next_from, more);
        status = device_copy(lane->stream, next_to, next_from, more, err);
    }
    return status;
}

static int clear(void *user, void *at, uint64_t bytes, struct error *err)
{
    struct gpu_lane *lane = user;
    return device_set(lane->stream, at, 0, bytes, err);
}

static int finish(void *user, struct error *err)
{
    struct gpu_lane *lane = user;
    return device_stream_wait(lane->stream, err);
}

static int mark(void *user, int mark, struct error *err)
{
    struct gpu_lane *lane = user;
    return device_event_record(lane->marks[mark], lane->stream, err);
}

static int await(void *user, const struct lane_stream *other, int mark, struct error *err)
{
    struct gpu_lane *lane = user, *awaited = other->user;
    return device_stream_await(lane->stream, awaited->marks[mark], err);
}

static int reach(void *user, int mark, uint64_t *at_ns, struct error *err)
{
    struct gpu_lane *lane = user;
    int status = device_event_wait(lane->marks[mark], err);
    return status ? status : device_event_time(lane->marks[mark], at_ns, NULL, err);
}

/* Lanes that touch the device. The host's works in memory, and NVMe is read and written from there. */
static bool touches(enum lane lane)
{
    return lane == LANE_COMPUTE || lane == LANE_COMM || lane == LANE_D2H || lane == LANE_H2D;
}

/* Those in which a rank waits for no other: they run ahead. */
static int open_marks(struct gpu_rank *rank, struct gpu_lane *lane, enum lane which, struct error *err)
{
    int status = STATUS_OK;
    if (which == LANE_COMM) return STATUS_OK;
    lane->ahead = (struct lane_stream){lane, mark, await, reach};
    rank->device.streams[which] = &lane->ahead;
    for (int m = 0; m < LANE_MARKS && !status; m++) status = device_event_create(&lane->marks[m], rank->on, err);
    return status;
}

static void close_lane(struct gpu_lane *lane)
{
    for (int m = 0; m < LANE_MARKS; m++) device_event_destroy(lane->marks[m]);
    device_stream_destroy(lane->stream);
}

static int open_lanes(struct gpu_rank *rank, struct error *err)
{
    int status = STATUS_OK;
    for (int l = 0; l < LANES && !status; l++) {
        struct gpu_lane *lane = &rank->lanes[l];
        if (!touches((enum lane)l)) continue;
        lane->rank = rank;
        lane->mover = (struct mover){lane, copy, clear, finish};
        rank->device.movers[l] = &lane->mover;
        status = device_stream_create(&lane->stream, rank->on, lane_name((enum lane)l), err);
        if (!status) status = open_marks(rank, lane, (enum lane)l, err);
    }
    return status;
}

/* ---- the hands of collectives ---- */

static int reduce(void *user, enum dtype dtype, enum dtype to, void *destination, const void *const *sources, int count,
                  const struct reduce_factors *factors, int64_t elems, bool accumulate, struct error *err)
{
    const struct gpu_rank *rank = user;
    return device_reduce(rank->lanes[LANE_COMM].stream, dtype, to, destination, sources, count, factors, elems,
                         accumulate, err);
}

static int pass(void *user, const struct transfer *transfers, int count, struct error *err)
{
    const struct gpu_rank *rank = user;
    return communicator_pass(rank->communicator, transfers, count, err);
}

static void give_up(void *user)
{
    const struct gpu_rank *rank = user;
    gpu_give_up(rank->gpu);
}

static int open_hands(struct gpu_rank *rank, int number, struct error *err)
{
    struct clique *clique = rank->gpu->clique;
    rank->hands = (struct comm_hands){.mover = &rank->lanes[LANE_COMM].mover, .user = rank, .reduce = reduce};
    if (!clique) return STATUS_OK;
    rank->hands.pass = pass;
    rank->hands.give_up = give_up;
    return communicator_open(&rank->communicator, clique, number, rank->lanes[LANE_COMM].stream, err);
}

/* ---- a rank ---- */

int gpu_rank_open(struct gpu_rank **out, struct gpu *gpu, int number, struct error *err)
{
    struct gpu_rank *rank = *out = calloc(1, sizeof *rank);
    if (!rank) return error_set(err, STATUS_RUN, "no memory for a rank's part of a GPU");
    rank->gpu = gpu;
    rank->on = gpu->devices[number % gpu->count];
    rank->place = (struct gpu_place){number % gpu->count, number % gpu->count, gpu->ranks, device_info(rank->on)};
    int status = gpu_pages_open(&rank->pages, rank->on, err);
    if (!status) status = open_lanes(rank, err);
    if (!status) status = kernels_create_cuda(&rank->kernels, rank->on, rank->lanes[LANE_COMPUTE].stream, err);
    if (!status) status = open_hands(rank, number, err);
    rank->device.pages = &rank->pages.pages;
    rank->device.hands = &rank->hands;
    rank->device.kernels = rank->kernels;
    if (!status) return STATUS_OK;
    gpu_rank_close(rank);
    *out = NULL;
    return status;
}

void gpu_rank_close(struct gpu_rank *rank)
{
    if (!rank) return;
    communicator_close(rank->communicator);
    kernels_free(rank->kernels);
    for (int l = 0; l < LANES; l++) close_lane(&rank->lanes[l]);
    gpu_pages_close(&rank->pages);
    free(rank);
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
