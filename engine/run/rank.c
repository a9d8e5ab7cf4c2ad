#include "engine/run/rank.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/weights.h"
#include "engine/plan/schedule_io.h"
#include "engine/run/gpu.h"
#include "engine/run/home.h"
#include "engine/run/leave.h"
#include "engine/run/records.h"
#include "engine/run/save.h"
#include "engine/run/shortage.h"
#include "kernels/kernels.h"

enum { RING_BYTES = 512 << 10, SAVER_RING_BYTES = 16 << 10, PROCESS_MARK_STEPS = 50 };
static const uint64_t owner_grace_ns = 10000000000u;

/* ---- rank 0: the trace and the director ---- */

static void on_line(void *user, const char *line)
{
    director_push(user, line);
}

static void on_owner(void *user)
{
    director_owner_here(user);
}

static void on_owner_gone(void *user)
{
    director_owner_gone(user);
}

/* A pause between two steps is an event of the run; standing within a step is only a state. */
static void on_state(void *user, enum run_state state, const char *reason, bool in_step)
{
    struct rank *rank = user;
    record_state(rank->ring, rank->steps_done, state, reason);
    if (state != RUN_PAUSED || in_step) return;
    cJSON *detail = cJSON_CreateObject();
    cJSON_AddStringToObject(detail, "text", reason);
    record_event(rank->ring, rank->steps_done + 1, "pause", detail);
}

static void on_command(void *user, const char *line, const char *refusal)
{
    struct rank *rank = user;
    record_command(rank->ring, rank->steps_done, line, refusal);
}

static void on_note(void *user, const char *text)
{
    struct rank *rank = user;
    record_log(rank->ring, 0, text);
}

static void at_gate(void *user, const struct schedule *schedule, uint32_t next)
{
    struct rank *rank = user;
    char what[64] = "";
    if ((int)next < schedule->op_count) op_describe(what, sizeof what, &schedule->ops[next], &rank->model);
    director_at_gate(rank->director, rank->steps_done, next, (uint32_t)schedule->op_count, what);
}

/* One for all ranks, in rank 0's shared memory, behind its rings; NULL on another machine. */
static struct gate *gate_of(const struct rank *rank)
{
    char *segment = comm_segment_of(rank->comm, 0);
    return segment ? (struct gate *)(segment + (size_t)ZERO_RINGS * RING_BYTES) : NULL;
}

static bool all_see_the_gate(const struct rank *rank)
{
    for (int of = 0; of < rank->ranks; of++)
        if (!comm_segment_of(rank->comm, of)) return false;
    return true;
}

static int start_director(struct rank *rank, struct error *err)
{
    struct director_options options = {
        .steps = rank->spec->steps,
        .at = rank->spec->at,
        .lines = rank->spec->part.lines,
        .paused = rank->spec->part.paused,
        .interactive = rank->spec->interactive,
        .detached = rank->spec->detached,
        .grace_ns = owner_grace_ns,
        .signal_fd = rank->signal_fd,
        .on_state = on_state,
        .on_command = on_command,
        .on_note = on_note,
        .gate = all_see_the_gate(rank) ? rank->gate : NULL,
        .user = rank,
    };
    return director_new(&rank->director, &options, err);
}

/* Calls the front end. A run that begins: the call is its driver; one that is detached has none, and only lets the front end
 * know that it is up (below). One that goes on is given what the engine before it had. */
static int call_home(struct rank *rank, struct handover *handed, int *driver_fd, struct error *err)
{
    const bool goes_on = rank->spec->part.number > 0;
    int fd, status = rank->spec->detached && !goes_on ? STATUS_OK : home_call(rank->dir, &fd, err);
    if (status || (rank->spec->detached && !goes_on)) return status;
    if (!goes_on) return *driver_fd = fd, STATUS_OK;
    status = handover_receive(fd, handed, err);
    close(fd);
    return status;
}

