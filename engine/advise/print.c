#include "engine/advise/print.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/advise/theory.h"
#include "engine/base/grouped.h"
#include "engine/base/template.h"
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

/* Between ranks, where there are several nodes also what crosses them; and what rank 0 moves between its tiers: the two ways of a
 * link each have a lane, so that their times run beside each other. */
static void add_kind(cJSON *object, const struct traffic_sum *sum, enum traffic kind, const struct config *config)
{
    const struct config_link *pace = pace_of(config, kind);
    const bool copy = traffic_is_copy(kind);
    json_put(object, TEXT("kind", traffic_name(kind)), NUMBER("count", sum->count), NUMBER("sent_bytes", sum->sent_bytes),
             TRUTH(".copy", copy), TEXT(".link", link_name(traffic_link(kind))));
    if (!copy) json_put(object, NUMBER("across_nodes_bytes", sum->across_bytes));
    if (pace) json_put(object, NUMBER("seconds_at_pace", traffic_seconds(sum, pace)));
}

/* Across nodes in the paper's unit: stage 3 on all ranks sends 3 M with each micro-step (ZeRO++, table 1). */
static void add_theory(cJSON *facts, const struct setup *setup, const struct config *config, const struct traffic_sum *all)
{
    const struct model *model = &setup->model;
    const double theory = traffic_theory_bytes(model, &setup->schedule), e = dtype_bytes(model->dtype);
    const int per_node = config->topology.ranks_per_node, ranks = config->topology.ranks;
    const double nodes = per_node > 0 ? ranks / per_node : 1, M = e * (double)model->elems * (nodes - 1) / nodes;
    char formula[192];
    theory_formula(formula, sizeof formula, &setup->schedule, "Psi", dtype_bytes(model->dtype));
    json_put(facts, NUMBER("theory_bytes", theory), TEXT(".formula", formula),
             TEXT(".wire", model->wire != model->dtype ? dtype_name(model->wire) : ""),
             NUMBER(".difference", all->sent_bytes - llround(theory)), NUMBER(".sent", all->sent_bytes),
             NUMBER_IF(".nodes", per_node > 0 && per_node < ranks, nodes), NUMBER(".across", all->across_bytes),
             NUMBER(".across_M", (double)all->across_bytes / M), NUMBER(".zero3_M", 3 * setup->schedule.micro_steps));
}

static void add_traffic(cJSON *facts, const struct setup *setup, const struct config *config)
{
    struct traffic_sum sums[TRAFFIC_KINDS];
    cJSON *traffic = cJSON_AddArrayToObject(facts, "traffic");
    traffic_of(sums, &setup->schedule, &setup->model, 0, config->topology.ranks_per_node);
    const struct traffic_sum all = traffic_between_ranks(sums);
    bool copies = false;
    for (enum traffic kind = 0; kind < TRAFFIC_KINDS; kind++) {
        if (sums[kind].count == 0) continue;
        add_kind(json_item(traffic), &sums[kind], kind, config);
        copies |= traffic_is_copy(kind);
    }
    add_theory(facts, setup, config, &all);
    const double paced = paced_seconds(setup, config);
    json_put(facts, NUMBER_IF("paced_seconds", paced > 0, paced), /* nothing is paced, or there was no memory to follow a step */
             TRUTH(".copies", copies));
}

/* How often each unit's elements move, so that any difference from the paper has a name. */
enum { GATHERED, REDUCED, REFRESHED, MOVES };
typedef int64_t moved_elems[MOVES]; /* of a unit, by collectives of a step */

static void add_up_moved(moved_elems *of_unit, const struct schedule *schedule)
{
    for (int i = 0; i < schedule->op_count; i++) {
        const struct op *op = &schedule->ops[i];
        const int move = op->kind == OP_GATHER ? GATHERED : op->kind == OP_REFRESH ? REFRESHED : REDUCED;
        for (int p = 0; op->lane == LANE_COMM && p < op->piece_count; p++) {
            const struct piece *piece = &schedule->pieces[op->first_piece + p];
            of_unit[piece->unit][move] += piece->elems;
        }
    }
}

/* False: no memory. */
static bool add_units(cJSON *facts, const struct setup *setup)
{
    const struct schedule *schedule = &setup->schedule;
    moved_elems *moved = calloc((size_t)setup->model.unit_count, sizeof *moved);
    if (!moved) return false;
    add_up_moved(moved, schedule);
    cJSON *list = cJSON_AddArrayToObject(facts, ".units");
    for (int u = 0; u < setup->model.unit_count; u++) {
        const struct unit *unit = &setup->model.units[u];
        json_put(json_item(list), TEXT("unit", unit->name), NUMBER("elems", unit->elems),
                 NUMBER("padding", schedule_padded_elems(schedule, &setup->model, u) - unit->elems),
                 NUMBER("gathered", moved[u][GATHERED]), NUMBER("reduced", moved[u][REDUCED]),
                 NUMBER("refreshed", moved[u][REFRESHED]));
    }
    free(moved);
    const bool twice = schedule->stage == 3 && setup->model.tied;
    json_put(facts, TEXT(".twice", twice ? setup->model.units[0].name : ""));
    return true;
}

