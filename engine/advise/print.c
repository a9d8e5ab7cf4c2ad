#include "engine/advise/print.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "engine/advise/theory.h"
#include "engine/base/grouped.h"
#include "engine/base/json.h"
#include "engine/base/words.h"
#include "engine/config/keys.h"
#include "engine/plan/footprint.h"
#include "engine/plan/setup.h"
#include "engine/plan/schedule_io.h"
#include "engine/simulate/simulate.h"

#define ZERO "zero_optimization."

/* ---- traffic ---- */

/* The paced link of this traffic; NULL: not paced, or links inside and between nodes differ. */
static const struct config_link *pace_of(const struct config *config, enum traffic kind)
{
    const int per_node = config->topology.ranks_per_node;
    const bool known = traffic_is_copy(kind) || per_node == 0 || per_node == config->topology.ranks;
    const struct config_link *pace = &config->topology.links[traffic_link(kind)];
    return known && (pace->bandwidth_bytes_per_s > 0 || pace->latency_s > 0) ? pace : NULL;
}

/* nodes: there are several. */
static void print_traffic_row(FILE *out, const struct traffic_sum *sum, enum traffic kind, const struct config *config,
                              bool nodes)
{
    const struct config_link *pace = pace_of(config, kind);
    char a[32];
    fprintf(out, "  %-16s %5d operations %16s", traffic_name(kind), sum->count, grouped(a, sum->sent_bytes));
    if (pace) fprintf(out, "  %8.3f ms at %s's pace", 1e3 * traffic_seconds(sum, pace), link_name(traffic_link(kind)));
    if (nodes) fprintf(out, "  %14s across nodes", grouped(a, sum->across_bytes));
    fputc('\n', out);
}

static void print_theory(FILE *out, const struct setup *setup, int64_t sent)
{
    const struct schedule *schedule = &setup->schedule;
    char a[32], b[32], formula[192], gradients[32] = "";
    theory_formula(formula, sizeof formula, schedule, "Psi", dtype_bytes(setup->model.dtype));
    if (setup->model.wire != setup->model.dtype)
        snprintf(gradients, sizeof gradients, ", gradients in %s", dtype_name(setup->model.wire));
    double theory = traffic_theory_bytes(&setup->model, schedule);
    fprintf(out, "  the paper's: %s%s = %s; difference %s\n", formula, gradients, grouped(a, (int64_t)(theory + 0.5)),
            grouped(b, sent - (int64_t)(theory + 0.5)));
}

/* What a rank moves between its tiers: the two ways of a link each have a lane, so that their times run beside each other. */
static void print_copies(FILE *out, const struct traffic_sum sums[TRAFFIC_KINDS], const struct config *config)
{
    bool any = false;
    for (int kind = 0; kind < TRAFFIC_KINDS; kind++) {
        if (!traffic_is_copy((enum traffic)kind) || sums[kind].count == 0) continue;
        if (!any) fputs("\nTraffic between the tiers of rank 0 in a step, bytes\n", out);
        any = true;
        print_traffic_row(out, &sums[kind], (enum traffic)kind, config, false);
    }
}

/* In the paper's unit. Stage 3 on all ranks sends 3 M with each micro-step (ZeRO++, table 1). */
static void print_across(FILE *out, const struct setup *setup, int64_t bytes, int nodes)
{
    const double M = dtype_bytes(setup->model.dtype) * (double)setup->model.elems * (nodes - 1) / nodes;
    fprintf(out, "  across nodes %.3g M (ZeRO-3: %d M), where M = e Psi (K-1)/K, K = %d nodes\n", (double)bytes / M,
            3 * setup->schedule.micro_steps, nodes);
}

static void print_traffic(FILE *out, const struct setup *setup, const struct config *config)
{
    struct traffic_sum sums[TRAFFIC_KINDS];
    char a[32];
    const int per_node = config->topology.ranks_per_node;
    const bool nodes = per_node > 0 && per_node < config->topology.ranks;
    traffic_of(sums, &setup->schedule, &setup->model, 0, per_node);
    const struct traffic_sum all = traffic_between_ranks(sums);
    fprintf(out, "\nTraffic from rank 0 to others in a step (bytes sent, as a ring would)\n");
    for (int kind = 0; kind < TRAFFIC_KINDS; kind++)
        if (sums[kind].count && !traffic_is_copy((enum traffic)kind))
            print_traffic_row(out, &sums[kind], (enum traffic)kind, config, nodes);
    fprintf(out, "  %-16s %5s            %16s", "all", "", grouped(a, all.sent_bytes));
    if (nodes) fprintf(out, "  %14s across nodes", grouped(a, all.across_bytes));
    fputc('\n', out);
    if (nodes) print_across(out, setup, all.across_bytes, config->topology.ranks / per_node);
    print_theory(out, setup, all.sent_bytes);
    print_copies(out, sums, config);
}