static int start_writer(struct rank *rank, struct error *err)
{
    char socket_path[96];
    struct handover handed = {.listen_fd = -1};
    const bool begins = rank->spec->part.number == 0;
    int home_fd = -1, status = call_home(rank, &handed, &home_fd, err);
    if (status) return status;
    rundir_path(rank->dir, "socket", socket_path, sizeof socket_path);
    struct trace_writer_options options = {
        .file = rank->spec->trace,
        .socket = socket_path,
        .handed = begins ? NULL : &handed,
        .adopted_fd = home_fd,
        .on_command = on_line,
        .on_driver = on_owner,
        .on_driver_gone = on_owner_gone,
        .user = rank->director,
    };
    status = trace_writer_start(&rank->writer, &options, err);
    handover_release(&handed);
    if (!status && rank->spec->detached && begins) status = home_call(rank->dir, &home_fd, err);
    if (!status && rank->spec->detached && begins) close(home_fd);
    return status;
}

/* ---- opening ---- */

static struct trace_ring *ring_of(struct rank *rank, int of, int lane)
{
    return (struct trace_ring *)((char *)comm_segment_of(rank->comm, of) + (size_t)lane * RING_BYTES);
}

static int open_rings(struct rank *rank, struct error *err)
{
    int status = comm_share(rank->comm, (size_t)ZERO_RINGS * RING_BYTES + sizeof *rank->gate, err);
    if (status) return status;
    rank->gate = gate_of(rank);
    if (rank->rank == 0) gate_close(rank->gate, GATE_OPEN);
    for (int lane = 0; lane < ZERO_RINGS; lane++)
        rank->rings[lane] = trace_ring_init(ring_of(rank, rank->rank, lane), RING_BYTES);
    rank->ring = rank->rings[ZERO_RING_CONTROL];
    return STATUS_OK;
}

/* After this all ranks have reached the same place. */
static int meet(struct rank *rank, struct error *err)
{
    char mine = 0, all[4096];
    return comm_exchange(rank->comm, &mine, all, sizeof mine, NULL, err);
}

static int open_trace(struct rank *rank, struct error *err)
{
    int status = open_rings(rank, err);
    if (!status && rank->rank == 0) status = start_director(rank, err);
    if (!status && rank->rank == 0) status = start_writer(rank, err);
    if (!status) status = meet(rank, err); /* every ring is ready for the writer */
    if (status || rank->rank != 0) return status;
    for (int of = 0; of < rank->ranks; of++) /* those of this machine, whatever virtual node they are on */
        for (int lane = 0; comm_segment_of(rank->comm, of) && lane < ZERO_RINGS; lane++)
            trace_writer_add_ring(rank->writer, ring_of(rank, of, lane));
    return STATUS_OK;
}

/* What saves in the background writes its own records: a ring has one producer. */
static int open_saver(struct rank *rank, struct error *err)
{
    struct trace_ring *ring = NULL;
    if (rank->rank == 0) {
        rank->saver_ring = aligned_alloc(64, SAVER_RING_BYTES);
        if (!rank->saver_ring) return error_set(err, STATUS_RUN, "no memory to save checkpoints");
        ring = trace_ring_init(rank->saver_ring, SAVER_RING_BYTES);
        trace_writer_add_ring(rank->writer, ring);
    }
    return saver_new(&rank->saver, rank, ring, err);
}

static void tell_begun_with(struct rank *rank)
{
    const struct weights_info *info = weights_info(rank->weights);
    char text[sizeof info->path + 80];
    cJSON *detail = cJSON_CreateObject();
    cJSON_AddStringToObject(detail, "folder", info->path);
    cJSON_AddNumberToObject(detail, "steps_done", 0);
    cJSON_AddBoolToObject(detail, "weights_only", true);
    snprintf(text, sizeof text, "begins with the weights of %s, %s in %s", info->path,
             weights_format_name(info->format), dtype_name(info->dtype));
    cJSON_AddStringToObject(detail, "text", text);
    record_event(rank->ring, rank->steps_done + 1, "resumed", detail);
}