/* DeepSpeed's default sizes are meant for billions of parameters: a small model never lets anything go. */
void plan_notes(FILE *out, const char *prefix, const struct model *model, const struct config_zero *zero)
{
    const bool cut = zero->stage == 3;
    const int last = model->shape.layers - 1;
    const struct {
        bool holds;
        const char *what;
        int64_t size;
        const char *why;
    } notes[] = {
        {cut && zero->max_reuse_distance >= 2 * model->elems, "nothing is released, because stage3_max_reuse_distance",
         zero->max_reuse_distance, " is longer than the whole step"},
        {cut && persistent_from(model, zero, model_block(model, last)) == 0,
         "blocks stay gathered, because no tensor of theirs is over stage3_param_persistence_threshold",
         zero->param_persistence_threshold, ""},
        {cut && model_tiled(model) && persistent_from(model, zero, model_mlp(model, last, model->mlp_tiles - 1)) == 0,
         "tiles of MLPs stay gathered, because no tensor of theirs is over stage3_param_persistence_threshold",
         zero->param_persistence_threshold, ""},
        {zero->stage >= 1 && zero->reduce_bucket_elems >= model->elems,
         "one bucket holds all gradients, because reduce_bucket_size", zero->reduce_bucket_elems, " is not below Psi"},
    };
    for (size_t n = 0; n < sizeof notes / sizeof *notes; n++)
        if (notes[n].holds) fprintf(out, "%s%s (%" PRId64 ")%s\n", prefix, notes[n].what, notes[n].size, notes[n].why);
}

/* ---- the head: the settings that the figures depend on, as many per line as fit ---- */

struct list {
    FILE *out;
    int column;
};

__attribute__((format(printf, 2, 3))) static void say(struct list *list, const char *format, ...)
{
    char text[160];
    FORMAT_ARGUMENTS(text, sizeof text, format);
    const bool breaks = list->column + 2 + (int)strlen(text) + 1 > PAGE_COLUMNS; /* ", " before it, "," after it */
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

/* ---- all ---- */

/* NULL: no memory. */
static cJSON *facts_of(const struct setup *setup, const struct config *config)
{
    const struct config_model *shape = &config->model;
    struct flops flops;
    cJSON *facts = cJSON_CreateObject();
    json_put(cJSON_AddObjectToObject(facts, "model"), TEXT("name", shape->name), NUMBER("parameters", setup->model.elems),
             TEXT("architecture", model_traits[shape->kind].name), NUMBER("layers", shape->layers),
             NUMBER("hidden", shape->hidden), NUMBER("heads", shape->heads), NUMBER("kv_heads", config_kv_heads(shape)),
             NUMBER("ffn", config_ffn(shape)), NUMBER("context", shape->context), NUMBER("vocabulary", shape->vocabulary),
             TRUTH("tied", config->tied));
    json_put(facts, NUMBER("ranks", setup->schedule.ranks), NUMBER("stage", setup->schedule.stage),
             TEXT("precision", dtype_name(config->dtype)));
    plan_add_memory(facts, setup, config);
    add_traffic(facts, setup, config);
    flops_of(&flops, &setup->schedule, &setup->model);
    /* What recomputation costs: the ratio of operations is that of times, where products take the time. */
    json_put(cJSON_AddObjectToObject(facts, "flops"), NUMBER("forward", flops.forward),
             NUMBER("backward", flops.backward), NUMBER("recomputed", flops.recomputed),
             NUMBER(".once", flops.forward + flops.backward));
    if (add_units(facts, setup)) return facts;
    cJSON_Delete(facts);
    return NULL;
}

#define KIND                                                                                                           \
    "  {kind:-16} {count:5} operations {sent_bytes:16,}"                                                               \
    "{?seconds_at_pace}  {seconds_at_pace:8.3m} ms at {.link}'s pace{/}"
static const char page[] =
    "\nTraffic from rank 0 to others in a step (bytes sent, as a ring would)\n"
    "{#traffic}{!.copy}" KIND "{?.nodes}  {across_nodes_bytes:14,} across nodes{/}\n{/}{/}"
    "  all                               {.sent:16,}{?.nodes}  {.across:14,} across nodes\n"
    "  across nodes {.across_M:.3g} M (ZeRO-3: {.zero3_M} M), where M = e Psi (K-1)/K, K = {.nodes} nodes{/}\n"
    "  ZeRO paper: {.formula}{?.wire}, gradients in {.wire}{/} = {theory_bytes:,}; difference {.difference:,}\n"
    "{?.copies}\nTraffic between the tiers of rank 0 in a step, bytes\n{#traffic}{?.copy}" KIND "\n{/}{/}{/}"

    "\nUnits (elements moved in a step)\n"
    "                  elements  padding      gathered       reduced     refreshed\n"
    "{#.units}  {unit:-10} {elems:13,} {padding:8} {gathered:13,} {reduced:13,} {refreshed:13,}\n{/}"
    "{?.twice}  ({.twice} is used twice: embedding and output layer are tied)\n{/}"
    "{?paced_seconds}\nTime of a step by pace alone (links, device, slow motion, slow rank): {paced_seconds:.4} s\n{/}";

static void print_text(FILE *out, const cJSON *facts, const struct setup *setup, const struct config *config, bool with_schedule)
{
    print_head(out, setup, config);
    plan_notes(out, "note: ", &setup->model, &config->zero);
    template_print(out, plan_memory_page, facts);
    template_print(out, page, facts);
    if (!with_schedule) return;
    fputs("\nOperations of a step\n", out);
    schedule_print(out, &setup->schedule, &setup->model);
}

int plan_print(FILE *out, bool as_json, const struct config *config, bool with_schedule, struct error *err)
{
    struct setup setup;
    int status = setup_init_checked(&setup, config, err);
    if (status) return status;
    cJSON *facts = facts_of(&setup, config);
    char *schedule = facts && as_json && with_schedule ? schedule_to_json(&setup.schedule) : NULL;
    if (schedule) cJSON_AddRawToObject(facts, "schedule", schedule);
    free(schedule);
    if (!facts) status = error_set(err, STATUS_RUN, "no memory to print a plan");
    else if (as_json) status = json_print(out, template_strip(facts), err);
    else print_text(out, facts, &setup, config, with_schedule), cJSON_Delete(facts);
    setup_release(&setup);
    return status;
}
