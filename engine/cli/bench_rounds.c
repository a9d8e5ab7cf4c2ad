#include "engine/cli/bench_rounds.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/device/gpu.h"
#include "engine/launch/rundir.h"
#include "engine/trace/writer.h"
#include "engine/train/records.h"
#include "engine/train/worker.h"
#include "engine/zero/plan_records.h"
#include "engine/zero/zero.h"
#include "kernels/kernels.h"

const char *const audience_names[AUDIENCES] = {"nobody", "rings in memory", "a trace file", "and a view of 80x24",
                                               "and a view of 200x60"};

enum pen { PEN_NONE = -1, PEN_MEMORY, PEN_FILE, PEN_VIEW, PENS };
static const enum pen pen_of[AUDIENCES] = {PEN_NONE, PEN_MEMORY, PEN_FILE, PEN_VIEW, PEN_VIEW};
static const size_t ring_bytes[PENS] = {4 << 20, 512 << 10, 512 << 10}; /* unread: a block's; others: as in any run */

enum { STEPS_FIRST = 3, STEPS_LEAST = 2, STEPS_MOST = 1000, EMITTED = 1 << 18 };
static const double block_s = 0.5, warm_up_s = 0.25;

struct bench_rank {
    struct bench *bench;
    int number;
    struct comm *comm;
    struct gpu_rank *gpu; /* NULL: none */
    struct zero *zero;
    struct trace_ring *rings[PENS][ZERO_RINGS];
    struct process_told told_process;
    struct error *err;
};

struct bench {
    const struct config *config;
    struct bench_found *found;
    struct rundir dir;
    struct data *data;
    struct trace_writer *writers[PENS]; /* of PEN_MEMORY: none */
    struct bench_view view;
    pthread_t terminal; /* the thread that is the view's */
    int warm_up, steps; /* of a block */
    char *memory;       /* of all rings */
    _Atomic uint64_t records, bytes, lost;
    struct bench_rank *ranks;
};

struct meters {
    uint64_t now_ns, processor_ns, writer_ns, view_ns, screen_bytes;
};

static struct meters read_meters(const struct bench *bench, enum pen pen)
{
    struct meters out = {.now_ns = clock_ns(), .screen_bytes = atomic_load(&bench->view.bytes)};
    if (pen == PEN_VIEW) out.view_ns = bench_view_processor_ns(&bench->view);
    if (pen > PEN_MEMORY) out.writer_ns = trace_writer_processor_ns(bench->writers[pen]);
    out.processor_ns = clock_read_ns(CLOCK_PROCESS_CPUTIME_ID) - clock_thread_ns(bench->terminal) + out.view_ns;
    return out;
}

static struct bench_block between(const struct meters *from, const struct meters *to, int steps)
{
    const double seconds = 1e-9 * (double)(to->now_ns - from->now_ns), each = 1e-9 / steps;
    return (struct bench_block){.seconds = seconds / steps,
                                .processor_s = each * (double)(to->processor_ns - from->processor_ns),
                                .writer_s = each * (double)(to->writer_ns - from->writer_ns),
                                .view_s = each * (double)(to->view_ns - from->view_ns),
                                .view_share = 1e-9 * (double)(to->view_ns - from->view_ns) / seconds,
                                .screen_bytes_per_s = (double)(to->screen_bytes - from->screen_bytes) / seconds};
}

/* ---- a rank ---- */

static int take_steps(struct bench_rank *rank, enum pen pen, int count)
{
    struct zero_result result;
    int status = STATUS_OK;
    for (int i = 0; i < count && !status; i++) {
        status = zero_step(rank->zero, &result, rank->err);
        if (!status && result.outcome != ZERO_DONE)
            status = error_set(rank->err, STATUS_RUN, "%s", result.shortage.text);
        if (!status && pen != PEN_NONE) /* as a run does */
            record_process(rank->rings[pen][ZERO_RING_CONTROL], rank->number, zero_steps_done(rank->zero),
                           zero_memory(rank->zero), &rank->told_process, false);
    }
    return status;
}

static void clear_rings(struct bench_rank *rank)
{
    for (int ring = 0; ring < ZERO_RINGS; ring++)
        trace_ring_init(rank->rings[PEN_MEMORY][ring], ring_bytes[PEN_MEMORY]);
}

