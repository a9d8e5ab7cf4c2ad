/* Opens a rank: configuration, model, trace, data, checkpoint or weights to begin from, saver, engine, in this order.
 * Rank 0 records what the run is. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/json.h"
#include "engine/checkpoint/weights.h"
#include "engine/device/gpu.h"
#include "engine/plan/schedule_io.h"
#include "engine/train/relaunch.h"
#include "engine/train/save.h"
#include "engine/zero/plan_records.h"
#include "kernels/kernels.h"

enum { SAVER_RING_BYTES = 16 << 10 };

/* ---- what the run is ---- */

static void tell_begun_with(struct rank *rank)
{
    const struct weights_info *info = weights_info(rank->weights);
    char text[sizeof info->path + 80];
    snprintf(text, sizeof text, "begins with the weights of %s, %s in %s", info->path,
             weights_format_name(info->format), dtype_name(info->dtype));
    record_event(rank->ring, rank->steps_done + 1, "resumed",
                 json_object(TEXT("folder", info->path), NUMBER("steps_done", 0), TRUTH("weights_only", true),
                             TEXT("text", text)));
}

static void tell_changed_data(struct rank *rank, const struct data_fingerprint *saved)
{
    char text[1024];
    const enum data_change change =
        saved->known ? data_fingerprint_compare(saved, data_fingerprint(rank->data), text, sizeof text) : DATA_SAME;
    if (change != DATA_SAME) record_log(rank->ring, change == DATA_CHANGED, text);
}

/* Records from where the run was resumed, and why it may differ bit for bit from a run that never stopped. */
static void tell_resumed(struct rank *rank)
{
    const struct checkpoint_info *info = checkpoint_info(rank->from);
    char text[sizeof info->folder + 160];
    snprintf(text, sizeof text, "%s of %s, step %lld, saved at stage %d by %d ranks",
             rank->spec->weights_only ? "begins with the weights" : "goes on from the state", info->folder,
             (long long)info->progress.steps_done, info->stage, info->ranks);
    record_event(rank->ring, rank->steps_done + 1, "resumed",
                 json_object(TEXT("folder", info->folder), NUMBER("steps_done", info->progress.steps_done),
                             TRUTH("weights_only", rank->spec->weights_only), TEXT("text", text)));
    if (rank->spec->weights_only) return;
    tell_changed_data(rank, &info->data);
    if (info->ranks != rank->ranks) return;
    const int threads = rank->config.topology.threads_per_rank;
    if (info->threads == threads && strcmp(info->isa, kernels_widest_isa()) == 0) return;
    snprintf(
        text, sizeof text,
        "it was saved with %d threads a rank on %s, this run has %d on %s: losses may differ in their last bits from "
        "those of a run that never stopped",
        info->threads, info->isa, threads, kernels_widest_isa());
    record_log(rank->ring, 1, text);
}

enum { BYTE_TOKENS = 256 };

/* What a token is must be what the model was made for. */
static void record_bytes_note(const struct rank *rank)
{
    char line[200];
    const struct config *config = &rank->config;
    if (config->model.vocabulary <= BYTE_TOKENS || config->data.format == DATA_TOKENS || config->data.synthetic) return;
    snprintf(line, sizeof line,
             "data.format=bytes: tokens are bytes, %d of the %d that the model knows; zerolab data encode makes tokens of a text",
             BYTE_TOKENS, config->model.vocabulary);
    record_lines(rank->ring, line);
}

static void introduce(struct rank *rank)
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
    record_lines(rank->ring, rank->config.notes);
    record_plan_notes(rank->ring, &rank->model, &rank->config.zero);
    record_bytes_note(rank);
}

/* ---- the checkpoint or weights to begin from ---- */

/* Every rank reads its own part, from its own handle. */
static int open_source(struct rank *rank, struct error *err)
{
    const struct run_spec *spec = rank->spec;
    if (!spec->resume) return STATUS_OK;
    if (weights_is(spec->resume)) {
        int opened = weights_open(&rank->weights, spec->resume, err);
        return opened ? opened : weights_source(&rank->source, rank->weights, &rank->model, err);
    }
    int status = checkpoint_open(&rank->from, spec->resume, NULL, err);
    if (status) return status;
    status = checkpoint_source(&rank->source, rank->from, &rank->model, spec->weights_only, err);
    if (spec->part.number) relaunch_watch_loading(rank);
    rank->steps_done = rank->source.progress.steps_done;
    return status;
}