/* Where the run comes from, and what keeps it from repeating the bits of one that never stopped. */
static void tell_resumed(struct rank *rank)
{
    const struct checkpoint_info *info = checkpoint_info(rank->from);
    char text[sizeof info->folder + 160];
    cJSON *detail = cJSON_CreateObject();
    cJSON_AddStringToObject(detail, "folder", info->folder);
    cJSON_AddNumberToObject(detail, "steps_done", (double)info->progress.steps_done);
    cJSON_AddBoolToObject(detail, "weights_only", rank->spec->weights_only);
    snprintf(text, sizeof text, "%s of %s, step %lld, saved at stage %d by %d ranks",
             rank->spec->weights_only ? "begins with the weights" : "goes on from the state", info->folder,
             (long long)info->progress.steps_done, info->stage, info->ranks);
    cJSON_AddStringToObject(detail, "text", text);
    record_event(rank->ring, rank->steps_done + 1, "resumed", detail);
    if (rank->spec->weights_only || info->ranks != rank->ranks) return;
    const int threads = rank->config.topology.threads_per_rank;
    if (info->threads == threads && strcmp(info->isa, kernels_widest_isa()) == 0) return;
    snprintf(
        text, sizeof text,
        "it was saved with %d threads a rank on %s, this run has %d on %s: losses may differ in their last bits from "
        "those of a run that never stopped",
        info->threads, info->isa, threads, kernels_widest_isa());
    record_log(rank->ring, 1, text);
}

static void introduce_run(struct rank *rank)
{
    const bool begins = rank->spec->part.number == 0;
    const struct run_place place = {.part = rank->spec->part.number,
                                    .steps_done = rank->steps_done,
                                    .ranks = rank->ranks,
                                    .ranks_per_node = comm_layout(rank->comm)->ranks_per_node,
                                    .gpus = gpu_rank_gpus(rank->gpu),
                                    .isa = kernels_widest_isa(),
                                    .resumed = begins ? rank->spec->resume : NULL};
    char *json = run_header_json(&rank->config, &rank->model, rank->data, &place);
    if (json) record_run(rank->ring, json);
    free(json);
    if (begins) record_state(rank->ring, rank->steps_done, RUN_STARTING, "");
    if (begins && rank->from) tell_resumed(rank);
    if (begins && rank->weights) tell_begun_with(rank);
    record_lines(rank->ring, rank->config.notes);
    record_plan_notes(rank->ring, &rank->model, &rank->config.zero);
}

static void run_short(struct rank *rank, const struct zero_shortage *shortage)
{
    if (rank->rank != 0) return;
    const struct schedule *schedule = zero_ready(rank->zero) ? zero_schedule(rank->zero) : NULL;
    cJSON *detail = shortage_json(shortage, &rank->config, &rank->model, schedule, rank->ranks);
    record_event(rank->ring, rank->steps_done + 1, "oom", detail);
    director_short_of_memory(rank->director, shortage->text);
}

static int open_weights(struct rank *rank, struct error *err)
{
    int status = weights_open(&rank->weights, rank->spec->resume, err);
    return status ? status : weights_source(&rank->source, rank->weights, &rank->model, err);
}

/* Every rank reads its own part, from its own handle. */
static int open_source(struct rank *rank, struct error *err)
{
    const struct run_spec *spec = rank->spec;
    if (!spec->resume) return STATUS_OK;
    if (weights_is(spec->resume)) return open_weights(rank, err);
    int status = checkpoint_open(&rank->from, spec->resume, NULL, err);
    if (status) return status;
    status = checkpoint_source(&rank->source, rank->from, &rank->model, spec->weights_only, err);
    if (spec->part.number) leave_watch_loading(rank);
    rank->steps_done = rank->source.progress.steps_done;
    return status;
}

/* Once the state has been made from it. */
static void close_source(struct rank *rank)
{
    if (!zero_ready(rank->zero)) return;
    checkpoint_close(rank->from);
    weights_close(rank->weights);
    rank->from = NULL;
    rank->weights = NULL;
}

static int open_engine(struct rank *rank, struct error *err)
{
    struct zero_options options = {.config = &rank->config,
                                   .comm = rank->comm,
                                   .data = rank->data,
                                   .device = gpu_rank_device(rank->gpu),
                                   .source = rank->from || rank->weights ? &rank->source : NULL,
                                   .gate = rank->gate,
                                   .at_gate = rank->rank == 0 ? at_gate : NULL,
                                   .first_schedule = (uint32_t)rank->spec->part.number << 20,
                                   .gate_user = rank};
    memcpy(options.rings, rank->rings, sizeof options.rings);
    struct zero_shortage shortage;
    int status = zero_open(&rank->zero, &options, &shortage, err);
    if (status == STATUS_RUN && rank->zero) return run_short(rank, &shortage), STATUS_OK;
    return status;
}

