/* Folds the RUN record: reads the header from its JSON and begins a part of the run. A missing key leaves its field
 * unknown. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/json.h"
#include "engine/observe/fold.h"

static int read_int(const cJSON *object, const char *key)
{
    return (int)json_get_number(object, key, INT32_MAX, RUN_UNKNOWN);
}

static void read_units(struct run_header *header, const cJSON *units)
{
    int count = cJSON_GetArraySize(units);
    if (count <= 0 || !(header->units = calloc((size_t)count, sizeof *header->units))) return;
    const cJSON *unit;
    cJSON_ArrayForEach(unit, units)
    {
        struct run_unit *out = &header->units[header->unit_count++];
        json_copy_text(out->name, sizeof out->name, unit, "name");
        out->elems = json_count(unit, "elems");
    }
}

/* The configuration as it was written: cJSON would round integers past 2^53, of which "no limit" is one. */
static char *config_text(const char *text)
{
    static const char key[] = "\"config\":";
    const char *at = strstr(text, key), *end = NULL;
    if (!at) return NULL;
    at += strlen(key) + strspn(at + strlen(key), " ");
    cJSON *config = cJSON_ParseWithOpts(at, &end, false);
    bool is_object = cJSON_IsObject(config);
    cJSON_Delete(config);
    return is_object ? text_copy((struct trace_text){at, (size_t)(end - at)}) : NULL;
}

static void read_header(struct run_header *header, const cJSON *json, const char *text)
{
    *header = (struct run_header){.holders = malloc(sizeof *header->holders)};
    if (header->holders) *header->holders = 1;
    const cJSON *model = json_get(json, "model");
    const cJSON *config = json_get(json, "config");
    json_copy_text(header->version, sizeof header->version, json, "version");
    json_copy_text(header->precision, sizeof header->precision, json, "precision");
    json_copy_text(header->backend, sizeof header->backend, json, "backend");
    json_copy_text(header->isa, sizeof header->isa, json, "isa");
    json_copy_text(header->model_name, sizeof header->model_name, model, "name");
    json_copy_text(header->program, sizeof header->program, json, "program");
    header->sent_by_formula = cJSON_IsTrue(json_get(json, "sent_by_formula"));
    json_copy_text(header->recognised, sizeof header->recognised, json, "recognised");
    header->parameters = json_count(model, "parameters");
    header->layers = read_int(model, "layers");
    header->hidden = read_int(model, "hidden");
    header->heads = read_int(model, "heads");
    header->context = read_int(model, "context");
    header->vocabulary = read_int(model, "vocabulary");
    header->ranks = read_int(json, "ranks");
    header->ranks_per_node = read_int(json, "ranks_per_node");
    header->world = read_int(json, "world");
    header->simulated = cJSON_IsTrue(json_get(json, "simulated")) && header->world >= header->ranks;
    const int recorded = read_int(json, "recorded");
    header->missing = header->program[0] && recorded > 0 && recorded < header->ranks ? header->ranks - recorded : 0;
    if (header->world < header->ranks) header->world = header->ranks;
    header->threads_per_rank = read_int(json, "threads_per_rank");
    header->gpus = read_int(json, "gpus");
    header->nccl = cJSON_IsTrue(json_get(json, "nccl"));
    header->micro_batch = read_int(json, "micro_batch");
    header->sequence_length = read_int(json, "sequence_length");
    header->accumulation_steps = read_int(json, "accumulation_steps");
    const cJSON *entropy = json_get(json_get(json, "data"), "unigram_entropy");
    header->has_unigram_entropy = cJSON_IsNumber(entropy);
    header->unigram_entropy = header->has_unigram_entropy ? entropy->valuedouble : 0;
    header->config_json = config ? config_text(text) : NULL;
    const cJSON *given = json_get(json, "given");
    header->given_json = given ? cJSON_PrintUnformatted(given) : NULL;
    read_units(header, json_get(model, "units"));
    header->known = true;
}

void header_release(struct run_header *header)
{
    if (header->holders && --*header->holders > 0) return;
    free(header->units);
    free(header->config_json);
    free(header->given_json);
    free(header->holders);
}

bool header_share(struct run_header *copy, struct run_header *from)
{
    *copy = *from;
    if (!from->known) return true;
    if (!from->holders) return *copy = (struct run_header){.parameters = RUN_UNKNOWN}, false;
    return ++*from->holders > 0;
}

