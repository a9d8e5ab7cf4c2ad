/* The JSON report. Copies figures from struct run_model; unknown ones become null. */
#include "engine/advise/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/json.h"
#include "engine/config/hjson.h"
#include "engine/observe/flows.h"

static double seconds(uint64_t ns)
{
    return (double)ns * 1e-9;
}

static void add_header(cJSON *report, const struct run_model *model)
{
    const struct run_header *header = &model->header;
    cJSON *config = header->config_json ? hjson_exact(header->config_json) : NULL;
    cJSON_AddItemToObject(report, "config", config ? config : cJSON_CreateNull());
    json_put(cJSON_AddObjectToObject(report, "model"), TEXT_IF("name", header->model_name),
             NUMBER_IF("parameters", header->parameters >= 0, header->parameters));
    json_put(
        report, NUMBER_IF("ranks", model->ranks > 0, model->ranks),
        NUMBER_IF("threads_per_rank", header->known && header->threads_per_rank >= 0, header->threads_per_rank),
        TEXT_IF("backend", header->backend), TEXT_IF("isa", header->isa), TEXT_IF("precision", header->precision),
        NUMBER_IF("accumulation_steps", header->known && header->accumulation_steps >= 0, header->accumulation_steps));
}

/* A run that goes on with other ranks has parts; "ranks", "memory", "peak", "traffic" and processes are of the last. */
static void add_parts(cJSON *report, const struct run_model *model)
{
    cJSON *list = cJSON_AddArrayToObject(report, "parts");
    for (int i = 0; i < model->part_count; i++) {
        const struct run_part *part = &model->parts[i];
        json_put(json_item(list), NUMBER("first_step", part->steps_done + 1),
                 NUMBER_IF("ranks", part->ranks >= 0, part->ranks));
    }
}

/* Means over the ranks whose operations were all seen. What a schedule does not have (NVMe, say) is known to take no time
 * wherever the split is known. */
static void add_seconds(cJSON *object, const struct run_step *step)
{
    bool known = step->timed > 0;
    double ranks = known ? step->timed : 1;
    cJSON *out = cJSON_AddObjectToObject(object, "seconds");
    cJSON_AddNumberToObject(out, "total", seconds(step->total_ns));
    for (int phase = 0; phase < PHASES; phase++)
        json_number(out, phase_name((enum phase)phase), known, seconds(step->split.phase_ns[phase]) / ranks);
    json_put(
        out, NUMBER_IF("communication_exposed", known, seconds(step->split.exposed_ns) / ranks),
        NUMBER_IF("offload_exposed", known,
                  seconds(step->split.exposed_by_ns[TRAFFIC_D2H] + step->split.exposed_by_ns[TRAFFIC_H2D]) / ranks),
        NUMBER_IF("host_update", known, seconds(step->split.host_ns) / ranks),
        NUMBER_IF("host_exposed", known, seconds(step->split.host_exposed_ns) / ranks),
        NUMBER_IF("io_exposed", known, seconds(step->split.io_exposed_ns) / ranks),
        NUMBER("paused", seconds(step->paused_ns)));
}

/* An array with one element per rank of the step. */
static void add_sent(cJSON *object, const struct run_step *step)
{
    if (!step->sent_bytes && step->ranks != 1) { /* one rank alone sends nothing, and that is known */
        cJSON_AddNullToObject(object, "sent_bytes");
        return;
    }
    cJSON *sent = cJSON_AddArrayToObject(object, "sent_bytes");
    for (int rank = 0; rank < step->ranks; rank++)
        cJSON_AddItemToArray(sent, cJSON_CreateNumber(step->sent_bytes ? (double)step->sent_bytes[rank] : 0));
}