static void tell_gpu(struct rank *rank)
{
    rank->told_outside_bytes = UINT64_MAX;
    record_gpu(rank->ring, rank->rank, rank->gpu);
    record_outside(rank->ring, rank->rank, rank->gpu, &rank->told_outside_bytes);
}

static int open_rank(struct rank *rank, struct error *err)
{
    const struct run_spec *spec = rank->spec;
    int status = spec_load_config(spec, &rank->config, err);
    if (status) return status;
    gpu_settle(&rank->config);
    rank->rank = comm_layout(rank->comm)->rank;
    rank->ranks = comm_layout(rank->comm)->ranks;
    rank->steps_done = spec->part.steps_done;
    next_init(&rank->next, &spec->sets);
    if (!status) status = model_of(&rank->model, &rank->config, err);
    if (!status) status = open_trace(rank, err);
    if (!status) status = data_open(&rank->data, &rank->config, err);
    if (!status) status = open_source(rank, err);
    if (!status && rank->rank == 0) introduce_run(rank);
    if (!status) status = open_saver(rank, err);
    if (!status) status = open_engine(rank, err);
    if (!status && rank->gpu) tell_gpu(rank);
    if (!status) close_source(rank);
    if (!status) status = meet(rank, err);
    if (!status) leave_opened(rank);
    return status;
}

/* ---- living ---- */

/* After the order has been broadcast nobody is in the last step any more; after the meeting the next one may begin. */
static int close_gate(struct rank *rank, uint32_t operations, struct error *err)
{
    if (rank->rank == 0) gate_close(rank->gate, operations);
    return meet(rank, err);
}

/* Overflows, and every change of the loss scale. */
static void tell_scale(struct rank *rank, const struct zero_result *result)
{
    if (rank->rank != 0 || (!result->skipped && result->loss_scale == result->next_loss_scale)) return;
    cJSON *detail = cJSON_CreateObject();
    cJSON_AddNumberToObject(detail, "from", result->loss_scale);
    cJSON_AddNumberToObject(detail, "to", result->next_loss_scale);
    record_event(rank->ring, result->step, result->skipped ? "overflow" : "loss_scale", detail);
}

/* What the end saves anyway need not be saved just before it. */
static bool is_due(const struct rank *rank)
{
    const int64_t every = rank->config.checkpoint.every;
    const bool is_end = rank->config.checkpoint.at_end && rank->steps_done == rank->spec->steps;
    return *rank->config.checkpoint.path && every > 0 && rank->steps_done % every == 0 && !is_end;
}

/* A save that fails is told of, and training goes on. (A rank that died meanwhile is found out by the next order.) */
static void save(struct rank *rank, bool at_once)
{
    struct error why;
    if (saver_save(rank->saver, &(struct saver_request){.tag = "", .at_once = at_once}, &why))
        saver_failed(rank->saver, why.text);
}

static int take_step(struct rank *rank, struct error *err)
{
    struct zero_result result = {.outcome = ZERO_DONE};
    int status = STATUS_OK;
    if (!zero_ready(rank->zero))
        status =
            zero_switch(rank->zero, &rank->config.zero, &result, err); /* there was no room for the state at first */
    if (!status && result.outcome == ZERO_DONE) status = zero_step(rank->zero, &result, err);
    if (status) return status;
    close_source(rank);
    if (result.outcome == ZERO_OUT_OF_MEMORY) return run_short(rank, &result.shortage), STATUS_OK;
    rank->steps_done = zero_steps_done(rank->zero);
    leave_opened(rank);
    tell_scale(rank, &result);
    if (rank->rank == 0) record_pinning(rank->ring, zero_memory(rank->zero), &rank->told_pinning);
    bool mark = rank->steps_done <= rank->spec->part.steps_done + 2 || rank->steps_done % PROCESS_MARK_STEPS == 0;
    record_process(rank->ring, rank->rank, rank->steps_done, zero_memory(rank->zero), mark);
    if (rank->gpu && mark) record_outside(rank->ring, rank->rank, rank->gpu, &rank->told_outside_bytes);
    if (is_due(rank)) save(rank, false);
    return STATUS_OK;
}

