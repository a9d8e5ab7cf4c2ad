/* Opens and closes a rank: memory, kernels, lanes and schedules. Switches use the functions for new schedules, too. */
#include "engine/zero/zero.h"

#include <stdlib.h>
#include <string.h>

#include "engine/memory/pages.h"
#include "engine/memory/storage.h"
#include "engine/zero/internal.h"
#include "kernels/kernels.h"

static void op_ended(void *user, const struct op *op, uint64_t took_ns, const uint64_t link_ns[LINKS])
{
    struct zero *zero = user;
    if (op_traffic(op->kind) >= TRAFFIC_KINDS) return;
    zero->trace.traffic[op_traffic(op->kind)].busy_ns += took_ns;
    for (int link = 0; link < LINKS; link++) zero->trace.traffic[op_traffic(op->kind)].link_ns[link] += link_ns[link];
}

/* Other ranks' lanes may wait for a failed device, and this rank's communication lane for those ranks. */
static void broke(void *user, const struct error *err)
{
    const struct zero *zero = user;
    comm_abort(zero->comm, err);
}

static bool alive(void *user)
{
    const struct zero *zero = user;
    return comm_check(zero->comm, NULL) == STATUS_OK;
}

/* The compute lane's kernels. If they are a device's, also kernels for host memory. */
static int make_kernels(struct zero *zero, struct error *err)
{
    if (zero->device) zero->kernels = zero->device->kernels;
    return kernels_create(zero->device ? &zero->host_kernels : &zero->kernels, zero->config->topology.threads_per_rank,
                          NULL, err);
}

static int open_parts(struct zero *zero, const struct zero_options *options, struct error *err)
{
    const struct config *config = zero->config;
    struct memory_ranges ranges = {0};
    int status = model_of(&zero->model, config, err);
    if (status == STATUS_OK) status = make_kernels(zero, err);
    if (status) return status;
    struct schedule_input input = schedule_input_of(config, &zero->model, PURPOSE_TRAIN);
    input.ranks = zero->ranks;
    schedule_ranges(ranges.bytes, &input);
    ranges.shares_gathered = comm_layout(zero->comm)->nodes > 1; /* private pages may be larger */
    zero->save_offset = ranges.bytes[TIER_HOST][CATEGORY_STAGING] + ZERO_WINDOW_BYTES; /* after the schedules' range */
    ranges.bytes[TIER_HOST][CATEGORY_STAGING] = zero->save_offset + zero_save_range(zero);
    memcpy(zero->nvme_range_bytes, ranges.bytes[TIER_NVME], sizeof zero->nvme_range_bytes);
    status =
        memory_create(&zero->memory, &ranges, config->budget_bytes, zero->device ? zero->device->pages : NULL, err);
    if (status == STATUS_OK) status = comm_attach(zero->comm, zero->memory, err);
    if (status) return status;
    memory_observe(zero->memory, zero_record_memory, zero);
    struct executor_host host = {.user = zero,
                                 .single_rank = zero->ranks == 1 && !zero->device,
                                 .memory = zero->memory,
                                 .rings = zero->trace.rings,
                                 .run = zero_run_op,
                                 .ended = op_ended,
                                 .rank = (uint16_t)zero->rank,
                                 .links = config->topology.links,
                                 .device_flops = &config->topology.device_flops,
                                 .gate = zero->gate,
                                 .at_gate = options->at_gate,
                                 .gate_user = options->gate_user,
                                 .alive = alive,
                                 .held = zero_record_held};
    if (zero->device) {
        host.device = (struct executor_device){.finish = zero_finish_op, .settle = zero_settle_op, .broke = broke};
        memcpy(host.device.streams, zero->device->streams, sizeof host.device.streams);
    }
    return executor_create(&zero->executor, &host, err);
}

/* ---- the mailbox: the agreement reads it when all operations that write it have ended, so no operation of forward and
 * backward waits for a number ---- */

/* Tokens and targets of all micro-steps: every load of a step has its own place. */
static uint64_t tokens_bytes(const struct schedule *schedule)
{
    return (uint64_t)schedule->micro_steps * (uint64_t)schedule->B * (uint64_t)schedule->T * 2 * sizeof(int32_t);
}

static void release_mailbox(struct zero *zero)
{
    const struct pages *pages = zero->device ? zero->device->pages : NULL;
    if (zero->mailbox.pinned) pages->unpin(pages->user, zero->mailbox.memory, zero->mailbox.bytes);
    free(zero->mailbox.memory);
    zero->mailbox = (struct host_mailbox){0};
}

