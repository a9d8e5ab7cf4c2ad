/* An analysis for scripts: names are a promise. Times are in seconds and, like bytes and counts, of a mean step; "mean" is
 * over all ranks. Unknown is null. */
#include <cjson/cJSON.h>
#include <string.h>

#include "engine/advise/analysis.h"
#include "engine/base/printable.h"

static void add_number(cJSON *object, const char *key, bool known, double value)
{
    if (known) cJSON_AddNumberToObject(object, key, value);
    else cJSON_AddNullToObject(object, key);
}

static void add_text(cJSON *object, const char *key, const char *text)
{
    if (text && text[0]) cJSON_AddStringToObject(object, key, text);
    else cJSON_AddNullToObject(object, key);
}

static void add_seconds(cJSON *object, const char *key, uint64_t ns, double parts)
{
    add_number(object, key, true, (double)ns / parts * 1e-9);
}

static void add_share(cJSON *object, const char *key, uint64_t part, uint64_t whole)
{
    add_number(object, key, whole > 0, whole ? (double)part / (double)whole : 0);
}

/* ---- the parts of a section: sums over `parts` ranks and steps ---- */

static cJSON *temporal_object(const struct totals *sum, double parts)
{
    const struct temporal *of = &sum->temporal;
    cJSON *out = cJSON_CreateObject();
    add_number(out, "rank", sum->rank >= 0, sum->rank);
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
    return out;
}

static void add_temporal(cJSON *out, const struct analysis_section *section, const struct totals *mean, double parts)
{
    cJSON *list = cJSON_AddArrayToObject(out, "temporal");
    for (int rank = 0; rank < section->ranks; rank++) {
        struct totals sum;
        double steps = analysis_sum(&sum, section, rank);
        cJSON_AddItemToArray(list, temporal_object(&sum, steps));
    }
    cJSON_AddItemToObject(out, "mean", temporal_object(mean, parts));
}

static void add_stalls(cJSON *out, const struct totals *sum, double parts)
{
    cJSON *list = cJSON_AddArrayToObject(out, "stalls");
    for (int why = STALL_NONE + 1; why < STALLS; why++) {
        cJSON *item = cJSON_CreateObject();
        add_text(item, "cause", stall_name((enum stall)why));
        add_number(item, "count", true, (double)sum->stall_count[why] / parts);
        add_seconds(item, "seconds_per_step", sum->stall_ns[why], parts);
        cJSON_AddItemToArray(list, item);
    }
}

static void add_lane_stalls(cJSON *out, const struct totals *sum, double parts)
{
    cJSON *list = cJSON_AddArrayToObject(out, "lane_stalls");
    for (int lane = LANE_D2H; lane < LANES; lane++)
        for (int why = STALL_NONE + 1; why < STALLS; why++) {
            if (!sum->lane_stall_ns[lane][why]) continue;
            cJSON *item = cJSON_CreateObject();
            add_text(item, "lane", lane_name((enum lane)lane));
            add_text(item, "cause", stall_name((enum stall)why));
            add_seconds(item, "seconds_per_step", sum->lane_stall_ns[lane][why], parts);
            cJSON_AddItemToArray(list, item);
        }
}

/* Of NVMe: how transfers went inside. */
static void add_io(cJSON *out, const struct collective_totals *of, const struct io_most *most, double parts)
{
    cJSON *io = cJSON_AddObjectToObject(out, "io");
    add_number(io, "requests_per_step", true, (double)of->requests / parts);
    add_number(io, "bytes_per_step", true, (double)of->io_bytes / parts);
    add_seconds(io, "seconds_per_step", of->io_ns, parts);
    add_number(io, "bytes_per_second", of->io_ns > 0, of->io_ns ? (double)of->io_bytes * 1e9 / (double)of->io_ns : 0);
    add_number(io, "queue_depth_mean", of->io_ns > 0, of->io_ns ? (double)of->latency_ns / (double)of->io_ns : 0);
    add_number(io, "queue_depth_max", true, (double)most->deepest);
    add_seconds(io, "latency_mean_seconds", of->latency_ns, (double)of->requests);
    add_seconds(io, "latency_max_seconds", most->longest_ns, 1);
}

