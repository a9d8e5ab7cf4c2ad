/* An analysis for scripts: names are a promise (docs/JSON.md). Times are in seconds and, like bytes and counts, of a mean step; "mean" is
 * over all ranks. Unknown is null. */
#include <string.h>

#include "engine/advise/analysis.h"
#include "engine/base/json.h"

static void add_seconds(cJSON *object, const char *key, uint64_t ns, double parts)
{
    cJSON_AddNumberToObject(object, key, (double)ns / parts * 1e-9);
}

static void add_share(cJSON *object, const char *key, uint64_t part, uint64_t whole)
{
    json_number(object, key, whole > 0, whole ? (double)part / (double)whole : 0);
}

/* ---- the parts of a section: sums over `parts` ranks and steps ---- */

static void add_totals(cJSON *out, const struct totals *sum, double parts)
{
    const struct temporal *of = &sum->temporal;
    json_number(out, "rank", sum->rank >= 0, sum->rank);
    add_seconds(out, "window_seconds", of->window_ns, parts);
    add_seconds(out, "compute_seconds", of->compute_ns, parts);
    add_seconds(out, "communication_seconds", of->communication_ns, parts);
    add_seconds(out, "overlapped_seconds", of->overlapped_ns, parts);
    add_seconds(out, "non_compute_seconds", of->non_compute_ns, parts);
    add_seconds(out, "idle_seconds", of->idle_ns, parts);
    add_seconds(out, "exposed_seconds", of->communication_ns - of->overlapped_ns, parts);
    add_share(out, "overlap", of->overlapped_ns, of->communication_ns);
    for (int phase = 0; phase < PHASES; phase++) {
        char key[32];
        snprintf(key, sizeof key, "%s_seconds", phase_name((enum phase)phase));
        add_seconds(out, key, sum->phase_ns[phase], parts);
    }
}

static void add_temporal(cJSON *out, const struct analysis_section *section, const struct totals *mean, double parts)
{
    cJSON *list = cJSON_AddArrayToObject(out, "temporal");
    for (int rank = 0; rank < section->ranks; rank++) {
        struct totals sum;
        double steps = analysis_sum(&sum, section, rank);
        add_totals(json_item(list), &sum, steps);
    }
    add_totals(cJSON_AddObjectToObject(out, "mean"), mean, parts);
}

static void add_stalls(cJSON *out, const struct totals *sum, double parts)
{
    cJSON *list = cJSON_AddArrayToObject(out, "stalls");
    for (int why = STALL_NONE + 1; why < STALLS; why++) {
        cJSON *item = json_item(list);
        json_text(item, "cause", stall_name((enum stall)why));
        cJSON_AddNumberToObject(item, "count", (double)sum->stall_count[why] / parts);
        add_seconds(item, "seconds_per_step", sum->stall_ns[why], parts);
    }
}

static void add_lane_stalls(cJSON *out, const struct totals *sum, double parts)
{
    cJSON *list = cJSON_AddArrayToObject(out, "lane_stalls");
    for (int lane = LANE_D2H; lane < LANES; lane++)
        for (int why = STALL_NONE + 1; why < STALLS; why++) {
            if (!sum->lane_stall_ns[lane][why]) continue;
            cJSON *item = json_item(list);
            json_text(item, "lane", lane_name((enum lane)lane));
            json_text(item, "cause", stall_name((enum stall)why));
            add_seconds(item, "seconds_per_step", sum->lane_stall_ns[lane][why], parts);
        }
}

/* Of NVMe: how transfers went inside. */
static void add_io(cJSON *out, const struct collective_totals *of, const struct io_most *most, double parts)
{
    cJSON *io = cJSON_AddObjectToObject(out, "io");
    cJSON_AddNumberToObject(io, "requests_per_step", (double)of->requests / parts);
    cJSON_AddNumberToObject(io, "bytes_per_step", (double)of->io_bytes / parts);
    add_seconds(io, "seconds_per_step", of->io_ns, parts);
    json_number(io, "bytes_per_second", of->io_ns > 0, of->io_ns ? (double)of->io_bytes * 1e9 / (double)of->io_ns : 0);
    json_number(io, "queue_depth_mean", of->io_ns > 0, of->io_ns ? (double)of->latency_ns / (double)of->io_ns : 0);
    cJSON_AddNumberToObject(io, "queue_depth_max", (double)most->deepest);
    add_seconds(io, "latency_mean_seconds", of->latency_ns, (double)of->requests);
    add_seconds(io, "latency_max_seconds", most->longest_ns, 1);
}