static cJSON *step_object(const struct run_step *step)
{
    cJSON *out = cJSON_CreateObject();
    uint32_t bits;
    char hex[12];
    memcpy(&bits, &step->loss, sizeof bits);
    snprintf(hex, sizeof hex, "%08x", bits);
    json_put(out, NUMBER("step", step->step), NUMBER_IF("stage", step->stage != RUN_UNKNOWN, step->stage),
             NUMBER("loss", step->loss), TEXT("loss_bits", hex), NUMBER("grad_norm", step->grad_norm),
             NUMBER("learning_rate", step->learning_rate), NUMBER("loss_scale", step->loss_scale),
             TRUTH("skipped", step->skipped), NUMBER("tokens", step->tokens), NUMBER("micro_steps", step->micro_steps));
    add_seconds(out, step);
    add_sent(out, step);
    return out;
}

static void add_hash(cJSON *report, const struct run_model *model)
{
    char hex[20];
    snprintf(hex, sizeof hex, "%016llx", (unsigned long long)model->state_hash.hash);
    json_text(report, "state_hash", model->state_hash.known ? hex : NULL);
}

static void add_memory(cJSON *report, const struct run_model *model)
{
    static const struct run_predicted unknown;
    const struct run_schedule *plan = run_training(model);
    cJSON *list = cJSON_AddArrayToObject(report, "memory");
    for (int rank = 0; rank < model->ranks; rank++)
        for (int tier = 0; tier < TIERS; tier++)
            for (int category = 0; category < CATEGORIES; category++) {
                const struct run_memory *memory = &model->rank[rank].tier[tier].category[category];
                if (!memory->known) continue;
                const struct run_predicted *planned = plan ? &plan->category[tier][category] : &unknown;
                json_put(json_item(list), NUMBER("rank", rank), TEXT_IF("tier", tier_name(tier)),
                         TEXT_IF("category", category_name(category)), NUMBER("live_bytes", memory->live_bytes),
                         NUMBER("reserved_bytes", memory->reserved_bytes), NUMBER("peak_bytes", memory->peak_bytes),
                         NUMBER_IF("at_peak_bytes", memory->has_at_peak, memory->at_peak_bytes),
                         NUMBER_IF("predicted_peak_bytes", planned->known, planned->peak_bytes));
            }
}

static void add_peaks(cJSON *report, const struct run_model *model)
{
    cJSON *list = cJSON_AddArrayToObject(report, "peak");
    for (int rank = 0; rank < model->ranks; rank++)
        for (int tier = 0; tier < TIERS; tier++) {
            const struct run_tier *from = &model->rank[rank].tier[tier];
            uint64_t predicted = 0;
            if (!from->has_total) continue;
            const bool known = run_predicted_peak(model, tier, &predicted);
            json_put(json_item(list), NUMBER("rank", rank), TEXT_IF("tier", tier_name(tier)),
                     NUMBER("bytes", from->peak_bytes), NUMBER_IF("predicted_bytes", known, predicted),
                     NUMBER("reserved_bytes", from->reserved_bytes),
                     NUMBER_IF("budget_bytes", from->has_budget && from->budget_bytes, from->budget_bytes));
        }
}

/* Each GPU once: what lies there in no tier is one figure for all ranks that share it. */
static void add_gpus(cJSON *report, const struct run_model *model)
{
    cJSON *list = cJSON_AddArrayToObject(report, "gpus");
    for (int rank = 0; rank < model->ranks; rank++) {
        const struct run_gpu *gpu = run_gpu_led_by(model, rank);
        const struct run_outside *outside = &model->rank[rank].outside;
        const struct run_sensors *sensors = &model->rank[rank].sensors;
        char slowed_by[160];
        if (!gpu) continue;
        run_slowed_text(slowed_by, sizeof slowed_by, sensors);
        json_put(json_item(list), NUMBER("gpu", gpu->gpu), TEXT_IF("name", gpu->name), NUMBER("first_rank", rank),
                 NUMBER("ranks", gpu->ranks), NUMBER("total_bytes", gpu->total_bytes),
                 NUMBER_IF("outside_bytes", outside->known, outside->bytes),
                 NUMBER_IF("outside_peak_bytes", outside->known, outside->most_bytes),
                 NUMBER_IF("free_bytes", outside->known, outside->free_bytes),
                 NUMBER_IF("power_w", sensors->known && sensors->power_mw != UINT32_MAX, sensors->power_mw / 1e3),
                 NUMBER_IF("clock_mhz", sensors->known && sensors->clock_mhz != UINT32_MAX, sensors->clock_mhz),
                 TEXT_IF("slowed_by", slowed_by));
    }
}

