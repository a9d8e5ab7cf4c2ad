/* Applies each command to a rank. All ranks run this with the same command between the same two steps, so that config
 * and engine stay equal on all ranks; only rank 0 writes records. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/json.h"
#include "engine/launch/capacity.h"
#include "engine/train/relaunch.h"
#include "engine/train/save.h"

static struct trace_ring *rank0_ring(struct rank *rank)
{
    return rank->rank == 0 ? rank->ring : NULL;
}

/* Records the command as accepted before its effects are recorded, so that causes come before effects in the trace. */
static void accept(struct rank *rank, const struct command *command)
{
    if (command && rank->rank == 0) director_applied(rank->rank0.director, command, NULL);
}

int rank_count_here(const struct rank *rank)
{
    int count = 0;
    for (int of = 0; of < rank->ranks; of++) count += comm_segment_of(rank->comm, of) != NULL;
    return count;
}

int rank_agree(struct rank *rank, int status, struct error *err)
{
    struct verdict {
        int32_t status;
        char text[508];
    } mine = {status, ""}, all[rank->ranks];
    if (status) snprintf(mine.text, sizeof mine.text, "%.507s", err->text);
    int met = comm_exchange(rank->comm, &mine, all, sizeof mine, NULL, err);
    for (int of = 0; of < rank->ranks && !met; of++)
        if (all[of].status) return error_set(err, all[of].status, "%s", all[of].text);
    return met;
}

/* Collective. Every rank asks its own machine whether the change has room. */
static int find_room(struct rank *rank, const struct config *changed, struct error *err)
{
    struct memory_snapshot memory;
    uint64_t held_bytes[TIERS];
    memory_snapshot(zero_memory(rank->zero), &memory);
    const struct capacity room = capacity_beside(changed, rank->gpu);
    for (int tier = 0; tier < TIERS; tier++) held_bytes[tier] = memory.tier[tier].reserved_bytes;
    return rank_agree(rank, capacity_check_change(changed, rank_count_here(rank), held_bytes, &room, err), err);
}

/* Switches the engine to `knobs`; changes the config only if that succeeded. */
static int switch_knobs(struct rank *rank, const struct config_zero *knobs, struct error *err)
{
    struct zero_result result;
    struct config changed = rank->config;
    changed.zero = *knobs;
    int status = find_room(rank, &changed, err);
    if (!status) status = zero_switch(rank->zero, knobs, &result, err);
    if (status) return status;
    if (result.outcome == ZERO_OUT_OF_MEMORY) return error_set(err, STATUS_RUN, "%s", result.shortage.text);
    rank->config.zero = *knobs;
    return STATUS_OK;
}

static int set_budgets(struct rank *rank, const uint64_t budget_bytes[TIERS], struct error *err)
{
    struct config changed = rank->config;
    memcpy(changed.budget_bytes, budget_bytes, sizeof changed.budget_bytes);
    bool differ = memcmp(budget_bytes, rank->config.budget_bytes, sizeof changed.budget_bytes) != 0;
    int room = differ ? find_room(rank, &changed, err) : STATUS_OK;
    if (room) return room;
    for (int tier = 0; tier < TIERS; tier++) {
        if (budget_bytes[tier] == rank->config.budget_bytes[tier]) continue;
        int status = zero_set_budget(rank->zero, tier, budget_bytes[tier], err);
        if (status) return status;
        rank->config.budget_bytes[tier] = budget_bytes[tier];
    }
    return STATUS_OK;
}

enum { ALSO_ROOM = 256 };

/* also: the keys that changed with it. */
static void tell(struct rank *rank, const char *kind, double from, double to, const char *also)
{
    record_event(rank0_ring(rank), rank->steps_done + 1, kind,
                 json_object(NUMBER("from", from), NUMBER("to", to), TEXT_SOME("also", also)));
}

static int apply_stage(struct rank *rank, const struct command *command, struct error *err)
{
    struct config changed = rank->config;
    const int before = rank->config.zero.stage;
    char also[ALSO_ROOM];
    int status = config_set(&changed, "zero_optimization.stage", command->value, err); /* and what follows the stage */
    if (!status && changed.zero.stage == before) status = error_set(err, STATUS_USAGE, "this is the stage already");
    config_followed(&rank->config, &changed, "zero_optimization.stage", also, sizeof also);
    if (!status) status = switch_knobs(rank, &changed.zero, err);
    if (status) return status;
    accept(rank, command);
    relaunch_config_set(&rank->relaunch.next, "zero_optimization.stage", command->value);
    tell(rank, "stage", before, changed.zero.stage, also);
    record_plan_notes(rank0_ring(rank), &rank->model, &rank->config.zero);
    return STATUS_OK;
}