/* How often each unit's elements move, so that any difference from the paper has a name. */
static void print_units(FILE *out, const struct setup *setup)
{
    const struct schedule *schedule = &setup->schedule;
    char a[32], b[32], c[32], d[32];
    fprintf(out, "\nUnits (elements moved in a step)\n  %-10s %13s %8s %13s %13s %13s\n", "", "elements", "padding",
            "gathered", "reduced", "refreshed");
    for (int u = 0; u < setup->model.unit_count; u++) {
        int64_t moved[3] = {0};
        for (int i = 0; i < schedule->op_count; i++) {
            const struct op *op = &schedule->ops[i];
            int column = op->kind == OP_GATHER ? 0 : op->kind == OP_REFRESH ? 2 : 1;
            for (int p = 0; op->lane == LANE_COMM && p < op->piece_count; p++)
                if (schedule->pieces[op->first_piece + p].unit == u)
                    moved[column] += schedule->pieces[op->first_piece + p].elems;
        }
        const struct unit *unit = &setup->model.units[u];
        fprintf(out, "  %-10s %13s %8lld %13s %13s %13s\n", unit->name, grouped(a, unit->elems),
                (long long)(shard_elems(unit->elems, schedule->ranks) * schedule->ranks - unit->elems),
                grouped(b, moved[0]), grouped(c, moved[1]), grouped(d, moved[2]));
    }
    if (schedule->stage == 3 && setup->model.tied)
        fprintf(out, "  (%s is used twice: embedding and output layer are tied)\n", setup->model.units[0].name);
}

/* DeepSpeed's default sizes are meant for billions of parameters: a small model never lets anything go. */
void plan_notes(FILE *out, const char *prefix, const struct model *model, const struct config_zero *zero)
{
    if (zero->stage == 3 && zero->max_reuse_distance >= 2 * model->elems)
        fprintf(out,
                "%snothing is released, because stage3_max_reuse_distance (%" PRId64
                ") is longer than the whole step\n",
                prefix, zero->max_reuse_distance);
    if (zero->stage == 3 && persistent_from(model, zero, model_block(model, model->shape.layers - 1)) == 0)
        fprintf(
            out,
            "%sblocks stay gathered, because no tensor of theirs is over stage3_param_persistence_threshold (%" PRId64
            ")\n",
            prefix, zero->param_persistence_threshold);
    if (zero->stage == 3 && model_tiled(model) &&
        persistent_from(model, zero, model_mlp(model, model->shape.layers - 1, model->mlp_tiles - 1)) == 0)
        fprintf(out,
                "%stiles of MLPs stay gathered, because no tensor of theirs is over "
                "stage3_param_persistence_threshold (%" PRId64 ")\n",
                prefix, zero->param_persistence_threshold);
    if (zero->stage >= 1 && zero->reduce_bucket_elems >= model->elems)
        fprintf(out, "%sone bucket holds all gradients, because reduce_bucket_size (%" PRId64 ") is not below Psi\n",
                prefix, zero->reduce_bucket_elems);
}

static int print_pace(FILE *out, const struct setup *setup, const struct config *config, struct error *err)
{
    const double seconds = paced_seconds(setup, config);
    if (isnan(seconds)) return error_set(err, STATUS_RUN, "no memory to follow a step");
    if (seconds > 0) fprintf(out, "\nTime of a step by pace alone (links, device, slow motion, slow rank): %.4f s\n", seconds);
    return STATUS_OK;
}

/* ---- the head: the settings that the figures depend on, as many per line as fit ---- */

struct list {
    FILE *out;
    int column;
};

__attribute__((format(printf, 2, 3))) static void say(struct list *list, const char *format, ...)
{
    char text[160];
    va_list args;
    va_start(args, format);
    const int length = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const bool breaks = list->column + 2 + length + 1 > PAGE_COLUMNS; /* ", " before it, "," after it */
    if (list->column) list->column += fprintf(list->out, breaks ? ",\n" : ", ");
    if (breaks) list->column = 0;
    list->column += fprintf(list->out, "%s", text);
}

static void end_list(struct list *list)
{
    fputc('\n', list->out);
    list->column = 0;
}