/* Errors are against what was quantized; relative_error: their root mean square over its own. */
static void add_quantized(cJSON *report, const struct run_model *model)
{
    static const char *const what[] = {"parameters", "gradients"};
    cJSON *list = cJSON_AddArrayToObject(report, "quantization");
    for (int u = 0; u < model->header.unit_count; u++)
        for (int g = 0; g < 2; g++) {
            const struct run_quantized *from = &model->header.units[u].quantized[g];
            if (!from->step) continue;
            json_put(json_item(list), TEXT_IF("unit", model->header.units[u].name), TEXT_IF("what", what[g]),
                     NUMBER("step", from->step), NUMBER("largest_error", from->largest),
                     NUMBER("rms_error", sqrt(from->squares / (double)from->elems)),
                     NUMBER_IF("relative_error", from->of_squares > 0, sqrt(from->squares / from->of_squares)),
                     NUMBER("not_finite", from->not_finite));
        }
}

static struct link_use link_use_of(const struct run_model *model, int kind, int link)
{
    return run_link_use(model->traffic_total, kind, link, (double)model->ranks * model->traffic_steps,
                        model->split_total.exposed_by_ns, (double)model->split_count);
}

/* The operations of a kind are timed once, with its first link; each link is timed by its own use. */
static void add_moved(cJSON *out, const struct run_model *model, int kind, int link)
{
    const struct run_traffic *from = &model->traffic_total[kind][link];
    const struct link_use use = link_use_of(model, kind, link);
    const bool first = link != LINK_INTER, exposed = first && model->split_count > 0;
    json_put(
        out, TEXT_IF("kind", traffic_name(kind)), TEXT_IF("link", link_name(link)),
        NUMBER("count", (double)from->count / model->ranks), NUMBER("sent_bytes_per_step", use.sent_bytes),
        NUMBER_IF("seconds_per_step", first, seconds(from->busy_ns) / ((double)model->ranks * model->traffic_steps)),
        NUMBER_IF("exposed_seconds_per_step", exposed,
                  exposed ? seconds(model->split_total.exposed_by_ns[kind]) / (double)model->split_count : 0),
        NUMBER_IF("link_seconds_per_step", use.busy_ns > 0, use.busy_ns * 1e-9),
        NUMBER_IF("link_exposed_seconds_per_step", use.exposed_ns >= 0, use.exposed_ns * 1e-9));
}

/* All kinds together, by class of link. */
static void add_links(cJSON *report, const struct run_model *model)
{
    cJSON *list = cJSON_AddArrayToObject(report, "links");
    for (int link = 0; link < LINKS; link++) {
        const struct link_use use = link_use_of(model, TRAFFIC_KINDS, link);
        if (use.ranks)
            json_put(json_item(list), TEXT_IF("link", link_name(link)), NUMBER("sent_bytes_per_step", use.sent_bytes),
                     NUMBER_IF("busy_seconds_per_step", use.busy_ns > 0, use.busy_ns * 1e-9),
                     NUMBER_IF("exposed_seconds_per_step", use.exposed_ns >= 0, use.exposed_ns * 1e-9));
    }
}

static void add_traffic(cJSON *report, const struct run_model *model)
{
    cJSON *list = cJSON_AddArrayToObject(report, "traffic");
    for (int kind = 0; kind < TRAFFIC_KINDS; kind++)
        for (int link = 0; link < LINKS; link++)
            if (model->traffic_total[kind][link].ranks) add_moved(json_item(list), model, kind, link);
}

