#include "engine/device/gpu.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "engine/device/gpu_parts.h"
#include "kernels/cuda/profiler.h"
#include "kernels/kernels.h"

/* Ranks that MPI starts may be on other machines, which nobody can ask beforehand; each is taken to have a GPU of its own. */
static bool is_elsewhere(const struct config *config)
{
    return config->topology.ranks_as == RANKS_AS_MPIRUN;
}

/* GPUs of a machine that so many ranks on it use: topology.gpus if set; else one for each rank, or all of them. */
static int gpus_for(const struct config *config, int ranks, int present)
{
    if (config->topology.gpus) return config->topology.gpus;
    return present < ranks ? present : ranks;
}

/* Ranks that share a GPU are consecutive. */
static int gpu_of(int number, int ranks, int gpus)
{
    return (int)((int64_t)number * gpus / ranks);
}

static int check_nccl(const struct config *config, int gpus, struct error *err)
{
    char version[32];
    const int ranks = config->topology.ranks;
    if (gpus < ranks && !is_elsewhere(config))
        return error_set(
            err, STATUS_USAGE,
            "topology.collectives = nccl: needs a GPU for each of %d ranks; use direct where they share one", ranks);
    return clique_library_text(version, sizeof version, err) ? error_prefix(err, "topology.collectives = nccl")
                                                             : STATUS_OK;
}

static int no_gpu(struct error *err)
{
    char build[64];
    device_build_text(build, sizeof build);
    return error_set(err, STATUS_USAGE,
                     "topology.backend=cuda: there is no GPU that this program can use (%s); use cpu, and see "
                     "zerolab doctor",
                     build);
}

static int too_many(int wanted, int present, struct error *err)
{
    return error_set(err, STATUS_USAGE, "topology.gpus = %d: there %s %d here", wanted, present == 1 ? "is" : "are",
                     present);
}

int gpu_check(const struct config *config, struct error *err)
{
    if (config->topology.backend != BACKEND_CUDA) return STATUS_OK; /* nor is the driver woken up */
    const int present = device_count(), wanted = gpus_for(config, config->topology.ranks, present);
    if (present == 0) return no_gpu(err);
    if (wanted > present) return too_many(wanted, present, err);
    return config_has_nccl(config) ? check_nccl(config, wanted, err) : STATUS_OK;
}

int gpu_ranks_each(const struct config *config)
{
    const int ranks = config->topology.ranks, gpus = gpus_for(config, ranks, device_count());
    return is_elsewhere(config) || gpus == 0 ? 1 : (ranks + gpus - 1) / gpus;
}

/* A kernel that is loaded when it is first used may wait for the whole GPU, holding what other GPUs of the process need to begin
 * their part of a collective, which this GPU then waits for. So all are loaded at the start. */
void gpu_environment(const struct config *config)
{
    if (config->topology.backend == BACKEND_CUDA && config->topology.ranks > 1 &&
        config->topology.collectives != COLLECTIVES_DIRECT)
        setenv("CUDA_MODULE_LOADING", "EAGER", 0);
}

bool gpu_passes(const struct config *config)
{
    char version[32];
    if (config->topology.backend != BACKEND_CUDA || config->topology.collectives == COLLECTIVES_DIRECT) return false;
    if (config_has_nccl(config)) return true;
    if (config->topology.ranks == 1 || gpu_ranks_each(config) > 1) return false;
    return clique_library_text(version, sizeof version, NULL) == STATUS_OK;
}

void gpu_settle(struct config *config)
{
    if (gpu_passes(config) && !config_has_nccl(config)) config->topology.collectives = COLLECTIVES_NCCL;
}

/* ---- who has which GPU ---- */

/* A rank's GPU: its machine and bus tell it apart, and `gpu` is its number for the rank's process. */
struct seat {
    int machine, gpu;
    char bus[sizeof((struct device_info *)0)->bus];
};

static void set_places(struct gpu *gpu, const struct seat *seats)
{
    for (int r = 0; r < gpu->rank_count; r++) {
        struct gpu_place *place = &gpu->place[r];
        *place = (struct gpu_place){.gpu = seats[r].gpu, .first_rank = gpu->rank_count};
        for (int other = gpu->rank_count - 1; other >= 0; other--) {
            if (seats[other].machine != seats[r].machine || strcmp(seats[other].bus, seats[r].bus) != 0) continue;
            place->first_rank = other;
            place->ranks++;
        }
        gpu->gpus += place->first_rank == r;
    }
}