static void know_ranks(struct run_model *model)
{
    const int ranks = model->header.ranks;
    if (ranks <= 0 || ranks > RUN_RANKS_MAX) return;
    model->header.known = false; /* lets model_rank() grow */
    model_rank(model, (unsigned)ranks - 1);
    model->header.known = true;
}

static void forget_ranks(struct run_model *model)
{
    free(model->rank);
    model->rank = NULL;
    model->ranks = 0;
    model->machines.count = 0;
    memset(model->lane_name, 0, sizeof model->lane_name);
    model->has_training = false;
    model->traffic_step = model->traffic_steps = 0;
    memset(model->traffic, 0, sizeof model->traffic);
    memset(model->traffic_total, 0, sizeof model->traffic_total);
    memset(model->best_busbw, 0, sizeof model->best_busbw);
    memset(&model->split_total, 0, sizeof model->split_total);
    model->split_count = 0;
}

/* Memory, lanes and processes were those of ranks that have ended; their plans and their traffic say nothing of the new ones. What
 * was learned, and what happened, stays. */
static void part_begin(struct run_model *model, int number, uint32_t steps_done, uint64_t begun_ns)
{
    if (model->part_count)
        forget_ranks(model); /* else the head of the trace was lost, and this is what it belongs to */
    if (model->part_count == RUN_PARTS_MAX)
        memmove(model->parts, model->parts + 1, (size_t)--model->part_count * sizeof *model->parts);
    model->parts[model->part_count++] = (struct run_part){number, steps_done, model->header.ranks, begun_ns};
}

/* ---- slow motion and paced links as they are at this moment: what the header's configuration says, then each live `set` ---- */

static void set_key(struct run_pace *pace, const char *key, const char *value)
{
    struct config config = {.topology = {.slow_rank = pace->slow_rank,
                                         .slow_motion = pace->slow_motion,
                                         .device_flops = pace->device_flops}};
    memcpy(config.topology.links, pace->links, sizeof pace->links);
    config_try(&config, key, value, NULL);
    memcpy(pace->links, config.topology.links, sizeof pace->links);
    pace->slow_motion = config.topology.slow_motion;
    pace->slow_rank = config.topology.slow_rank;
    pace->device_flops = config.topology.device_flops;
}

/* The resolved configuration is plain numbers; a section becomes the keys below it. */
static void read_section(struct run_pace *pace, const char *path, const cJSON *section)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, section)
    {
        char key[CONFIG_PATH_MAX], value[48];
        snprintf(key, sizeof key, "%s.%.40s", path, item->string);
        snprintf(value, sizeof value, "%.17g", item->valuedouble);
        if (cJSON_IsObject(item) && strlen(key) < sizeof key - 48) read_section(pace, key, item);
        else if (cJSON_IsNumber(item)) set_key(pace, key, value);
    }
}

static void pace_begin(struct run_pace *pace, const cJSON *config)
{
    const cJSON *topology = json_get(config, "topology");
    *pace = (struct run_pace){.known = cJSON_IsObject(topology), .slow_motion = 1, .slow_rank = -1};
    read_section(pace, "topology", topology);
}

void pace_set(struct run_pace *pace, const cJSON *detail)
{
    const char *key = json_get_text(detail, "key");
    const char *value = json_get_text(detail, "to");
    if (pace->known && key && value && !strncmp(key, "topology.", 9)) set_key(pace, key, value);
}

/* ---- the record ---- */

void fold_run(struct run_model *model, const struct trace_record *record)
{
    char *text = text_copy(record->run.json);
    cJSON *json = text ? cJSON_Parse(text) : NULL;
    const int told = read_int(json, "part"), part = told > 0 ? told : 0, steps_done = read_int(json, "steps_done");
    const struct run_part *present = run_present_part(model);
    if (!json) {
        model_problem(model, "the run header is not JSON");
    } else if (!model->header.known || !present ||
               present->number != part) { /* a viewer that attaches late gets it again */
        header_release(&model->header);
        model->fault.kind = FAULT_NONE; /* a new engine */
        read_header(&model->header, json, text);
        pace_begin(&model->pace, json_get(json, "config"));
        part_begin(model, part, steps_done > 0 ? (uint32_t)steps_done : 0, record->time_ns);
        know_ranks(model);
    }
    free(text);
    cJSON_Delete(json);
}