/* Between tiers, each rank and direction: of the whole steps of the last part. */
static void add_flow(cJSON *list, const struct run_model *model, int rank, enum flow flow)
{
    static const char *const limits[] = {NULL, "paced", "best step"};
    const struct flow_figures figures = flow_figures_of(model, rank, flow, true);
    cJSON *out = figures.known ? json_item(list) : NULL;
    json_put(out, NUMBER("rank", rank), TEXT_IF("kind", traffic_name(flow_traffic(flow))),
             NUMBER("bytes_per_step", figures.bytes),
             NUMBER_IF("bytes_per_second", figures.bytes_per_s > 0, figures.bytes_per_s),
             NUMBER("exposed_seconds_per_step", figures.exposed_ns * 1e-9),
             NUMBER_IF("limit_bytes_per_second", figures.limited_by != FLOW_LIMIT_UNKNOWN, figures.limit_bytes_per_s),
             TEXT_IF("limit_from", limits[figures.limited_by]),
             NUMBER_IF("requests_per_step", figures.has_io, figures.requests),
             NUMBER_IF("queue_depth_mean", figures.has_io, figures.depth),
             NUMBER_IF("queue_depth_max", figures.has_io, figures.deepest),
             NUMBER_IF("latency_mean_seconds", figures.has_io, figures.latency_ns * 1e-9),
             NUMBER_IF("latency_max_seconds", figures.has_io, seconds(figures.longest_ns)));
    if (figures.has_io) cJSON_AddBoolToObject(out, "direct", !figures.buffered);
    else cJSON_AddNullToObject(out, "direct");
}

static void add_flows(cJSON *report, const struct run_model *model)
{
    cJSON *list = cJSON_AddArrayToObject(report, "flows");
    for (int rank = 0; rank < model->ranks; rank++)
        for (enum flow flow = 0; flow < FLOWS; flow++) add_flow(list, model, rank, flow);
}

static void add_events(cJSON *report, const struct run_model *model)
{
    cJSON *list = cJSON_AddArrayToObject(report, "events");
    for (int i = 0; i < model->notice_count; i++) {
        const struct run_notice *notice = &model->notices[i];
        cJSON *event = notice->json ? cJSON_Parse(notice->json) : NULL;
        if (!event) continue;
        cJSON *out = json_item(list);
        json_number(out, "step", notice->has_step, notice->step);
        cJSON_AddItemToObject(out, "kind", cJSON_DetachItemFromObjectCaseSensitive(event, "kind"));
        cJSON *detail = cJSON_DetachItemFromObjectCaseSensitive(event, "detail");
        cJSON_AddItemToObject(out, "detail", detail ? detail : cJSON_CreateObject());
        cJSON_Delete(event);
    }
}

static void add_processes(cJSON *report, const struct run_model *model)
{
    cJSON *list = cJSON_AddArrayToObject(report, "rss_peak_bytes");
    for (int rank = 0; rank < model->ranks; rank++)
        cJSON_AddItemToArray(list, model->rank[rank].process.known
                                       ? cJSON_CreateNumber((double)model->rank[rank].process.peak_rss_bytes)
                                       : cJSON_CreateNull());
}

void report_hosts(cJSON *report, const struct run_model *model)
{
    const struct trace_machine *machine = trace_machine(&model->machines, 0);
    cJSON *list = machine ? cJSON_AddArrayToObject(report, "hosts") : NULL;
    for (int m = 0; (machine = trace_machine(&model->machines, m)); m++)
        json_put(json_item(list), TEXT("name", machine->host), NUMBER("first_rank", machine->first_rank),
                 NUMBER("last_rank", machine->last_rank),
                 NUMBER_IF("clock_offset_seconds", machine->measured || !m, (double)machine->offset_ns / 1e9),
                 NUMBER_IF("clock_within_seconds", machine->measured || !m, (double)machine->off_ns / 1e9));
}

/* Proportional set size beside the allocator's own count, so that anybody can hold one against the other. */
static void add_marks(cJSON *report, const struct run_model *model)
{
    cJSON *list = cJSON_AddArrayToObject(report, "process_memory");
    for (int rank = 0; rank < model->ranks; rank++)
        for (int m = 0; m < model->rank[rank].marks; m++) {
            const struct run_mark *mark = &model->rank[rank].mark[m];
            json_put(json_item(list), NUMBER("rank", rank), NUMBER("step", mark->step),
                     NUMBER("rss_bytes", mark->rss_bytes), NUMBER("pss_bytes", mark->pss_bytes),
                     NUMBER("counted_live_bytes", mark->live_bytes),
                     NUMBER("counted_reserved_bytes", mark->reserved_bytes));
        }
}