/* Keys that a step depends on, where they have an effect; those of zero_optimization by their short names. */
static void say_knobs(struct list *list, const struct config *config)
{
    const struct config_zero *zero = &config->zero;
    const bool gathers = zero->stage == 3, states = zero->offload_optimizer,
               to_disk = zero->offload_optimizer == OFFLOAD_NVME, from_disk = zero->offload_param == OFFLOAD_NVME, full = zero->recompute == RECOMPUTE_FULL,
               some_persist = zero->model_persistence_threshold < INT64_MAX;
    const struct {
        bool counts;
        const char *key;
    } knobs[] = {
        {true, ZERO "reduce_bucket_size"},
        {true, ZERO "allgather_bucket_size"},
        {true, ZERO "overlap_comm"},
        {gathers, ZERO "stage3_prefetch_bucket_size"},
        {gathers, ZERO "stage3_max_live_parameters"},
        {gathers, ZERO "stage3_max_reuse_distance"},
        {gathers, ZERO "stage3_param_persistence_threshold"},
        {gathers && some_persist, ZERO "stage3_model_persistence_threshold"},
        {gathers, ZERO "sub_group_size"},
        {gathers && zero->keep_last_units, "schedule.keep_last_units"},
        {zero->stage >= 2 && zero->no_sync, "schedule.no_sync"},
        {states, ZERO "offload_optimizer.device"},
        {to_disk, ZERO "offload_optimizer.pipeline_read"},
        {to_disk, ZERO "offload_optimizer.pipeline_write"},
        {states && zero->offload_ratio < 1, ZERO "offload_optimizer.ratio"},
        {states, "schedule.update_tile"},
        {zero->delayed_update, "schedule.delayed_update_after"},
        {zero->offload_param, ZERO "offload_param.device"},
        {from_disk, ZERO "offload_param.max_in_cpu"},
        {from_disk, ZERO "offload_param.buffer_count"},
        {from_disk, ZERO "offload_param.buffer_size"},
        {zero->prescale_gradients, "prescale_gradients"},
        {!zero->prescale_gradients && zero->gradient_predivide_factor != 1, "gradient_predivide_factor"},
        {zero->recompute, "model.recompute"},
        {full, "model.checkpoint_every"},
        {full && zero->cpu_checkpointing, "activation_checkpointing.cpu_checkpointing"},
    };
    for (size_t k = 0; k < sizeof knobs / sizeof *knobs; k++) {
        char name[CONFIG_PATH_MAX], value[64];
        if (!knobs[k].counts) continue;
        config_show(config, knobs[k].key, value, sizeof value);
        key_short_name(name, sizeof name, knobs[k].key);
        say(list, "%s %s", strncmp(knobs[k].key, ZERO, strlen(ZERO)) ? knobs[k].key : name, value);
    }
}

static void print_head(FILE *out, const struct setup *setup, const struct config *config)
{
    const int ranks = config->topology.ranks, threads = config->topology.threads_per_rank;
    struct list list = {out, 0};
    char a[32];
    say(&list, "%s: %s parameters (Psi) in %d units", config->model.name, grouped(a, setup->model.elems),
        setup->model.unit_count);
    say(&list, "%s", dtype_name(config->dtype));
    say(&list, "%s", optimizer_table[setup->model.optimizer].name);
    say(&list, "ZeRO stage %d", config->zero.stage);
    say(&list, "%d rank%s x %d thread%s", ranks, plural(ranks), threads, plural(threads));
    say(&list, "micro-batch %d x %d tokens a rank", config->micro_batch_size, config->data.sequence_length);
    say(&list, "%d micro-step%s", config->accumulation_steps, plural(config->accumulation_steps));
    end_list(&list);
    say_knobs(&list, config);
    end_list(&list);
    fprintf(out, "%d operations, %d buffers; the checker passed\n", setup->schedule.op_count,
            setup->schedule.buffer_count);
}

int plan_print(FILE *out, const struct config *config, bool with_schedule, struct error *err)
{
    struct setup setup;
    int status = setup_init_checked(&setup, config, err);
    if (status) return status;
    print_head(out, &setup, config);
    plan_notes(out, "note: ", &setup.model, &config->zero);
    plan_print_memory(out, &setup, config);
    print_traffic(out, &setup, config);
    print_units(out, &setup);
    status = print_pace(out, &setup, config, err);
    if (!status && with_schedule) {
        fputs("\nOperations of a step\n", out);
        schedule_print(out, &setup.schedule, &setup.model);
    }
    setup_release(&setup);
    return status;
}

/* ---- as JSON ---- */

static void add_category(cJSON *out, const struct footprint *footprint, enum tier tier, enum category category)
{
    json_put(out, TEXT("tier", tier_name(tier)), TEXT("category", category_name(category)),
             NUMBER("resting_bytes", footprint->category[tier][category].resting_bytes),
             NUMBER("peak_bytes", footprint->category[tier][category].peak_bytes),
             NUMBER("at_peak_bytes", footprint->category[tier][category].at_peak_bytes),
             NUMBER("reserved_bytes", footprint->category[tier][category].extent_bytes));
}

