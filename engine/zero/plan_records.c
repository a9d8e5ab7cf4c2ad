#include "engine/zero/plan_records.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/json.h"
#include "engine/base/version.h"
#include "engine/plan/footprint.h"
#include "engine/plan/schedule_io.h"

static void put(const struct record_output *taker, struct trace_record record)
{
    taker->take(taker->user, &record);
}

void records_of_schedule(const struct planned_step *step, const struct record_output *taker)
{
    char *json = schedule_to_json(step->schedule);
    if (!json) return;
    put(taker, (struct trace_record){.kind = TRACE_SCHEDULE,
                                     .schedule = {step->number,
                                                  (uint8_t)step->schedule->purpose,
                                                  (uint8_t)step->schedule->stage,
                                                  {json, strlen(json)}}});
    free(json);
}

static void put_predicted(const struct planned_step *step, const struct record_output *taker, int tier, int category,
                          const int64_t bytes[3])
{
    put(taker, (struct trace_record){.kind = TRACE_PREDICTED,
                                     .predicted = {step->number, (uint8_t)tier, (uint8_t)category, (uint64_t)bytes[0],
                                                   (uint64_t)bytes[1], (uint64_t)bytes[2]}});
}

void records_of_memory(const struct planned_step *step, const struct record_output *taker)
{
    struct footprint of;
    footprint_of(&of, step->schedule);
    for (int tier = 0; tier < TIERS; tier++) {
        const int64_t all[] = {of.peak_bytes[tier], of.peak_bytes[tier], of.resting_bytes[tier]};
        for (int c = 0; c < CATEGORIES; c++) {
            const int64_t own[] = {of.category[tier][c].peak_bytes, of.category[tier][c].at_peak_bytes,
                                   of.category[tier][c].resting_bytes};
            if (own[0]) put_predicted(step, taker, tier, c, own);
        }
        put_predicted(step, taker, tier, 255, all);
    }
}

void records_of_traffic(const struct planned_step *step, int rank, int per_node, const struct record_output *taker)
{
    struct traffic_sum sums[TRAFFIC_KINDS];
    double theory = traffic_theory_bytes(step->model, step->schedule);
    traffic_of(sums, step->schedule, step->model, rank, per_node);
    for (int kind = 0; kind < TRAFFIC_KINDS; kind++) {
        const enum link link = traffic_link((enum traffic)kind);
        const int64_t across = sums[kind].across_bytes, bytes[] = {sums[kind].sent_bytes - across, across};
        for (int inter = 0; sums[kind].count && inter <= (across > 0); inter++) {
            struct trace_record record = {.kind = TRACE_THEORY};
            record.theory = (struct trace_of_theory){step->number,
                                                     (uint8_t)kind,
                                                     (uint8_t)(inter ? LINK_INTER : link),
                                                     inter ? 0 : (uint32_t)sums[kind].count, /* operations count once */
                                                     (uint64_t)bytes[inter],
                                                     (uint64_t)(theory + 0.5)};
            theory = 0; /* the whole step's volume stands in the first record */
            put(taker, record);
        }
    }
}

/* ---- a step ---- */

void records_of_sent(const struct step_traffic traffic[TRAFFIC_KINDS], uint32_t step, const struct record_output *taker)
{
    for (int kind = 0; kind < TRAFFIC_KINDS; kind++)
        for (int inter = 0; traffic[kind].count && inter <= (traffic[kind].sent_bytes[1] > 0); inter++) {
            const struct step_traffic *of = &traffic[kind];
            const enum link link = inter ? LINK_INTER : traffic_link((enum traffic)kind);
            put(taker, (struct trace_record){.kind = TRACE_TRAFFIC,
                                             .traffic = {step, (uint8_t)kind, (uint8_t)link, of->count, of->sent_bytes[inter],
                                                         inter ? 0 : of->busy_ns}});
            put(taker, (struct trace_record){.kind = TRACE_LINK, .link = {step, (uint8_t)kind, (uint8_t)link, of->link_ns[link]}});
        }
}