static int apply_budget(struct rank *rank, const struct command *command, struct error *err)
{
    uint64_t budget_bytes[TIERS], before = rank->config.budget_bytes[TIER_DEVICE];
    memcpy(budget_bytes, rank->config.budget_bytes, sizeof budget_bytes);
    int status = config_parse_bytes(command->value, &budget_bytes[TIER_DEVICE], err);
    if (!status) status = set_budgets(rank, budget_bytes, err);
    if (status) return status;
    accept(rank, command);
    relaunch_config_set(&rank->relaunch.next, "memory.device_budget", command->value);
    tell(rank, "budget", (double)before, (double)budget_bytes[TIER_DEVICE], "");
    return STATUS_OK;
}

/* All ranks are between two steps. The held rank records its hold itself, where it stands. */
static int apply_fault(struct rank *rank, const struct command *command, struct error *err)
{
    static const char *const effects[FAULTS] = {[FAULT_NAN] = "writes a NaN into its activations in the next step",
                                                [FAULT_SHORT] = "gets no more device memory than it holds"};
    int of;
    char text[96] = "injected faults have ended";
    struct memory_snapshot memory;
    const enum fault fault = command_fault(command, &of);
    if (of >= rank->ranks) return error_set(err, STATUS_USAGE, "fault: there are ranks 0 to %d", rank->ranks - 1);
    if (fault == FAULT_HELD && rank_count_here(rank) < rank->ranks)
        return error_set(err, STATUS_USAGE, "fault: ranks on other machines share no memory with rank 0");
    accept(rank, command);
    memory_snapshot(zero_memory(rank->zero), &memory);
    const uint64_t held_bytes = memory.tier[TIER_DEVICE].live_bytes, budget = rank->config.budget_bytes[TIER_DEVICE];
    if (rank->rank == 0 && (fault == FAULT_HELD || fault == FAULT_NONE)) gate_hold(rank->gate, of);
    if (fault == FAULT_NAN && of == rank->rank) zero_spoil(rank->zero);
    const bool changes = fault == FAULT_NONE || (fault == FAULT_SHORT && of == rank->rank);
    const uint64_t bytes = fault == FAULT_NONE ? budget : held_bytes ? held_bytes : 1;
    if (changes && zero_set_budget(rank->zero, TIER_DEVICE, bytes, err)) return err->status;
    if (fault == FAULT_HELD) return STATUS_OK;
    if (fault) snprintf(text, sizeof text, "injected: rank %d %s", of, effects[fault]);
    record_event(rank0_ring(rank), rank->steps_done + 1, "fault",
                 json_object(TEXT("text", text), TEXT("fault", fault_name(fault)), NUMBER("rank", of)));
    return STATUS_OK;
}

/* The key comes first: the writer finds by it which setting this replaces, for viewers that come later. */
static void tell_set(struct rank *rank, const char *key, const char *before, const char *also)
{
    char path[CONFIG_PATH_MAX], now[128];
    config_path(path, key);
    config_show(&rank->config, path, now, sizeof now);
    record_event(rank0_ring(rank), rank->steps_done + 1, "set",
                 json_object(TEXT("key", path), TEXT("from", before), TEXT("to", now), TEXT_SOME("also", also)));
}

/* The new values are tried on a copy; what needs no new schedule (links, the learning rate) is copied last. */
static int apply_set(struct rank *rank, const struct command *command, struct error *err)
{
    struct config changed = rank->config;
    char before[128], also[ALSO_ROOM];
    config_show(&rank->config, command->key, before, sizeof before);
    int status = config_set(&changed, command->key, command->value, err);
    config_followed(&rank->config, &changed, command->key, also, sizeof also);
    if (!status) status = config_matters(&rank->config, command->key, err);
    if (!status && strcmp(changed.checkpoint.path, rank->config.checkpoint.path) != 0)
        status = saver_check_folder(rank->saver, changed.checkpoint.path, err);
    bool new_knobs = memcmp(&changed.zero, &rank->config.zero, sizeof changed.zero) != 0;
    if (!status && new_knobs) status = switch_knobs(rank, &changed.zero, err);
    if (!status) status = set_budgets(rank, changed.budget_bytes, err);
    if (status) return status;
    rank->config = changed;
    accept(rank, command);
    relaunch_config_set(&rank->relaunch.next, command->key, command->value);
    tell_set(rank, command->key, before, also);
    if (new_knobs) record_plan_notes(rank0_ring(rank), &rank->model, &rank->config.zero);
    return STATUS_OK;
}