static void add_memory(cJSON *out, const struct footprint *footprint, const struct config *config)
{
    cJSON *memory = cJSON_AddArrayToObject(out, "memory"), *tiers = cJSON_AddArrayToObject(out, "tiers");
    for (int tier = 0; tier < TIERS; tier++) {
        if (footprint->peak_bytes[tier] == 0) continue;
        for (int c = 0; c < CATEGORIES; c++)
            if (footprint->category[tier][c].peak_bytes)
                add_category(json_item(memory), footprint, (enum tier)tier, (enum category)c);
        cJSON *object = json_item(tiers);
        cJSON_AddStringToObject(object, "tier", tier_name((enum tier)tier));
        json_put(object, NUMBER("resting_bytes", footprint->resting_bytes[tier]),
                 NUMBER("peak_bytes", footprint->peak_bytes[tier]));
        json_number(object, "budget_bytes", config->budget_bytes[tier] > 0, (double)config->budget_bytes[tier]);
        cJSON_AddNumberToObject(object, "peak_operation", footprint->peak_op[tier]);
    }
    json_put(out, NUMBER("peak_bytes", footprint->peak_bytes[TIER_DEVICE]),
             NUMBER("resting_bytes", footprint->resting_bytes[TIER_DEVICE]));
}

static void add_traffic(cJSON *out, const struct setup *setup, const struct config *config)
{
    struct traffic_sum sums[TRAFFIC_KINDS];
    cJSON *traffic = cJSON_AddArrayToObject(out, "traffic");
    traffic_of(sums, &setup->schedule, &setup->model, 0, config->topology.ranks_per_node);
    for (int kind = 0; kind < TRAFFIC_KINDS; kind++) {
        const struct config_link *pace = pace_of(config, (enum traffic)kind);
        if (sums[kind].count == 0) continue;
        cJSON *object = json_item(traffic);
        json_put(object, TEXT("kind", traffic_name((enum traffic)kind)), NUMBER("count", sums[kind].count),
                 NUMBER("sent_bytes", sums[kind].sent_bytes));
        if (!traffic_is_copy((enum traffic)kind))
            cJSON_AddNumberToObject(object, "across_nodes_bytes", (double)sums[kind].across_bytes);
        if (pace) cJSON_AddNumberToObject(object, "seconds_at_pace", traffic_seconds(&sums[kind], pace));
    }
    cJSON_AddNumberToObject(out, "theory_bytes", traffic_theory_bytes(&setup->model, &setup->schedule));
    const double paced = paced_seconds(setup, config);
    json_number(out, "paced_seconds", paced > 0, paced); /* nothing is paced, or there was no memory to follow a step */
}

static void add_flops(cJSON *out, const struct setup *setup)
{
    struct flops flops;
    flops_of(&flops, &setup->schedule, &setup->model);
    json_put(cJSON_AddObjectToObject(out, "flops"), NUMBER("forward", flops.forward),
             NUMBER("backward", flops.backward), NUMBER("recomputed", flops.recomputed));
}

int plan_print_json(FILE *out, const struct config *config, bool with_schedule, struct error *err)
{
    struct setup setup;
    int status = setup_init_checked(&setup, config, err);
    if (status) return status;
    cJSON *json = cJSON_CreateObject(), *model = cJSON_AddObjectToObject(json, "model");
    json_put(model, TEXT("name", config->model.name), NUMBER("parameters", setup.model.elems),
             TEXT("architecture", model_traits[config->model.kind].name), NUMBER("layers", config->model.layers),
             NUMBER("hidden", config->model.hidden), NUMBER("heads", config->model.heads),
             NUMBER("kv_heads", config_kv_heads(&config->model)), NUMBER("ffn", config_ffn(&config->model)),
             NUMBER("context", config->model.context), NUMBER("vocabulary", config->model.vocabulary),
             TRUTH("tied", config->tied));
    json_put(json, NUMBER("ranks", setup.schedule.ranks), NUMBER("stage", setup.schedule.stage),
             TEXT("precision", dtype_name(config->dtype)));
    add_memory(json, &setup.footprint, config);
    add_traffic(json, &setup, config);
    add_flops(json, &setup);
    char *schedule = with_schedule ? schedule_to_json(&setup.schedule) : NULL;
    if (schedule) cJSON_AddRawToObject(json, "schedule", schedule);
    free(schedule);
    setup_release(&setup);
    return json_print(out, json, err);
}