static void obey(struct rank *rank, const struct command *command)
{
    struct error err;
    int status = rank_obey(rank, command, &err);
    if (status && rank->rank == 0) director_applied(rank->director, command, err.text);
}

/* A pause is rank 0 waiting here for a command; the others wait for rank 0, and are told how long it was. */
static void next_order(struct rank *rank, struct order *order)
{
    const uint64_t since_ns = clock_ns();
    director_next(rank->director, rank->steps_done, order);
    order->waited_ns = clock_ns() - since_ns;
}

static int obey_orders(struct rank *rank, struct order *order, struct error *err)
{
    for (;;) {
        if (rank->rank == 0) next_order(rank, order);
        int status = comm_broadcast_control(rank->comm, order, sizeof *order, err);
        zero_waited(rank->zero, order->waited_ns);
        if (status || order->kind == ORDER_END) return status;
        if (order->kind == ORDER_COMMAND) obey(rank, &order->command);
        else if (order->operations) status = close_gate(rank, order->operations, err);
        if (!status && order->kind == ORDER_STEP) status = take_step(rank, err);
        if (status || rank->leaves) return status;
    }
}

/* What a run leaves behind: its validation loss and sample if it came to its end, and the hash of its state. What cannot be
 * had (no held-out text, no memory for it) is missing from the report; it fails nothing. */
static int conclude(struct rank *rank, enum outcome outcome, struct error *err)
{
    struct error why;
    uint64_t hash;
    bool is_saved;
    record_process(rank->ring, rank->rank, rank->steps_done, zero_memory(rank->zero), true);
    int status = saver_finish(rank->saver, &is_saved, err);
    if (status) return status;
    if (!zero_ready(rank->zero)) return meet(rank, err);
    if (*rank->config.checkpoint.path && rank->config.checkpoint.at_end && !is_saved) save(rank, true);
    if (outcome == OUTCOME_FINISHED && rank_validate(rank, NULL, &why) && rank->rank == 0)
        record_log(rank->ring, 0, why.text);
    if (outcome == OUTCOME_FINISHED && rank->spec->sample_tokens &&
        rank_sample(rank, NULL, rank->spec->sample_tokens, &why) && rank->rank == 0)
        record_log(rank->ring, 1, why.text);
    status = zero_state_hash(rank->zero, &hash, err);
    if (!status && rank->rank == 0) record_state_hash(rank->ring, rank->steps_done, hash);
    return status ? status : meet(rank, err);
}

/* ... and one that another engine goes on with: a save under way comes to its end, and all have said what they had to say. */
static int finish_part(struct rank *rank, struct error *err)
{
    bool is_saved;
    int status = saver_finish(rank->saver, &is_saved, err);
    return status ? status : meet(rank, err);
}

/* ---- closing ---- */

static void close_trace(struct rank *rank, enum outcome outcome, const char *error)
{
    if (rank->rank != 0) return;
    if (rank->leaves && outcome != OUTCOME_FAILED) leave_hand_over(rank);
    bool back = outcome == OUTCOME_FAILED && !rank->opened && leave_go_back(rank, error);
    if (rank->writer && !back) {
        record_state(rank->ring, rank->steps_done, RUN_ENDED, error);
        record_end(rank->ring, outcome, error);
        trace_writer_stop(rank->writer);
    }
    free(rank->saver_ring);
    director_free(rank->director);
}

int rank_live(struct rank *rank, struct error *err)
{
    struct order order = {.kind = ORDER_STEP};
    int status = open_rank(rank, err);
    rank->opened = status == STATUS_OK;
    if (!status) status = obey_orders(rank, &order, err);
    if (!status) status = rank->leaves ? finish_part(rank, err) : conclude(rank, order.outcome, err);
    if (status) comm_abort(rank->comm, err);
    saver_free(rank->saver);
    close_trace(rank, status ? OUTCOME_FAILED : order.outcome, status ? err->text : "");
    comm_close(rank->comm); /* the rings lay in its memory; and after it no peer reads ours */
    rank->comm = NULL;
    zero_close(rank->zero);
    checkpoint_close(rank->from);
    weights_close(rank->weights);
    next_release(&rank->next);
    data_close(rank->data);
    model_release(&rank->model);
    config_release(&rank->config);
    return status;
}