void records_of_peaks(const struct memory_snapshot *memory, uint64_t told_bytes[TIERS], const struct record_output *taker)
{
    for (int tier = 0; tier < TIERS; tier++) {
        const struct memory_count *count = &memory->tier[tier];
        if (count->peak_bytes == 0) continue;
        put(taker, (struct trace_record){.kind = TRACE_TIER_PEAK,
                                         .tier_peak = {(uint8_t)tier, count->live_bytes, count->reserved_bytes,
                                                       count->peak_bytes, count->reserved_bytes}});
        for (int c = 0; c < CATEGORIES && count->peak_bytes != told_bytes[tier]; c++)
            put(taker, (struct trace_record){.kind = TRACE_TENANT,
                                             .tenant = {(uint8_t)tier, (uint8_t)c, memory->at_peak_bytes[tier][c]}});
        told_bytes[tier] = count->peak_bytes;
    }
}

/* ---- the run ---- */

static cJSON *model_json(const struct model *model)
{
    const struct config_model *shape = &model->shape;
    cJSON *json =
        json_object(TEXT("name", shape->name), NUMBER("parameters", model->elems), NUMBER("layers", shape->layers),
                    NUMBER("hidden", shape->hidden), NUMBER("heads", shape->heads), NUMBER("context", shape->context),
                    NUMBER("vocabulary", shape->vocabulary));
    cJSON *units = cJSON_AddArrayToObject(json, "units");
    for (int u = 0; u < model->unit_count; u++)
        json_put(json_item(units), TEXT("name", model->units[u].name), NUMBER("elems", model->units[u].elems));
    return json;
}

/* The entropy of single tokens is the loss of a model that has learned only their frequencies. */
static cJSON *data_json(const struct data *data)
{
    cJSON *json = json_object(NUMBER("bytes", data_bytes(data)), NUMBER("tokens", data_tokens(data)));
    if (data_bytes(data)) cJSON_AddNumberToObject(json, "unigram_entropy", data_unigram_entropy(data));
    return json;
}

/* {"key": {"from": "file", "value": "2"}}: who said what, before defaults and what follows from others. */
static cJSON *given_json(const char *lines)
{
    cJSON *json = cJSON_CreateObject();
    struct config_given given;
    while (config_given_next(&lines, &given)) {
        cJSON *row = cJSON_AddObjectToObject(json, given.path);
        json_put(row, TEXT("from", given.from), TEXT("value", given.value));
    }
    return json;
}

char *run_header_json(const struct config *config, const struct model *model, const struct data *data,
                      const struct run_place *place)
{
    cJSON *json = json_object(TEXT("version", ZEROLAB_VERSION), NUMBER("part", place->part),
                              NUMBER("steps_done", place->steps_done));
    cJSON_AddItemToObject(json, "model", model_json(model));
    json_put(json, TEXT("precision", dtype_name(config->dtype)), NUMBER("ranks", place->ranks),
             NUMBER("ranks_per_node", place->ranks_per_node),
             TEXT("ranks_as", config->topology.ranks_as == RANKS_AS_THREADS ? "threads" : "processes"),
             NUMBER("threads_per_rank", config->topology.threads_per_rank),
             TEXT("backend", place->simulated_ranks                     ? "simulated"
                             : config->topology.backend == BACKEND_CUDA ? "cuda"
                                                                        : "cpu"));
    if (place->simulated_ranks) json_put(json, TRUTH("simulated", true), NUMBER("world", place->simulated_ranks));
    if (place->gpus) json_put(json, NUMBER("gpus", place->gpus), TRUTH("nccl", config_has_nccl(config)));
    json_put(json, TEXT("isa", place->isa));
    if (place->resumed) json_put(json, TEXT("resumed_from", place->resumed));
    if (data) cJSON_AddItemToObject(json, "data", data_json(data));
    json_put(json, NUMBER("micro_batch", config->micro_batch_size),
             NUMBER("sequence_length", config->data.sequence_length),
             NUMBER("accumulation_steps", config->accumulation_steps));
    char *resolved = config_to_json(config);
    if (resolved) cJSON_AddRawToObject(json, "config", resolved); /* as text: integers past 2^53 stay whole */
    free(resolved);
    cJSON_AddItemToObject(json, "given", given_json(config->given));
    char *text = cJSON_PrintUnformatted(json);
    cJSON_Delete(json);
    return text;
}
