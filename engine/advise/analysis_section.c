/* The figures of a section: put once, for JSON (names are a promise: docs/JSON.md), from which the page is printed too
 * (analysis_print.c), and, where they have a label, for differences. Times and, like them, bytes and counts are of a mean step; "mean"
 * is over all ranks. Unknown is null. */
#include <math.h>

#include "engine/advise/analysis.h"
#include "engine/base/json.h"

/* Either may be NULL: no name in JSON, no label. */
static void figures_put(struct figures *figures, const char *name, const char *label, enum figure_unit unit, bool known,
                        double value)
{
    if (name && figures->json) json_number(figures->json, name, known, unit == FIGURE_TIME ? value * 1e-9 : value);
    if (!label || figures->count == FIGURES_MAX) return;
    struct figure *figure = &figures->at[figures->count++];
    *figure = (struct figure){.unit = unit, .source = figures->source, .known = known, .value = value};
    snprintf(figure->label, sizeof figure->label, "%s%s%s", figures->of ? figures->of : "", figures->of ? ": " : "",
             label);
}

/* Sums over `parts` ranks and steps; 0: nothing is known, and JSON leaves them out. */
struct mean {
    struct figures *figures;
    const struct analysis_section *section;
    const struct totals *sum;
    double parts;
};

static void put_mean(const struct mean *mean, const char *name, const char *label, enum figure_unit unit, uint64_t sum)
{
    figures_put(mean->figures, name, label, unit, mean->parts > 0, (double)sum / mean->parts);
}

static void put_time(const struct mean *mean, const char *name, const char *label, uint64_t ns)
{
    put_mean(mean, name, label, FIGURE_TIME, ns);
}

/* ---- the parts of a section ---- */

static void put_temporal(const struct mean *mean)
{
    const struct temporal *of = &mean->sum->temporal;
    const uint64_t exposed_ns = of->communication_ns - of->overlapped_ns;
    figures_put(mean->figures, "rank", NULL, FIGURE_COUNT, mean->sum->rank >= 0, mean->sum->rank);
    put_time(mean, "window_seconds", NULL, of->window_ns);
    put_time(mean, "compute_seconds", "compute", of->compute_ns);
    put_time(mean, "communication_seconds", "communication", of->communication_ns);
    put_time(mean, NULL, "exposed", exposed_ns);
    put_time(mean, "overlapped_seconds", NULL, of->overlapped_ns);
    put_time(mean, "non_compute_seconds", NULL, of->non_compute_ns);
    put_time(mean, "idle_seconds", "idle", of->idle_ns);
    put_time(mean, "exposed_seconds", NULL, exposed_ns);
    figures_put(mean->figures, "overlap", "overlap", FIGURE_SHARE, of->communication_ns > 0,
                (double)of->overlapped_ns / (double)of->communication_ns);
    for (int phase = 0; phase < PHASES; phase++) {
        char name[32];
        snprintf(name, sizeof name, "%s_seconds", phase_name((enum phase)phase));
        put_time(mean, name, NULL, mean->sum->phase_ns[phase]);
    }
}

/* Differences, which have no JSON, are of the mean only. */
static void put_ranks(const struct mean *mean, cJSON *out)
{
    cJSON *list = cJSON_AddArrayToObject(out, "temporal");
    for (int rank = 0; list && rank < mean->section->ranks; rank++) {
        struct totals sum;
        const struct mean of = {mean->figures, mean->section, &sum, analysis_sum(&sum, mean->section, rank)};
        mean->figures->json = json_put(json_item(list), TRUTH(".there", analysis_has_rank(mean->section, rank)));
        put_temporal(&of);
    }
    mean->figures->json = cJSON_AddObjectToObject(out, "mean");
    put_temporal(mean);
}

static void put_stalls(const struct mean *mean, cJSON *list)
{
    mean->figures->of = "waited";
    for (enum stall why = STALL_NONE + 1; why < STALLS; why++) {
        mean->figures->json = json_item(list);
        json_put(mean->figures->json, TEXT("cause", stall_table[why].name),
                 TEXT(".letter", ((char[2]){stall_table[why].letter})), TEXT(".help", stall_table[why].help),
                 TRUTH(".inside", why == STALL_PEERS));
        put_mean(mean, "count", NULL, FIGURE_COUNT, mean->sum->stall_count[why]);
        put_time(mean, "seconds_per_step", stall_table[why].name, mean->sum->stall_ns[why]);
    }
    mean->figures->of = NULL;
}