static void count_records(struct bench_rank *rank)
{
    unsigned char part[1 << 16];
    for (int ring = 0; ring < ZERO_RINGS; ring++) {
        struct trace_ring *from = rank->rings[PEN_MEMORY][ring];
        uint64_t since_ns;
        for (size_t length; (length = trace_ring_drain(from, part, sizeof part)) > 0;) {
            atomic_fetch_add(&rank->bench->bytes, length);
            for (size_t at = 0; at < length; at += trace_peek(part + at).bytes)
                atomic_fetch_add(&rank->bench->records, 1);
        }
        atomic_fetch_add(&rank->bench->lost, trace_ring_lost(from, &since_ns));
    }
}

static void turn_to(struct bench_rank *rank, enum audience audience)
{
    const enum pen pen = pen_of[audience];
    const bool large = audience == AUDIENCE_LARGE_VIEW;
    zero_set_rings(rank->zero, pen == PEN_NONE ? NULL : rank->rings[pen], false);
    if (rank->number == 0 && pen == PEN_VIEW) bench_view_resize(&rank->bench->view, large ? 200 : 80, large ? 60 : 24);
}

static int take_block(struct bench_rank *rank, enum audience audience, int round)
{
    struct bench *bench = rank->bench;
    const enum pen pen = pen_of[audience];
    struct meters from, to;
    turn_to(rank, audience);
    int status = take_steps(rank, pen, bench->warm_up);
    if (pen == PEN_MEMORY) clear_rings(rank);
    if (!status) status = comm_barrier(rank->comm, rank->err);
    if (rank->number == 0) from = read_meters(bench, pen);
    if (!status) status = take_steps(rank, pen, bench->steps);
    if (!status) status = comm_barrier(rank->comm, rank->err);
    if (status) return status;
    if (rank->number == 0) {
        to = read_meters(bench, pen);
        bench->found->blocks[audience][round] = between(&from, &to, bench->steps);
    }
    if (pen == PEN_MEMORY) count_records(rank);
    return STATUS_OK;
}

static int clamp(double value, int least, int most)
{
    return value < least ? least : value > most ? most : (int)value;
}

/* Chooses how many steps make a block, and waits until the view draws or has failed. */
static int prepare(struct bench_rank *rank)
{
    struct bench *bench = rank->bench;
    turn_to(rank, AUDIENCE_VIEW);
    int status = take_steps(rank, PEN_VIEW, STEPS_FIRST);
    if (!status) status = comm_barrier(rank->comm, rank->err);
    const uint64_t begin_ns = clock_ns();
    if (!status) status = take_steps(rank, PEN_VIEW, STEPS_FIRST);
    if (!status) status = comm_barrier(rank->comm, rank->err);
    if (!status && rank->number == 0) {
        const double step_s = 1e-9 * (double)(clock_ns() - begin_ns) / STEPS_FIRST;
        bench->warm_up = clamp(warm_up_s / step_s + 1, 1, STEPS_MOST);
        bench->steps = clamp(block_s / step_s + 1, STEPS_LEAST, STEPS_MOST);
        bench->found->has_view = bench_view_wait(&bench->view);
    }
    return status ? status : comm_barrier(rank->comm, rank->err);
}

/* Every other round has the reverse order, and each round begins with another audience. */
static int take_rounds(struct bench_rank *rank)
{
    const struct bench_found *found = rank->bench->found;
    int status = prepare(rank);
    for (int round = 0; round < found->rounds && !status; round++)
        for (int turn = 0; turn < AUDIENCES && !status; turn++) {
            const int at = round % 2 ? AUDIENCES - 1 - turn : turn;
            const enum audience audience = (enum audience)((at + round / 2) % AUDIENCES);
            if (found->has_view || pen_of[audience] != PEN_VIEW) status = take_block(rank, audience, round);
        }
    return status;
}