static void add_collective(cJSON *out, const struct analysis_section *section, const struct totals *sum, int kind,
                           double parts)
{
    const struct collective_totals *of = &sum->traffic[kind];
    const struct run_traffic *planned = &section->planned[kind];
    json_text(out, "kind", traffic_name((enum traffic)kind));
    cJSON_AddNumberToObject(out, "count", (double)of->count / parts);
    cJSON_AddNumberToObject(out, "bytes_per_step", (double)of->bytes / parts);
    cJSON_AddNumberToObject(out, "sent_bytes_per_step", (double)of->sent_bytes / parts);
    json_number(out, "planned_sent_bytes_per_step", planned->ranks > 0,
                planned->ranks ? (double)planned->sent_bytes / planned->ranks : 0);
    add_seconds(out, "seconds_per_step", of->busy_ns, parts);
    add_seconds(out, "exposed_seconds_per_step", of->exposed_ns, parts);
    add_seconds(out, "peers_seconds_per_step", of->peers_ns, parts);
    add_seconds(out, "paced_seconds_per_step", of->paced_ns, parts);
    if (of->requests) add_io(out, of, &sum->most[kind], parts);
    json_number(out, "algbw_bytes_per_second", of->algbw > 0, of->algbw);
    json_number(out, "busbw_bytes_per_second", of->busbw > 0, of->busbw);
}

static void add_collectives(cJSON *out, const struct analysis_section *section, const struct totals *sum, double parts)
{
    cJSON *list = cJSON_AddArrayToObject(out, "collectives");
    for (int kind = 0; kind < TRAFFIC_KINDS; kind++)
        if (sum->traffic[kind].count) add_collective(json_item(list), section, sum, kind, parts);
    json_number(out, "theory_bytes_per_step", section->theory_bytes > 0, (double)section->theory_bytes);
}

static void add_prefetch(cJSON *out, const struct totals *sum, double parts)
{
    const struct prefetch_totals *of = &sum->prefetch;
    cJSON *prefetch = cJSON_AddObjectToObject(out, "prefetch");
    cJSON_AddNumberToObject(prefetch, "gathers", (double)of->gathers / parts);
    cJSON_AddNumberToObject(prefetch, "prefetched", (double)of->prefetched / parts);
    cJSON_AddNumberToObject(prefetch, "early", (double)of->early_count / parts);
    json_number(prefetch, "early_seconds", of->early_count > 0,
                of->early_count ? (double)of->early_ns / (double)of->early_count * 1e-9 : 0);
    add_seconds(prefetch, "seconds_per_step", of->busy_ns, parts);
    cJSON_AddNumberToObject(prefetch, "stalls", (double)of->stalls / parts);
    add_seconds(prefetch, "stalled_seconds_per_step", of->stalled_ns, parts);
    json_number(prefetch, "hidden_share", of->busy_ns > 0, prefetch_hidden_share(of));
}

static void add_memory(cJSON *out, const struct analysis_section *section)
{
    cJSON *list = cJSON_AddArrayToObject(out, "memory");
    for (int rank = 0; rank < section->ranks; rank++)
        for (int tier = 0; tier < TIERS; tier++) {
            const struct analysis_peak *peak = &section->peak[rank][tier];
            if (!peak->instant.known) continue;
            cJSON *item = json_item(list);
            cJSON_AddNumberToObject(item, "rank", rank);
            json_text(item, "tier", tier_name((enum tier)tier));
            cJSON_AddNumberToObject(item, "peak_bytes", (double)peak->instant.live_bytes);
            json_number(item, "predicted_peak_bytes", section->tier[tier].known,
                        (double)section->tier[tier].peak_bytes);
            cJSON_AddNumberToObject(item, "step", peak->step);
            cJSON *tenants = cJSON_AddObjectToObject(item, "at_peak_bytes");
            for (int category = 0; category < CATEGORIES; category++)
                if (peak->instant.held_bytes[category])
                    json_number(tenants, category_name((enum category)category), true,
                                (double)peak->instant.held_bytes[category]);
        }
}