/* For text only: the time in which compute stood still, and what of it no row says. */
static void put_still(const struct mean *mean)
{
    const struct totals *sum = mean->sum;
    const uint64_t still_ns = sum->temporal.window_ns - sum->temporal.compute_ns;
    uint64_t said_ns = sum->done_ns;
    for (enum stall why = 0; why < STALLS; why++)
        if (why != STALL_PEERS) said_ns += sum->stall_ns[why];
    put_time(mean, ".still", NULL, still_ns);
    put_time(mean, ".rest", NULL, still_ns > said_ns ? still_ns - said_ns : 0);
}

static void put_lane_stalls(const struct mean *mean, cJSON *list)
{
    for (enum lane lane = LANE_D2H; lane < LANES; lane++)
        for (enum stall why = STALL_NONE + 1; why < STALLS; why++) {
            if (!mean->sum->lane_stall_ns[lane][why]) continue;
            mean->figures->json = json_item(list);
            json_put(mean->figures->json, TEXT("lane", lane_name(lane)), TEXT("cause", stall_table[why].name),
                     TEXT(".letter", ((char[2]){stall_table[why].letter})), TEXT(".help", stall_table[why].help));
            put_time(mean, "seconds_per_step", NULL, mean->sum->lane_stall_ns[lane][why]);
        }
}

/* Of NVMe: how transfers went inside. */
static void put_io(const struct mean *mean, enum traffic kind)
{
    struct figures *figures = mean->figures;
    const struct collective_totals *of = &mean->sum->traffic[kind];
    const struct io_most *most = &mean->sum->most[kind];
    const double io_ns = (double)of->io_ns, latency_ns = (double)of->latency_ns;
    cJSON *outer = figures->json;
    figures->json = cJSON_AddObjectToObject(outer, "io");
    put_mean(mean, "requests_per_step", NULL, FIGURE_COUNT, of->requests);
    put_mean(mean, "bytes_per_step", NULL, FIGURE_BYTES, of->io_bytes);
    put_time(mean, "seconds_per_step", NULL, of->io_ns);
    figures_put(figures, "bytes_per_second", NULL, FIGURE_RATE, of->io_ns > 0, (double)of->io_bytes * 1e9 / io_ns);
    figures_put(figures, "queue_depth_mean", NULL, FIGURE_COUNT, of->io_ns > 0, latency_ns / io_ns);
    figures_put(figures, "queue_depth_max", NULL, FIGURE_COUNT, true, (double)most->deepest);
    figures_put(figures, "latency_mean_seconds", NULL, FIGURE_TIME, true, latency_ns / (double)of->requests);
    figures_put(figures, "latency_max_seconds", NULL, FIGURE_TIME, true, (double)most->longest_ns);
    figures->json = outer;
}

static void put_collective(const struct mean *mean, enum traffic kind)
{
    struct figures *figures = mean->figures;
    const struct collective_totals *of = &mean->sum->traffic[kind];
    const struct run_traffic *planned = &mean->section->planned[kind];
    figures->of = traffic_name(kind);
    json_text(figures->json, "kind", traffic_name(kind));
    put_mean(mean, "count", "count", FIGURE_COUNT, of->count);
    put_mean(mean, "bytes_per_step", "payload", FIGURE_BYTES, of->bytes);
    put_mean(mean, "sent_bytes_per_step", "sent", FIGURE_BYTES, of->sent_bytes);
    figures_put(figures, "planned_sent_bytes_per_step", NULL, FIGURE_BYTES, planned->ranks > 0,
                (double)planned->sent_bytes / planned->ranks);
    put_time(mean, "seconds_per_step", "busy", of->busy_ns);
    put_time(mean, "exposed_seconds_per_step", "exposed", of->exposed_ns);
    put_time(mean, "peers_seconds_per_step", NULL, of->peers_ns);
    put_time(mean, "paced_seconds_per_step", NULL, of->paced_ns);
    if (of->requests) put_io(mean, kind);
    figures_put(figures, "algbw_bytes_per_second", NULL, FIGURE_RATE, of->bytes && of->busy_ns,
                per_second(of->bytes, of->busy_ns));
    figures_put(figures, "busbw_bytes_per_second", "bus MB/s", FIGURE_RATE, of->bus_bytes && of->busy_ns,
                per_second(of->bus_bytes, of->busy_ns));
    figures->of = NULL;
}