/* Opens the GPU, if this process has not yet. */
static int take_seat(struct gpu *gpu, struct seat *seat, int machine, int number, struct error *err)
{
    int status = gpu->devices[number] ? STATUS_OK : device_open(&gpu->devices[number], number, err);
    if (status) return status;
    *seat = (struct seat){.machine = machine, .gpu = number};
    memcpy(seat->bus, device_info(gpu->devices[number])->bus, sizeof seat->bus);
    return STATUS_OK;
}

/* All ranks are threads of this process. */
static int seat_threads(struct gpu *gpu, const struct config *config, struct seat *seats, struct error *err)
{
    const int ranks = gpu->rank_count, gpus = gpus_for(config, ranks, device_count());
    int status = STATUS_OK;
    for (int r = 0; r < ranks && !status; r++) status = take_seat(gpu, &seats[r], 0, gpu_of(r, ranks, gpus), err);
    return status;
}

/* This process is one rank. Collective. */
static int seat_process(struct gpu *gpu, const struct config *config, struct comm *comm, struct seat *seats,
                        struct error *err)
{
    const int rank = comm_layout(comm)->rank, machine = comm_machine_of(comm, rank), first = comm_leader_of(comm, machine);
    int here = 0;
    for (int r = 0; r < gpu->rank_count; r++) here += comm_machine_of(comm, r) == machine;
    const int present = device_count(), gpus = gpus_for(config, here, present), number = gpu_of(rank - first, here, gpus);
    if (present == 0) return no_gpu(err);
    if (gpus > present) return too_many(gpus, present, err);
    struct seat own;
    int status = take_seat(gpu, &own, machine, number, err);
    return status ? status : comm_exchange(comm, &own, seats, sizeof own, NULL, err);
}

/* ---- how ranks on several GPUs reach each other ---- */

static int open_clique(struct gpu *gpu, struct comm *comm, struct error *err)
{
    struct clique_id id = {""};
    int status = STATUS_OK;
    for (int r = 0; r < gpu->rank_count; r++)
        if (gpu->place[r].ranks > 1)
            return error_set(err, STATUS_USAGE,
                             "ranks %d and %d share a GPU, and NCCL does not join such ranks; give "
                             "topology.collectives=direct",
                             gpu->place[r].first_rank, gpu->place[r].first_rank + 1);
    if (!comm || comm_layout(comm)->rank == 0) status = clique_make_id(&id, err);
    if (!status && comm) status = comm_broadcast_control(comm, &id, sizeof id, err);
    return status ? status : clique_open(&gpu->clique, gpu->rank_count, &id, err);
}

/* Without NCCL: lets the GPUs map each other's memory. */
static int put_in_reach(struct gpu *gpu, struct error *err)
{
    struct error why, no_nccl = {.text = "topology.collectives is direct"};
    struct device *devices[DEVICES_MOST];
    char version[32];
    int count = 0;
    for (int d = 0; d < DEVICES_MOST; d++)
        if (gpu->devices[d]) devices[count++] = gpu->devices[d];
    if (device_share(devices, count, &why) == STATUS_OK) return STATUS_OK;
    clique_library_text(version, sizeof version, &no_nccl);
    return error_set(err, STATUS_RUN, "%s, and %s; with topology.gpus=1 all ranks share one GPU", why.text,
                     no_nccl.text);
}

static int join(struct gpu *gpu, const struct config *config, struct comm *comm, struct error *err)
{
    gpu->adds = config->topology.collectives == COLLECTIVES_NCCL_SUM;
    if (config_has_nccl(config)) return open_clique(gpu, comm, err);
    if (!comm) return put_in_reach(gpu, err);
    if (!is_elsewhere(config) || comm_layout(comm)->nodes == 1) return STATUS_OK;
    return error_set(err, STATUS_USAGE, "ranks on GPUs of several nodes need NCCL, and topology.collectives is not nccl");
}