/* ---- all of it ---- */

static void add_knobs(cJSON *out, const struct analysis_section *section)
{
    const struct config_zero *knobs = &section->knobs;
    if (!section->has_knobs) {
        cJSON_AddNullToObject(out, "knobs");
        return;
    }
    cJSON *object = cJSON_AddObjectToObject(out, "knobs");
    cJSON_AddNumberToObject(object, "reduce_bucket_size", (double)knobs->reduce_bucket_elems);
    cJSON_AddNumberToObject(object, "allgather_bucket_size", (double)knobs->allgather_bucket_elems);
    cJSON_AddBoolToObject(object, "overlap_comm", knobs->overlap_comm);
    cJSON_AddNumberToObject(object, "stage3_prefetch_bucket_size", (double)knobs->prefetch_bucket_elems);
    cJSON_AddNumberToObject(object, "stage3_max_live_parameters", (double)knobs->max_live_parameters);
    cJSON_AddNumberToObject(object, "stage3_max_reuse_distance", (double)knobs->max_reuse_distance);
    cJSON_AddNumberToObject(object, "stage3_param_persistence_threshold", (double)knobs->param_persistence_threshold);
}

static void add_section(cJSON *out, const struct analysis_section *section)
{
    struct totals sum;
    double parts = analysis_sum(&sum, section, -1);
    cJSON_AddNumberToObject(out, "stage", section->stage);
    cJSON_AddNumberToObject(out, "schedule", section->schedule);
    cJSON_AddNumberToObject(out, "ranks", section->ranks);
    cJSON_AddNumberToObject(out, "first_step", section->first_step);
    cJSON_AddNumberToObject(out, "last_step", section->last_step);
    cJSON_AddNumberToObject(out, "steps", (double)section->steps);
    cJSON_AddNumberToObject(out, "skipped_steps", (double)section->skipped);
    cJSON_AddNumberToObject(out, "timed_steps", (double)section->timed);
    add_knobs(out, section);
    json_number(out, "seconds_per_step", section->steps > 0,
                section->steps ? (double)section->total_ns / (double)section->steps * 1e-9 : 0);
    json_number(out, "tokens_per_second", section->total_ns > 0,
                section->total_ns ? (double)section->tokens * 1e9 / (double)section->total_ns : 0);
    json_number(out, "first_loss", section->steps > 0, (double)section->first_loss);
    json_number(out, "last_loss", section->steps > 0, (double)section->last_loss);
    if (parts > 0) {
        add_temporal(out, section, &sum, parts);
        add_stalls(out, &sum, parts);
        add_seconds(out, "compute_done_seconds_per_step", sum.done_ns, parts);
        add_lane_stalls(out, &sum, parts);
        add_collectives(out, section, &sum, parts);
        add_prefetch(out, &sum, parts);
    }
    add_memory(out, section);
}

char *analysis_json(const struct analysis *analysis)
{
    const struct run_model *model = analysis->model;
    cJSON *out = cJSON_CreateObject();
    cJSON_AddNumberToObject(out, "version", 1);
    json_text(out, "trace", analysis->path);
    json_text(out, "outcome", model->ended ? run_outcome_name(model->outcome) : NULL);
    json_text(out, "defect", analysis->defect);
    cJSON_AddNumberToObject(out, "lost_records", (double)model->lost_records);
    cJSON *shape = cJSON_AddObjectToObject(out, "model");
    json_text(shape, "name", model->header.model_name);
    json_number(shape, "parameters", model->header.parameters >= 0, (double)model->header.parameters);
    cJSON_AddNumberToObject(out, "ranks", model->ranks);
    cJSON *list = cJSON_AddArrayToObject(out, "sections");
    for (int i = 0; i < analysis->section_count; i++) add_section(json_item(list), &analysis->sections[i]);
    cJSON_AddItemToObject(out, "why", analysis_why_object(analysis, TIER_DEVICE));
    cJSON_AddItemToObject(out, "why_host", analysis_why_object(analysis, TIER_HOST));
    cJSON_AddItemToObject(out, "why_nvme", analysis_why_object(analysis, TIER_NVME));
    return json_lines(out);
}