static cJSON *collective_object(const struct analysis_section *section, const struct totals *sum, int kind,
                                double parts)
{
    const struct collective_totals *of = &sum->traffic[kind];
    const struct run_traffic *planned = &section->planned[kind];
    cJSON *out = cJSON_CreateObject();
    add_text(out, "kind", traffic_name((enum traffic)kind));
    add_number(out, "count", true, (double)of->count / parts);
    add_number(out, "bytes_per_step", true, (double)of->bytes / parts);
    add_number(out, "sent_bytes_per_step", true, (double)of->sent_bytes / parts);
    add_number(out, "planned_sent_bytes_per_step", planned->ranks > 0,
               planned->ranks ? (double)planned->sent_bytes / planned->ranks : 0);
    add_seconds(out, "seconds_per_step", of->busy_ns, parts);
    add_seconds(out, "exposed_seconds_per_step", of->exposed_ns, parts);
    add_seconds(out, "peers_seconds_per_step", of->peers_ns, parts);
    add_seconds(out, "paced_seconds_per_step", of->paced_ns, parts);
    if (of->requests) add_io(out, of, &sum->most[kind], parts);
    add_number(out, "algbw_bytes_per_second", of->algbw > 0, of->algbw);
    add_number(out, "busbw_bytes_per_second", of->busbw > 0, of->busbw);
    return out;
}

static void add_collectives(cJSON *out, const struct analysis_section *section, const struct totals *sum, double parts)
{
    cJSON *list = cJSON_AddArrayToObject(out, "collectives");
    for (int kind = 0; kind < TRAFFIC_KINDS; kind++)
        if (sum->traffic[kind].count) cJSON_AddItemToArray(list, collective_object(section, sum, kind, parts));
    add_number(out, "theory_bytes_per_step", section->theory_bytes > 0, (double)section->theory_bytes);
}

static void add_prefetch(cJSON *out, const struct totals *sum, double parts)
{
    const struct prefetch_totals *of = &sum->prefetch;
    cJSON *prefetch = cJSON_AddObjectToObject(out, "prefetch");
    add_number(prefetch, "gathers", true, (double)of->gathers / parts);
    add_number(prefetch, "prefetched", true, (double)of->prefetched / parts);
    add_number(prefetch, "early", true, (double)of->early_count / parts);
    add_number(prefetch, "early_seconds", of->early_count > 0,
               of->early_count ? (double)of->early_ns / (double)of->early_count * 1e-9 : 0);
    add_seconds(prefetch, "seconds_per_step", of->busy_ns, parts);
    add_number(prefetch, "stalls", true, (double)of->stalls / parts);
    add_seconds(prefetch, "stalled_seconds_per_step", of->stalled_ns, parts);
    add_number(prefetch, "hidden_share", of->busy_ns > 0, prefetch_hidden_share(of));
}