static int make_mailbox(struct zero *zero, const struct schedule schedules[SCHEDULES], struct error *err)
{
    uint64_t tokens = 0;
    int micro_steps = 1;
    for (int s = 0; s < SCHEDULES; s++) {
        if (schedules[s].op_count && schedules[s].micro_steps > micro_steps) micro_steps = schedules[s].micro_steps;
        if (zero->device && schedules[s].op_count && tokens_bytes(&schedules[s]) > tokens)
            tokens = tokens_bytes(&schedules[s]);
    }
    const uint64_t numbers = (uint64_t)zero->model.unit_count * sizeof(double) + (uint64_t)micro_steps * sizeof(float),
                   bytes = round_up(numbers + tokens, PAGE_BYTES);
    if (bytes > zero->mailbox.bytes) {
        release_mailbox(zero);
        void *memory = aligned_alloc(PAGE_BYTES, bytes);
        if (!memory) return error_set(err, STATUS_RUN, "no memory for a step's tokens and losses");
        memset(memory, 0, bytes);
        zero->mailbox = (struct host_mailbox){.memory = memory, .bytes = bytes};
        const struct pages *pages = zero->device ? zero->device->pages : NULL;
        zero->mailbox.pinned = pages && pages->pin && pages->pin(pages->user, memory, bytes, NULL) == STATUS_OK;
    }
    zero->mailbox.unit_squares = zero->mailbox.memory;
    zero->mailbox.losses = (float *)(zero->mailbox.unit_squares + zero->model.unit_count);
    zero->mailbox.tokens = (int32_t *)(zero->mailbox.losses + micro_steps);
    return STATUS_OK;
}

void zero_clean_mailbox(struct zero *zero)
{
    memset(zero->mailbox.memory, 0, (size_t)((char *)zero->mailbox.tokens - (char *)zero->mailbox.memory));
}

/* ---- room for schedules ---- */

/* Room for the most parts of a collective: every piece cut at every shard border. */
static int make_room_for_parts(struct zero *zero, const struct schedule schedules[SCHEDULES], struct error *err)
{
    int most = zero->ranks;
    for (int purpose = 0; purpose < SCHEDULES; purpose++)
        for (int i = 0; i < schedules[purpose].op_count; i++) {
            int parts = schedules[purpose].ops[i].piece_count * zero->ranks;
            if (parts > most) most = parts;
        }
    struct comm_range *room = realloc(zero->ranges, (size_t)most * sizeof *room);
    if (!room) return error_set(err, STATUS_RUN, "no memory for a list of %d parts", most);
    zero->ranges = room;
    return STATUS_OK;
}

/* The threads of the host lane start with the first schedule that uses them. */
static int make_host_kernels(struct zero *zero, const struct schedule *schedule, struct error *err)
{
    for (int i = 0; i < schedule->op_count && !zero->host_kernels; i++)
        if (schedule->ops[i].lane == LANE_HOST)
            return kernels_create(&zero->host_kernels, zero->config->topology.threads_per_rank, NULL, err);
    return STATUS_OK;
}

/* pending.done: marks are set only during a step. */
int zero_make_pending(struct zero *zero, const struct schedule *schedule, struct error *err)
{
    free(zero->pending.done);
    zero->pending.done = calloc((size_t)schedule->op_count + 1, 1);
    return zero->pending.done ? STATUS_OK : error_set(err, STATUS_RUN, "no memory for a step's list of updates");
}

int zero_make_room(struct zero *zero, const struct schedule schedules[SCHEDULES], struct error *err)
{
    int status = make_room_for_parts(zero, schedules, err);
    if (status == STATUS_OK) status = make_host_kernels(zero, &schedules[PURPOSE_TRAIN], err);
    return status == STATUS_OK ? make_mailbox(zero, schedules, err) : status;
}

void zero_release_schedules(struct schedule schedules[SCHEDULES])
{
    for (int s = 0; s < SCHEDULES; s++) schedule_release(&schedules[s]);
}

/* Sets which categories of the host tier are locked: pin_memory of each offload section. */
void zero_pin_host(struct zero *zero, const struct config_zero *knobs)
{
    static const enum category of_optimizer[] = {CATEGORY_GRADIENTS, CATEGORY_OPTIMIZER, CATEGORY_STAGING};
    for (int c = 0; c < 3; c++)
        memory_pin(zero->memory, of_optimizer[c], knobs->offload_optimizer && knobs->pin_optimizer);
    memory_pin(zero->memory, CATEGORY_PARAMETERS, knobs->offload_param && knobs->pin_param);
}