/* What makes a run of the records. */
static int introduce(struct bench_rank *rank)
{
    const struct bench *bench = rank->bench;
    struct model model;
    int status = model_of(&model, bench->config, rank->err);
    if (status) return status;
    const struct run_place place = {.ranks = bench->config->topology.ranks,
                                    .ranks_per_node = comm_layout(rank->comm)->ranks_per_node,
                                    .gpus = gpu_rank_gpus(rank->gpu),
                                    .isa = kernels_widest_isa()};
    char *json = run_header_json(bench->config, &model, bench->data, &place);
    model_release(&model);
    if (!json) return error_set(rank->err, STATUS_RUN, "no memory for the header of a trace");
    for (enum pen pen = PEN_FILE; pen < PENS; pen++) {
        record_run(rank->rings[pen][ZERO_RING_CONTROL], json);
        record_state(rank->rings[pen][ZERO_RING_CONTROL], 0, RUN_STARTING, "");
    }
    free(json);
    return STATUS_OK;
}

/* Processor time for the most frequent record of a lane, written into a ring with room. */
static double time_emit(struct trace_ring *ring)
{
    struct trace_record record = {.kind = TRACE_OP_END};
    uint64_t took_ns = 0;
    for (int i = 0; i < EMITTED; i += 256) {
        trace_ring_init(ring, ring_bytes[PEN_MEMORY]);
        const uint64_t begin_ns = clock_worked_ns();
        for (int r = 0; r < 256; r++) {
            record.time_ns = clock_ns();
            trace_emit(ring, &record);
        }
        took_ns += clock_worked_ns() - begin_ns;
    }
    return 1e-9 * (double)took_ns / EMITTED;
}

/* Processor time for a rank's record of its process. */
static double time_process(struct trace_ring *ring, const struct memory *memory)
{
    enum { TIMES = 64 };
    const uint64_t begin_ns = clock_worked_ns();
    for (int i = 0; i < TIMES; i++) {
        struct process_told told = {.pss_ns = clock_ns()};
        record_process(ring, 0, 0, memory, &told, false);
    }
    return 1e-9 * (double)(clock_worked_ns() - begin_ns) / TIMES;
}

/* What is left to measure when the rounds are over. */
static void look_back(struct bench_rank *rank)
{
    struct bench *bench = rank->bench;
    if (bench->found->has_view) {
        bench_view_resize(&bench->view, 200, 60);
        nanosleep(&(struct timespec){.tv_nsec = 500000000}, NULL); /* until that is drawn */
        const struct meters from = read_meters(bench, PEN_VIEW);
        nanosleep(&(struct timespec){.tv_sec = 2}, NULL);
        const struct meters to = read_meters(bench, PEN_VIEW);
        bench->found->idle_share = between(&from, &to, 1).view_share;
    }
    clear_rings(rank);
    bench->found->process_s = time_process(rank->rings[PEN_MEMORY][0], zero_memory(rank->zero));
    bench->found->emit_s = time_emit(rank->rings[PEN_MEMORY][0]);
}

static int open_rank(struct bench_rank *rank)
{
    struct bench *bench = rank->bench;
    struct zero_shortage shortage;
    const struct zero_options options = {
        .config = bench->config, .comm = rank->comm, .data = bench->data, .device = gpu_rank_device(rank->gpu)};
    if (bench->config->topology.bind_cores && !rank->gpu) comm_bind_cores(rank->comm, bench->config->topology.threads_per_rank);
    int status = zero_open(&rank->zero, &options, &shortage, rank->err);
    if (!status && rank->number == 0) status = introduce(rank);
    if (!status) status = comm_barrier(rank->comm, rank->err); /* a run begins before anyone's plan */
    if (status) return status;
    for (enum pen pen = PEN_FILE; pen < PENS; pen++) {
        zero_set_rings(rank->zero, rank->rings[pen], true);
        if (rank->gpu) record_gpu(rank->rings[pen][ZERO_RING_CONTROL], rank->number, rank->gpu);
    }
    return STATUS_OK;
}

static int live(void *user, struct comm *comm, struct gpu_rank *gpu, struct error *err)
{
    struct bench *bench = user;
    const int number = comm_layout(comm)->rank;
    struct bench_rank *rank = &bench->ranks[number];
    rank->bench = bench, rank->number = number, rank->comm = comm, rank->gpu = gpu, rank->err = err;
    int status = open_rank(rank);
    if (!status) status = take_rounds(rank);
    if (!status && number == 0) look_back(rank);
    if (status) {
        comm_abort(comm, err); /* of several reasons the first stands, and is everyone's */
        status = comm_check(comm, err);
    }
    comm_close(comm);
    zero_close(rank->zero);
    return status;
}