void rank_close_source(struct rank *rank)
{
    if (!zero_ready(rank->zero)) return;
    const bool tells = rank->rank == 0 && rank->spec->part.number == 0; /* only now: a damaged file contributes nothing */
    if (tells && rank->from) tell_resumed(rank);
    if (tells && rank->weights) tell_begun_with(rank);
    checkpoint_close(rank->from);
    weights_close(rank->weights);
    rank->from = NULL;
    rank->weights = NULL;
}

/* ---- opening ---- */

/* Makes a ring for the saver's background thread, because a ring has one producer. */
static int open_saver(struct rank *rank, struct error *err)
{
    struct trace_ring *ring = NULL;
    if (rank->rank == 0) {
        rank->rank0.saver_ring = aligned_alloc(64, SAVER_RING_BYTES);
        if (!rank->rank0.saver_ring) return error_set(err, STATUS_RUN, "no memory to save checkpoints");
        ring = trace_ring_init(rank->rank0.saver_ring, SAVER_RING_BYTES);
        trace_writer_add_ring(rank->rank0.writer, ring);
    }
    return saver_new(&rank->saver, rank, ring, err);
}

static void at_gate(void *user, const struct schedule *schedule, uint32_t next_op)
{
    struct rank *rank = user;
    char what[64] = "";
    if ((int)next_op < schedule->op_count) op_describe(what, sizeof what, &schedule->ops[next_op], &rank->model);
    director_at_gate(rank->rank0.director, rank->steps_done, next_op, (uint32_t)schedule->op_count, what);
}

static int open_zero(struct rank *rank, struct error *err)
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
    if (status == STATUS_RUN && *shortage.text) return rank_short_of_memory(rank, &shortage, err);
    return status;
}

static void tell_gpu(struct rank *rank)
{
    rank->recorded.outside_bytes = UINT64_MAX;
    record_gpu(rank->ring, rank->rank, rank->gpu);
    record_outside(rank->ring, rank->rank, rank->gpu, &rank->recorded.outside_bytes);
}

static void tell_host(struct rank *rank)
{
    const char *name = comm_host(rank->comm, rank->rank);
    const uint32_t machine = (uint32_t)comm_machine_of(rank->comm, rank->rank);
    record_now(rank->ring, rank->rank,
               (struct trace_record){.kind = TRACE_HOST, .host = {machine, {name, strlen(name)}}});
}

/* Collective. */
static int open_monitor(struct rank *rank, struct error *err)
{
    const bool begins = rank->spec->part.number == 0;
    if (!rank->config.csv_monitor.enabled) return STATUS_OK;
    return rank_agree(rank, rank->rank ? STATUS_OK : csv_monitor_open(&rank->rank0.monitor, &rank->config, begins, err), err);
}

int rank_open(struct rank *rank, struct error *err)
{
    const struct run_spec *spec = rank->spec;
    int status = spec_load_config(spec, &rank->config, err);
    if (status) return status;
    gpu_settle(&rank->config);
    rank->rank = comm_layout(rank->comm)->rank;
    rank->ranks = comm_layout(rank->comm)->ranks;
    rank->steps_done = spec->part.steps_done;
    relaunch_config_init(&rank->relaunch.next, &spec->sets);
    for (int f = 0; f < spec->own.count; f++) save_claims_add(&rank->rank0.claims, spec->own.at[f]);
    if (!status) status = model_of(&rank->model, &rank->config, err);
    if (!status) status = rank_open_trace(rank, err);
    if (!status) status = shared_check_room(rank, err);
    if (!status) status = data_open(&rank->data, &rank->config, err);
    if (!status) status = open_source(rank, err);
    if (!status) status = shared_check_input(rank, err);
    const bool saves = rank->config.checkpoint.every > 0 || rank->config.checkpoint.at_end;
    if (!status && saves) status = shared_check_folder(rank, rank->config.checkpoint.path, err);
    if (!status && rank->rank == 0) introduce(rank);
    if (!status) status = open_saver(rank, err);
    if (!status) status = open_monitor(rank, err);
    if (!status && rank->config.topology.bind_cores && !rank->gpu) comm_bind_cores(rank->comm, rank->config.topology.threads_per_rank);
    if (!status) status = open_zero(rank, err);
    if (!status && rank->gpu) tell_gpu(rank);
    if (!status && comm_machines(rank->comm) > 1) tell_host(rank);
    if (!status) status = comm_barrier(rank->comm, err); /* all ranks have read their part of the source */
    if (!status) rank_close_source(rank);
    if (!status) relaunch_opened(rank);
    rank->updated_at = rank->steps_done;
    return status;
}