static void put_prefetch(const struct mean *mean)
{
    const struct prefetch_totals *of = &mean->sum->prefetch;
    put_mean(mean, "gathers", "gathers", FIGURE_COUNT, of->gathers);
    put_mean(mean, "prefetched", "gathers ahead of need", FIGURE_COUNT, of->prefetched);
    put_mean(mean, "early", NULL, FIGURE_COUNT, of->early_count);
    figures_put(mean->figures, "early_seconds", NULL, FIGURE_TIME, of->early_count > 0,
                (double)of->early_ns / (double)of->early_count);
    put_time(mean, "seconds_per_step", NULL, of->busy_ns);
    put_mean(mean, "stalls", NULL, FIGURE_COUNT, of->stalls);
    put_time(mean, "stalled_seconds_per_step", NULL, of->stalled_ns);
    figures_put(mean->figures, "hidden_share", "gathers hidden", FIGURE_SHARE, of->busy_ns > 0,
                prefetch_hidden_share(of));
}

/* Differences have the gathers before the traffic, JSON behind it. What was planned and did not come is for text only. */
static void put_traffic(const struct mean *mean, cJSON *out)
{
    const double theory_bytes = (double)mean->section->theory_bytes;
    uint64_t sent_bytes = 0;
    bool io = false;
    cJSON *list = cJSON_AddArrayToObject(out, "collectives");
    json_number(out, "theory_bytes_per_step", theory_bytes > 0, theory_bytes);
    mean->figures->json = cJSON_AddObjectToObject(out, "prefetch");
    put_prefetch(mean);
    for (enum traffic kind = 0; kind < TRAFFIC_KINDS; kind++) {
        const struct collective_totals *of = &mean->sum->traffic[kind];
        mean->figures->json = of->count || mean->section->planned[kind].count ? json_item(list) : NULL;
        put_collective(mean, kind);
        if (!of->count) json_put(mean->figures->json, TRUTH(".", true));
        if (kind <= TRAFFIC_ALL_TO_ALL) sent_bytes += of->sent_bytes;
        io |= of->io_ns > 0;
    }
    json_put(out, NUMBER(".sent_bytes", (double)sent_bytes / mean->parts), TRUTH(".io", io));
}

/* ---- memory ---- */

static void add_memory(cJSON *out, const struct analysis_section *section)
{
    cJSON *list = cJSON_AddArrayToObject(out, "memory");
    for (int rank = 0; rank < section->ranks; rank++)
        for (enum tier tier = 0; tier < TIERS; tier++) {
            const struct analysis_peak *peak = &section->peak[rank][tier];
            if (!peak->instant.known) continue;
            cJSON *item = json_item(list);
            json_put(item, NUMBER("rank", rank), TEXT_IF("tier", tier_name(tier)),
                     NUMBER("peak_bytes", peak->instant.live_bytes),
                     NUMBER_IF("predicted_peak_bytes", section->tier[tier].known, section->tier[tier].peak_bytes),
                     NUMBER("step", peak->step));
            cJSON *tenants = cJSON_AddObjectToObject(item, "at_peak_bytes");
            for (enum category c = 0; c < CATEGORIES; c++)
                if (peak->instant.held_bytes[c])
                    json_put(tenants, NUMBER(category_name(c), peak->instant.held_bytes[c]));
        }
}

static const struct run_instant *fullest_of(const struct analysis_section *section, enum tier tier)
{
    static const struct run_instant none;
    const struct run_instant *fullest = &none;
    for (int rank = 0; rank < section->ranks; rank++) {
        const struct run_instant *peak = &section->peak[rank][tier].instant;
        if (peak->known && (!fullest->known || peak->live_bytes > fullest->live_bytes)) fullest = peak;
    }
    return fullest;
}

/* The same by tier, with what the fullest rank holds: for text only. */
static void add_tier(cJSON *list, const struct analysis_section *section, enum tier tier)
{
    const struct run_instant *fullest = fullest_of(section, tier);
    if (!fullest->known) return;
    cJSON *object = json_put(json_item(list), TEXT("tier", tier_name(tier)), NUMBER("live", fullest->live_bytes),
                             NUMBER_IF("planned", section->tier[tier].known, section->tier[tier].peak_bytes));
    cJSON *ranks = cJSON_AddArrayToObject(object, "ranks"), *held = cJSON_AddArrayToObject(object, "held");
    for (int rank = 0; rank < section->ranks; rank++) {
        const struct analysis_peak *peak = &section->peak[rank][tier];
        if (peak->instant.known)
            json_put(json_item(ranks), NUMBER("rank", rank), NUMBER("bytes", peak->instant.live_bytes), NUMBER("step", peak->step));
    }
    for (enum category c = 0; c < CATEGORIES; c++)
        if (fullest->held_bytes[c])
            json_put(json_item(held), TEXT("letter", ((char[2]){category_letter(c)})), TEXT("name", category_name(c)),
                     NUMBER("bytes", fullest->held_bytes[c]));
}