static int lay_rings(struct bench *bench, struct error *err)
{
    const size_t each = ring_bytes[PEN_MEMORY] + ring_bytes[PEN_FILE] + ring_bytes[PEN_VIEW];
    const int ranks = bench->config->topology.ranks;
    char *at = bench->memory = aligned_alloc(64, (size_t)ranks * ZERO_RINGS * each);
    if (!at) return error_set(err, STATUS_RUN, "no memory for the rings of %d ranks", ranks);
    for (int r = 0; r < ranks; r++)
        for (enum pen pen = 0; pen < PENS; pen++)
            for (int ring = 0; ring < ZERO_RINGS; ring++, at += ring_bytes[pen]) {
                bench->ranks[r].rings[pen][ring] = trace_ring_init(at, ring_bytes[pen]);
                if (bench->writers[pen]) trace_writer_add_ring(bench->writers[pen], bench->ranks[r].rings[pen][ring]);
            }
    return STATUS_OK;
}

static void on_command(void *user, const char *line)
{
    (void)user, (void)line; /* the view is read-only */
}

static int start_writers(struct bench *bench, struct error *err)
{
    char file[96], view[96], socket[96];
    rundir_path(&bench->dir, "file.zlt", file, sizeof file);
    rundir_path(&bench->dir, "view.zlt", view, sizeof view);
    rundir_path(&bench->dir, "socket", socket, sizeof socket);
    const struct trace_writer_options options[PENS] = {
        [PEN_FILE] = {.file = file, .adopted_fd = -1},
        [PEN_VIEW] = {.file = view, .socket = socket, .adopted_fd = -1, .on_command = on_command}};
    int status = STATUS_OK;
    for (enum pen pen = PEN_FILE; pen < PENS && !status; pen++)
        status = trace_writer_start(&bench->writers[pen], &options[pen], err);
    return status;
}

static int open_bench(struct bench *bench, struct error *err)
{
    const struct config *config = bench->config;
    int status = rundir_create(&bench->dir, false, err);
    bench->view.over_fd = eventfd(0, EFD_CLOEXEC);
    bench->ranks = calloc((size_t)config->topology.ranks, sizeof *bench->ranks);
    if (!status && (!bench->ranks || bench->view.over_fd < 0))
        status = error_set(err, STATUS_RUN, "no memory for ranks");
    if (!status) status = data_open(&bench->data, config, err);
    if (!status) status = start_writers(bench, err);
    if (!status) status = lay_rings(bench, err);
    return status ? status : bench_view_start(&bench->view, err);
}

static int run_ranks(struct bench *bench, struct error *err)
{
    if (pthread_create(&bench->terminal, NULL, bench_view_serve, &bench->view))
        return error_set(err, STATUS_RUN, "cannot start the thread of a terminal");
    const int status = rank_threads_run(bench->config, live, bench, err);
    eventfd_write(bench->view.over_fd, 1);
    pthread_join(bench->terminal, NULL);
    return status;
}

int bench_measure(struct bench_found *found, const struct config *config, int rounds, struct error *err)
{
    struct bench bench = {.config = config, .found = found};
    *found = (struct bench_found){.rounds = rounds};
    int status = open_bench(&bench, err);
    if (!status) status = run_ranks(&bench, err);
    const double steps = (double)rounds * bench.steps;
    found->steps = bench.steps;
    found->records = (double)atomic_load(&bench.records) / steps;
    found->bytes = (double)atomic_load(&bench.bytes) / steps;
    found->lost = (double)atomic_load(&bench.lost) / steps;
    found->has_view &= bench_view_alive(&bench.view);
    memcpy(found->view_said, bench.view.said, sizeof found->view_said);
    bench_view_stop(&bench.view);
    for (enum pen pen = PEN_FILE; pen < PENS; pen++) trace_writer_stop(bench.writers[pen]);
    data_close(bench.data);
    if (bench.view.over_fd >= 0) close(bench.view.over_fd);
    rundir_close(&bench.dir, true);
    free(bench.memory);
    free(bench.ranks);
    return status;
}