int gpu_open(struct gpu **out, const struct config *config, struct comm *comm, struct error *err)
{
    struct seat seats[config->topology.ranks];
    struct gpu *gpu = *out = calloc(1, sizeof *gpu);
    if (!gpu) return error_set(err, STATUS_RUN, "no memory for GPUs");
    atomic_flag_clear(&gpu->is_told);
    gpu->rank_count = config->topology.ranks;
    gpu->fused_gelu = config->topology.fused_gelu;
    gpu->comm = comm;
    gpu->rank = calloc((size_t)gpu->rank_count, sizeof(struct gpu_rank *));
    gpu->place = calloc((size_t)gpu->rank_count, sizeof *gpu->place);
    int status = gpu->rank && gpu->place ? STATUS_OK : error_set(err, STATUS_RUN, "no memory for ranks on GPUs");
    if (!status && !comm) status = gpu_check(config, err);
    if (!status) status = comm ? seat_process(gpu, config, comm, seats, err) : seat_threads(gpu, config, seats, err);
    if (!status) set_places(gpu, seats);
    if (!status) status = join(gpu, config, comm, err);
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
    for (int d = 0; d < DEVICES_MOST; d++) device_close(gpu->devices[d]);
    free(gpu->place);
    free(gpu->rank);
    free(gpu);
}

/* ---- a rank ---- */

static void name_work(const char *name)
{
    if (name) profiler_begin(name);
    else profiler_end();
}

/* Transfers some bytes to and from every other rank, and gathers: NCCL connects at the first transfer. */
static int connect(struct gpu_rank *rank, unsigned char *at, struct error *err)
{
    struct transfer transfers[2 * RUN_RANKS_MOST];
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
                                        NULL, N, N, N, N, err);
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
    rank->place = gpu->place[number];
    rank->on = gpu->devices[rank->place.gpu];
    rank->place.info = device_info(rank->on);
    if (rank->place.first_rank == number) rank->sensors = sensors_open(rank->on);
    rank->device.name_work = profiler_listens() ? name_work : NULL;
    gpu_pages_open(&rank->pages, rank->on, &rank->share);
    int status = gpu_lanes_open(rank, err);
    if (!status) status = kernels_create_cuda(&rank->kernels, rank->on, rank->lanes[LANE_COMPUTE].stream, err);
    if (!status) kernels_cuda_fuse_gelu(rank->kernels, gpu->fused_gelu);
    if (!status) status = gpu_ops_open(rank, err);
    gpu_share_open(rank);
    if (!status) status = load_libraries(rank, err);
    rank->device.pages = &rank->pages.pages;
    rank->device.kernels = rank->kernels;
    if (!status) return STATUS_OK;
    if (gpu->comm) comm_use(gpu->comm, NULL);
    gpu_rank_close(rank);
    *out = NULL;
    return status;
}

void gpu_rank_close(struct gpu_rank *rank)
{
    if (!rank) return;
    gpu_share_close(rank);
    gpu_ops_close(rank);
    kernels_free(rank->kernels);
    gpu_lanes_close(rank);
    gpu_pages_close(&rank->pages);
    sensors_close(rank->sensors);
    free(rank);
}

bool gpu_rank_gelu_refused(const struct gpu_rank *rank, struct error *why)
{
    return kernels_cuda_gelu_refused(rank->kernels, why);
}

int gpu_rank_gpus(const struct gpu_rank *rank)
{
    return rank ? rank->gpu->gpus : 0;
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
    if (rank->gpu->comm && rank->place.ranks > 1) return false; /* the tiers of the others are not known here */
    return device_outside_bytes(rank->on, bytes, free_bytes, &why) == STATUS_OK;
}

struct sensor_reading gpu_rank_sensors(const struct gpu_rank *rank)
{
    return sensors_read(rank->sensors);
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
    struct look looks[RUN_RANKS_MOST];
    pthread_t threads[RUN_RANKS_MOST];
    pthread_barrier_t opened;
    struct gpu *gpu;
    struct error why;
    const int ranks = config->topology.ranks;
    bool known = ranks <= RUN_RANKS_MOST && !is_elsewhere(config) && gpu_open(&gpu, config, NULL, &why) == STATUS_OK;
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
        *total_bytes = device_info(gpu->devices[gpu->place[r].gpu])->total_bytes;
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
    const int present = device_count(), wanted = gpus_for(config, config->topology.ranks, present);
    return look_unloaded(wanted < present ? wanted : present, free_bytes, total_bytes);
}