/* Only for differences: of the fullest rank. */
static void put_fullest(struct figures *figures, const struct analysis_section *section, enum tier tier)
{
    const struct run_instant *fullest = fullest_of(section, tier);
    char label[48];
    figures->of = tier_name(tier);
    figures->source = FIGURE_PLANNED;
    figures_put(figures, NULL, "planned peak", FIGURE_BYTES, section->tier[tier].known,
                (double)section->tier[tier].peak_bytes);
    figures->source = FIGURE_MEASURED;
    figures_put(figures, NULL, "peak", FIGURE_BYTES, fullest->known, (double)fullest->live_bytes);
    for (enum category c = 0; c < CATEGORIES; c++) {
        snprintf(label, sizeof label, "%s at peak", category_name(c));
        figures_put(figures, NULL, label, FIGURE_BYTES, fullest->known, (double)fullest->held_bytes[c]);
    }
    figures->of = NULL;
    figures->source = FIGURE_COUNTED;
}

/* ---- a section ---- */

static void add_knobs(cJSON *out, const struct analysis_section *section)
{
    const struct config_zero *knobs = &section->knobs;
    if (!section->has_knobs) cJSON_AddNullToObject(out, "knobs");
    else
        json_put(cJSON_AddObjectToObject(out, "knobs"), NUMBER("reduce_bucket_size", knobs->reduce_bucket_elems),
                 NUMBER("allgather_bucket_size", knobs->allgather_bucket_elems), TRUTH("overlap_comm", knobs->overlap_comm),
                 NUMBER("stage3_prefetch_bucket_size", knobs->prefetch_bucket_elems),
                 NUMBER("stage3_max_live_parameters", knobs->max_live_parameters),
                 NUMBER("stage3_max_reuse_distance", knobs->max_reuse_distance),
                 NUMBER("stage3_param_persistence_threshold", knobs->param_persistence_threshold));
}

static void put_steps(struct figures *figures, const struct analysis_section *section)
{
    const bool there = section->ranks > 0, any = section->steps > 0;
    const double steps = (double)section->steps;
    figures_put(figures, "stage", "ZeRO stage", FIGURE_STAGE, there && section->stage != RUN_UNKNOWN, section->stage);
    json_put(figures->json, NUMBER("schedule", section->schedule));
    figures_put(figures, "ranks", "ranks", FIGURE_COUNT, there, section->ranks);
    json_put(figures->json, TRUTH(".many", section->ranks > 1));
    json_put(figures->json, NUMBER("first_step", section->first_step), NUMBER("last_step", section->last_step),
             TRUTH(".several", section->first_step != section->last_step), TRUTH(".gaps", section->timed < section->steps));
    figures_put(figures, "steps", "steps", FIGURE_COUNT, there, steps);
    json_put(figures->json, NUMBER("skipped_steps", section->skipped), NUMBER("timed_steps", section->timed));
    add_knobs(figures->json, section);
    figures_put(figures, NULL, "tokens a step", FIGURE_COUNT, any, (double)section->tokens / steps);
    figures_put(figures, "seconds_per_step", "step", FIGURE_TIME, any, (double)section->total_ns / steps);
    figures_put(figures, "tokens_per_second", NULL, FIGURE_COUNT, section->total_ns > 0,
                (double)section->tokens * 1e9 / (double)section->total_ns);
    figures_put(figures, "first_loss", NULL, FIGURE_LOSS, any && !isnan(section->first_loss),
                (double)section->first_loss);
    figures_put(figures, "last_loss", NULL, FIGURE_LOSS, any && !isnan(section->last_loss), (double)section->last_loss);
}

void analysis_put_section(struct figures *figures, const struct analysis_section *section, uint32_t loss_step,
                          float loss)
{
    struct totals sum;
    const struct mean mean = {figures, section, &sum, analysis_sum(&sum, section, -1)};
    cJSON *out = figures->json, *known = mean.parts > 0 ? out : NULL;
    char label[32];
    put_steps(figures, section);
    snprintf(label, sizeof label, "loss of step %u", loss_step);
    if (loss_step) figures_put(figures, NULL, label, FIGURE_LOSS, true, (double)loss);
    put_ranks(&mean, known);
    put_stalls(&mean, cJSON_AddArrayToObject(known, "stalls"));
    figures->json = known;
    put_time(&mean, "compute_done_seconds_per_step", NULL, sum.done_ns);
    put_still(&mean);
    put_lane_stalls(&mean, cJSON_AddArrayToObject(known, "lane_stalls"));
    put_traffic(&mean, known);
    add_memory(out, section);
    cJSON *tiers = cJSON_AddArrayToObject(out, ".tiers");
    for (enum tier tier = 0; tier < TIERS; tier++) {
        add_tier(tiers, section, tier);
        put_fullest(figures, section, tier);
    }
    figures->json = out;
}