static void add_memory(cJSON *out, const struct analysis_section *section)
{
    cJSON *list = cJSON_AddArrayToObject(out, "memory");
    for (int rank = 0; rank < section->ranks; rank++)
        for (int tier = 0; tier < TIERS; tier++) {
            const struct analysis_peak *peak = &section->peak[rank][tier];
            if (!peak->instant.known) continue;
            cJSON *item = cJSON_CreateObject();
            add_number(item, "rank", true, rank);
            add_text(item, "tier", tier_name((enum tier)tier));
            add_number(item, "peak_bytes", true, (double)peak->instant.live_bytes);
            add_number(item, "predicted_peak_bytes", section->tier[tier].known, (double)section->tier[tier].peak_bytes);
            add_number(item, "step", true, peak->step);
            cJSON *tenants = cJSON_AddObjectToObject(item, "at_peak_bytes");
            for (int category = 0; category < CATEGORIES; category++)
                if (peak->instant.held_bytes[category])
                    add_number(tenants, category_name((enum category)category), true,
                               (double)peak->instant.held_bytes[category]);
            cJSON_AddItemToArray(list, item);
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
    add_number(object, "reduce_bucket_size", true, (double)knobs->reduce_bucket_elems);
    add_number(object, "allgather_bucket_size", true, (double)knobs->allgather_bucket_elems);
    cJSON_AddBoolToObject(object, "overlap_comm", knobs->overlap_comm);
    add_number(object, "stage3_prefetch_bucket_size", true, (double)knobs->prefetch_bucket_elems);
    add_number(object, "stage3_max_live_parameters", true, (double)knobs->max_live_parameters);
    add_number(object, "stage3_max_reuse_distance", true, (double)knobs->max_reuse_distance);
    add_number(object, "stage3_param_persistence_threshold", true, (double)knobs->param_persistence_threshold);
}

static cJSON *section_object(const struct analysis_section *section)
{
    struct totals sum;
    double parts = analysis_sum(&sum, section, -1);
    cJSON *out = cJSON_CreateObject();
    add_number(out, "stage", true, section->stage);
    add_number(out, "schedule", true, section->schedule);
    add_number(out, "ranks", true, section->ranks);
    add_number(out, "first_step", true, section->first_step);
    add_number(out, "last_step", true, section->last_step);
    add_number(out, "steps", true, (double)section->steps);
    add_number(out, "skipped_steps", true, (double)section->skipped);
    add_number(out, "timed_steps", true, (double)section->timed);
    add_knobs(out, section);
    add_number(out, "seconds_per_step", section->steps > 0,
               section->steps ? (double)section->total_ns / (double)section->steps * 1e-9 : 0);
    add_number(out, "tokens_per_second", section->total_ns > 0,
               section->total_ns ? (double)section->tokens * 1e9 / (double)section->total_ns : 0);
    add_number(out, "first_loss", section->steps > 0, (double)section->first_loss);
    add_number(out, "last_loss", section->steps > 0, (double)section->last_loss);
    if (parts > 0) {
        add_temporal(out, section, &sum, parts);
        add_stalls(out, &sum, parts);
        add_seconds(out, "compute_done_seconds_per_step", sum.done_ns, parts);
        add_lane_stalls(out, &sum, parts);
        add_collectives(out, section, &sum, parts);
        add_prefetch(out, &sum, parts);
    }
    add_memory(out, section);
    return out;
}

char *analysis_json(const struct analysis *analysis)
{
    const struct run_model *model = analysis->model;
    cJSON *out = cJSON_CreateObject();
    add_number(out, "version", true, 1);
    add_text(out, "trace", analysis->path);
    add_text(out, "outcome", model->ended ? run_outcome_name(model->outcome) : NULL);
    add_text(out, "defect", analysis->defect);
    add_number(out, "lost_records", true, (double)model->lost_records);
    cJSON *shape = cJSON_AddObjectToObject(out, "model");
    add_text(shape, "name", model->header.model_name);
    add_number(shape, "parameters", model->header.parameters >= 0, (double)model->header.parameters);
    add_number(out, "ranks", true, model->ranks);
    cJSON *list = cJSON_AddArrayToObject(out, "sections");
    for (int i = 0; i < analysis->section_count; i++)
        cJSON_AddItemToArray(list, section_object(&analysis->sections[i]));
    cJSON_AddItemToObject(out, "why", analysis_why_object(analysis, TIER_DEVICE));
    cJSON_AddItemToObject(out, "why_host", analysis_why_object(analysis, TIER_HOST));
    cJSON_AddItemToObject(out, "why_nvme", analysis_why_object(analysis, TIER_NVME));
    char *text = printable_json(cJSON_Print(out));
    cJSON_Delete(out);
    return text;
}