/* Uses MOST_TOKENS, or one batch of all ranks if that is more; but no more samples than the run has trained on, so that validation
 * never costs more than a third of the training. */
int rank_validate(struct rank *rank, const struct command *command, float *loss, struct error *err)
{
    enum { MOST_TOKENS = 16384 };
    const struct config *config = &rank->config;
    const int64_t trained = rank->steps_done * config->train_batch_size,
                  batch = (int64_t)config->micro_batch_size * config->topology.ranks;
    int64_t samples = MOST_TOKENS / config->data.sequence_length, tokens;
    if (samples < batch) samples = batch;
    if (samples > trained) samples = trained;
    if (!trained)
        return error_set(err, STATUS_USAGE, "validation uses no more samples than were trained: train a step first");
    int status = zero_evaluate(rank->zero, samples, loss, &tokens, err);
    if (status) return status;
    accept(rank, command);
    const float unsigned_nan = isnan(*loss) ? NAN : *loss;
    const struct trace_of_validation told = {
        .step = (uint32_t)rank->steps_done, .loss = unsigned_nan, .tokens = (uint32_t)tokens};
    record_now(rank0_ring(rank), TRACE_RANK_ALL, (struct trace_record){.kind = TRACE_VALIDATION, .validation = told});
    return STATUS_OK;
}

int rank_sample(struct rank *rank, const struct command *command, int64_t tokens, struct error *err)
{
    struct bytes text = {0};
    int status = zero_sample(rank->zero, (int)tokens, 0.8f, &text, err);
    if (!status) {
        accept(rank, command);
        const struct trace_of_sample told = {.step = (uint32_t)rank->steps_done,
                                             .text = {(const char *)text.at, text.count}};
        record_now(rank0_ring(rank), TRACE_RANK_ALL, (struct trace_record){.kind = TRACE_SAMPLE, .sample = told});
    }
    bytes_release(&text);
    return status;
}

static void began(void *user)
{
    struct rank *rank = user;
    accept(rank, &rank->applied);
}

/* What the disk or memory does not let us was tried, and is a save that came to nothing, as any other. */
static int apply_checkpoint(struct rank *rank, const struct command *command, struct error *err)
{
    rank->applied = *command;
    int status = saver_save(rank->saver, &(struct saver_request){command->value, true, false, began, rank}, err);
    if (status != STATUS_RUN) return status;
    accept(rank, command);
    saver_failed(rank->saver, command->value, err->text);
    return STATUS_OK;
}

static int apply_validate(struct rank *rank, const struct command *command, struct error *err)
{
    float loss;
    return rank_validate(rank, command, &loss, err);
}

static int apply_sample(struct rank *rank, const struct command *command, struct error *err)
{
    return rank_sample(rank, command, atoll(command->value), err);
}

int rank_apply(struct rank *rank, const struct command *command, struct error *err)
{
    static int (*const apply[COMMANDS])(struct rank *, const struct command *, struct error *) = {
        [COMMAND_STAGE] = apply_stage,       [COMMAND_BUDGET] = apply_budget, [COMMAND_SET] = apply_set,
        [COMMAND_VALIDATE] = apply_validate, [COMMAND_SAMPLE] = apply_sample, [COMMAND_CHECKPOINT] = apply_checkpoint,
        [COMMAND_FAULT] = apply_fault,
    };
    if (command_table[command->id].class == COMMAND_CLASS_CONTROL && !zero_ready(rank->zero))
        return error_set(err, STATUS_RUN, "there is no model yet, for lack of memory");
    if (command_class(command) == COMMAND_CLASS_RESTART) return relaunch_apply(rank, command, err);
    if (!apply[command->id]) return error_set(err, STATUS_USAGE, "not known to this engine");
    return apply[command->id](rank, command, err);
}