static void add_screen(cJSON *report, const struct report_screen *screen)
{
    cJSON *out =
        screen->frames > 0 ? cJSON_AddObjectToObject(report, "screen") : cJSON_AddNullToObject(report, "screen");
    if (screen->frames <= 0) return;
    json_put(out, NUMBER("frames", screen->frames), NUMBER("bytes", screen->bytes),
             NUMBER("bytes_per_frame", (double)screen->bytes / (double)screen->frames));
}

/* All but the steps, whose place is an empty array. */
static char *report_without_steps(const struct run_model *model, const struct report_screen *screen, bool has_past)
{
    cJSON *report = cJSON_CreateObject();
    if (!report) return NULL;
    json_put(report, NUMBER("version", 1), TEXT_IF("outcome", model->ended ? run_outcome_name(model->outcome) : NULL),
             TEXT_IF("error", model->error));
    add_header(report, model);
    add_parts(report, model);
    cJSON_AddArrayToObject(report, "steps");
    json_put(report, NUMBER("steps_left_out", has_past ? 0 : model->steps_dropped), NUMBER("lost_records", model->lost_records));
    add_hash(report, model);
    add_memory(report, model);
    add_peaks(report, model);
    add_gpus(report, model);
    add_quantized(report, model);
    add_traffic(report, model);
    add_links(report, model);
    add_flows(report, model);
    add_events(report, model);
    add_processes(report, model);
    add_marks(report, model);
    report_hosts(report, model);
    json_put(report, NUMBER_IF("validation_loss", model->validation.known, model->validation.loss),
             NUMBER_IF("unigram_entropy", model->header.has_unigram_entropy, model->header.unigram_entropy),
             NUMBER_IF("tokens_per_second", model->time_seen_ns > 0, (double)model->tokens_seen / seconds(model->time_seen_ns)));
    add_screen(report, screen);
    return json_lines(report);
}

/* As cJSON_Print() prints it two levels down. */
static bool print_step(FILE *out, const struct run_step *step)
{
    cJSON *object = step_object(step);
    char *text = cJSON_Print(object);
    for (const char *at = text; at && *at; at++) {
        putc(*at, out);
        if (*at == '\n') fputs("\t\t", out);
    }
    cJSON_Delete(object);
    free(text);
    return text && !ferror(out);
}

bool report_step(FILE *out, const struct run_step *step)
{
    return !step->ended || (print_step(out, step) && fputs(", ", out) >= 0);
}

static bool copy_past(FILE *out, FILE *past)
{
    char bytes[1 << 16];
    size_t count;
    rewind(past);
    while ((count = fread(bytes, 1, sizeof bytes, past)) > 0) fwrite(bytes, 1, count, out);
    return !ferror(past) && !ferror(out);
}

static bool write_steps(FILE *out, const struct run_model *model, FILE *past)
{
    const char *between = "";
    bool all = !past || copy_past(out, past);
    for (int i = 0; all && i < model->step_count; i++) {
        if (!model->steps[i].ended) continue;
        fputs(between, out);
        all = print_step(out, &model->steps[i]);
        between = ", ";
    }
    return all;
}

bool report_write(FILE *out, const struct run_model *model, const struct report_screen *screen, FILE *past)
{
    static const char place[] = "\t\"steps\":\t[";
    char *text = report_without_steps(model, screen, past);
    const char *steps = text ? strstr(text, place) : NULL;
    if (!steps) return free(text), false;
    steps += strlen(place);
    fwrite(text, 1, (size_t)(steps - text), out);
    const bool all = write_steps(out, model, past) && fputs(steps, out) >= 0;
    free(text);
    return all;
}