void zero_adopt(struct zero *zero, const struct config_zero *knobs, struct schedule schedules[SCHEDULES])
{
    zero_release_schedules(zero->plan.schedules);
    memcpy(zero->plan.schedules, schedules, sizeof zero->plan.schedules);
    zero->plan.knobs = *knobs;
    zero->plan.number += SCHEDULES;
    zero->plan.errors_since = -1;
    memset(&zero->plan.ahead, 0, sizeof zero->plan.ahead);
    zero_compute_update_peaks(zero);
    zero_compute_whole_bytes(zero);
    zero->window_bytes = zero_window_bytes(&zero->plan.schedules[PURPOSE_TRAIN]);
    footprint_of(&zero->plan.footprint, &zero->plan.schedules[PURPOSE_TRAIN]);
    zero_record_plan(zero);
}

/* A static loss scale is the configuration's. */
static void adopt_progress(struct zero *zero, const struct zero_progress *progress)
{
    const struct loss_scaler initial = zero->progress.scaler;
    zero->progress = *progress;
    zero->progress.scaler.options = initial.options;
    zero->pending.update = (struct update_of){progress->pending_factor,
                                              learning_rate_at(zero->config, progress->updates - 1), progress->updates};
    if (progress->scaler.scale <= 0 || zero->config->fp16.loss_scale > 0) zero->progress.scaler = initial;
}

struct zero_progress zero_progress(const struct zero *zero)
{
    return zero->progress;
}

int zero_open(struct zero **out, const struct zero_options *options, struct zero_shortage *shortage, struct error *err)
{
    struct schedule schedules[SCHEDULES];
    bool failed = false;
    struct zero *zero = calloc(1, sizeof *zero);
    *out = zero;
    shortage->text[0] = '\0';
    if (!zero) return error_set(err, STATUS_RUN, "no memory for a rank");
    const struct comm_layout *layout = comm_layout(options->comm);
    zero->config = options->config;
    zero->gate = options->gate;
    zero->source = options->source;
    zero->device = options->device;
    if (zero->device) memcpy(zero->movers, zero->device->movers, sizeof zero->movers);
    if (zero->device) comm_use(options->comm, zero->device->device_ops);
    zero->plan.number = options->first_schedule;
    zero->comm = options->comm;
    zero->data = options->data;
    zero->rank = layout->rank;
    zero->ranks = layout->ranks;
    memcpy(zero->trace.rings, options->rings, sizeof zero->trace.rings);
    zero->step.agreed = calloc((size_t)zero->ranks, sizeof *zero->step.agreed);
    zero->sampler.tokens = calloc((size_t)options->config->data.sequence_length, sizeof *zero->sampler.tokens);
    zero->sampler.logits = calloc((size_t)options->config->model.vocabulary, sizeof *zero->sampler.logits);
    loss_scaler_init(&zero->progress.scaler, &options->config->fp16);
    if (zero->source) adopt_progress(zero, &zero->source->progress);
    int status = zero->step.agreed && zero->sampler.tokens && zero->sampler.logits
                     ? open_parts(zero, options, err)
                     : error_set(err, STATUS_RUN, "no memory for a rank");
    if (status == STATUS_OK) status = zero_plan(zero, &options->config->zero, schedules, err);
    if (status == STATUS_OK) {
        status = zero_make_room(zero, schedules, err);
        if (status == STATUS_OK) status = zero_make_pending(zero, &schedules[PURPOSE_TRAIN], err);
        zero_adopt(zero, &options->config->zero, schedules);
    }
    if (status == STATUS_OK) zero_pin_host(zero, &options->config->zero);
    if (status == STATUS_OK) status = zero_use_storage(zero, &zero->plan.schedules[PURPOSE_TRAIN], err);
    if (status == STATUS_OK) status = zero_make_state(zero, &failed, shortage, err);
    return failed ? error_set(err, STATUS_RUN, "%.400s", shortage->text) : status;
}

void zero_close(struct zero *zero)
{
    if (!zero) return;
    executor_free(zero->executor);
    zero_release_schedules(zero->plan.schedules);
    if (zero->memory) memory_destroy(zero->memory);
    storage_close(zero->storage);
    if (zero->kernels && !zero->device) kernels_free(zero->kernels);
    if (zero->host_kernels) kernels_free(zero->host_kernels);
    model_release(&zero->model);
    free(zero->sampler.tokens);
    free(zero->sampler.logits);
    free(zero->step.agreed);
    release_mailbox(zero);
    free(zero->pending.done);
    free(zero->ranges);
    free(zero);
}
