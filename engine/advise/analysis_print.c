/* An analysis as text, within 80 columns: for each schedule the time of a step, why compute stood still, what moved, how
 * gathers went, and memory. All figures are means over steps and ranks unless they say otherwise. */
#include <math.h>
#include <string.h>

#include "engine/advise/analysis.h"
#include "engine/advise/costs.h"
#include "engine/base/grouped.h"
#include "engine/base/words.h"

struct printer {
    FILE *out;
    const struct analysis_section *section;
    struct totals sum; /* over all ranks and steps */
    double parts;      /* ... so many of them */
    int parts_of_run;  /* more than one: it went on with other ranks */
};

static double ms(const struct printer *printer, uint64_t ns)
{
    return (double)ns / printer->parts / 1e6;
}

/* ---- the trace ---- */

/* ", 4, then 2, then 3 ranks": of each part. */
static void print_ranks(const struct run_model *model, FILE *out)
{
    for (int i = 0; i + 1 < model->part_count; i++) fprintf(out, "%s%d", i ? ", then " : ", ", model->parts[i].ranks);
    fprintf(out, "%s%d rank%s\n", model->part_count > 1 ? ", then " : ", ", model->ranks, plural(model->ranks));
}

static void print_head(const struct analysis *analysis, FILE *out)
{
    const struct run_model *model = analysis->model;
    const struct run_header *header = &model->header;
    char a[32], b[32];
    fprintf(out, "%s: %s", analysis->path, header->model_name[0] ? header->model_name : "unknown model");
    if (header->parameters >= 0) fprintf(out, ", %s parameters", grouped(a, header->parameters));
    if (header->precision[0]) fprintf(out, ", %s", header->precision);
    print_ranks(model, out);
    if (header->program[0])
        fprintf(out, "imported from %s; recognised: %s; bytes sent follow from each payload, as in a ring\n", header->program,
                header->recognised[0] ? header->recognised : "unknown");
    if (header->simulated)
        fprintf(out, "SIMULATED on %s: the first %d of %d ranks are recorded\n", header->isa, model->ranks,
                header->world);
    fprintf(out, "%s records over %.3f s; ", grouped(b, (int64_t)analysis->records),
            (double)(model->now_ns - model->first_ns) / 1e9);
    if (analysis->defect[0]) fprintf(out, "%s\n", analysis->defect);
    else fprintf(out, "the run ended: %s\n", run_outcome_name(model->outcome));
    const struct trace_machine *machine;
    char text[TRACE_MACHINE_TEXT_BYTES];
    for (int m = 0; (machine = trace_machine(&model->machines, m)); m++)
        fprintf(out, "%s\n", trace_machine_text(text, machine));
    if (model->lost_records) fprintf(out, "%s records were lost\n", grouped(a, (int64_t)model->lost_records));
}

static void print_section_head(const struct printer *printer)
{
    const struct analysis_section *section = printer->section;
    fprintf(printer->out, section->stage == RUN_UNKNOWN ? "\nZeRO stage n/a, " : "\nZeRO stage %d, ", section->stage);
    if (printer->parts_of_run > 1) fprintf(printer->out, "%d rank%s, ", section->ranks, plural(section->ranks));
    fprintf(printer->out, "step%s %u", section->first_step == section->last_step ? "" : "s", section->first_step);
    if (section->first_step != section->last_step) fprintf(printer->out, " to %u", section->last_step);
    if (section->steps && section->total_ns)
        fprintf(printer->out, section->tokens ? "\n  %.3f ms a step, %.0f tokens/s" : "\n  %.3f ms a step",
                (double)section->total_ns / (double)section->steps / 1e6,
                (double)section->tokens * 1e9 / (double)section->total_ns);
    if (section->steps && section->total_ns && !isnan(section->first_loss))
        fprintf(printer->out, ", loss %.4f to %.4f", (double)section->first_loss, (double)section->last_loss);
    fputc('\n', printer->out);
    if (section->has_knobs)
        fprintf(printer->out, "  reduce bucket %lld, prefetch bucket %lld, overlap_comm %s\n",
                (long long)section->knobs.reduce_bucket_elems, (long long)section->knobs.prefetch_bucket_elems,
                section->knobs.overlap_comm ? "true" : "false");
    if (section->skipped)
        fprintf(printer->out, "  %lld made no update and are not in these figures\n", (long long)section->skipped);
    if (section->timed < section->steps)
        fprintf(printer->out, "  of %lld steps %lld were recorded without loss: times and traffic are theirs\n",
                (long long)section->steps, (long long)section->timed);
}

/* ---- time ---- */

static void print_temporal_row(const struct printer *printer, const char *name, const struct temporal *of, double parts)
{
    struct printer row = *printer;
    row.parts = parts;
    fprintf(printer->out, "  %-8s %9.3f %5.1f %% %5.1f %% %5.1f %% %9.3f %6.1f %% %10.3f\n", name,
            ms(&row, of->window_ns), percent(of->compute_ns, of->window_ns), percent(of->non_compute_ns, of->window_ns),
            percent(of->idle_ns, of->window_ns), ms(&row, of->communication_ns),
            percent(of->overlapped_ns, of->communication_ns), ms(&row, of->communication_ns - of->overlapped_ns));
}

static void print_temporal(const struct printer *printer)
{
    fprintf(printer->out, "\n  time of a step, by HTA's definitions\n  %-8s %9s %7s %7s %7s %9s %8s %10s\n", "", "ms",
            "compute", "other", "idle", "comm. ms", "overlap", "exposed ms");
    for (int rank = 0; rank < printer->section->ranks; rank++) {
        char name[16];
        struct totals sum;
        if (!analysis_has_rank(printer->section, rank)) continue;
        double parts = analysis_sum(&sum, printer->section, rank);
        snprintf(name, sizeof name, "rank %d", rank);
        print_temporal_row(printer, name, &sum.temporal, parts);
    }
    if (printer->section->ranks > 1) print_temporal_row(printer, "mean", &printer->sum.temporal, printer->parts);
}

static void print_stall(const struct printer *printer, enum stall why)
{
    if (printer->sum.stall_count[why] == 0) return;
    const int column =
        fprintf(printer->out, "  %c %-12s %6.1f %9.3f %5.1f %%  ", stall_letter(why), stall_name(why),
                (double)printer->sum.stall_count[why] / printer->parts, ms(printer, printer->sum.stall_ns[why]),
                percent(printer->sum.stall_ns[why], printer->sum.temporal.window_ns));
    words_print(printer->out, column, column, stall_help(why));
}

static void print_still(const struct printer *printer, const char *name, uint64_t ns, const char *help)
{
    const int column = fprintf(printer->out, "    %-12s %6s %9.3f %5.1f %%  ", name, "", ms(printer, ns),
                               percent(ns, printer->sum.temporal.window_ns));
    words_print(printer->out, column, column, help);
}

/* So that the rows add up to the time in which compute stood still. */
static void print_rest(const struct printer *printer)
{
    const struct totals *sum = &printer->sum;
    const uint64_t still_ns = sum->temporal.window_ns - sum->temporal.compute_ns;
    uint64_t said_ns = sum->done_ns;
    for (int why = 0; why < STALLS; why++)
        if (why != STALL_PEERS) said_ns += sum->stall_ns[why];
    if (sum->done_ns) print_still(printer, "done", sum->done_ns, "it had no more to do, and other lanes had");
    if (still_ns > said_ns)
        print_still(printer, "the rest", still_ns - said_ns, "no wait recorded: from one operation to the next");
    print_still(printer, "all", still_ns, "of the step without compute");
}

static void print_stalls(const struct printer *printer)
{
    fprintf(printer->out, "\n  why compute stood still in a step\n  %-14s %6s %9s %7s\n", "", "times", "ms", "of step");
    for (int why = 0; why < STALLS; why++)
        if (why != STALL_PEERS) print_stall(printer, (enum stall)why);
    print_rest(printer);
    if (printer->sum.stall_count[STALL_PEERS] == 0) return;
    fprintf(printer->out, "  and inside operations of every lane\n");
    print_stall(printer, STALL_PEERS);
}

/* Those that the step may have waited for in turn: what they wait for tells whether disk, bus, host or room was too slow. */
static void print_lane_stalls(const struct printer *printer)
{
    bool any = false;
    for (int lane = LANE_D2H; lane < LANES; lane++)
        for (int why = STALL_NONE + 1; why < STALLS; why++) {
            const uint64_t ns = printer->sum.lane_stall_ns[lane][why];
            if (!ns) continue;
            if (!any)
                fprintf(printer->out, "\n  what lanes between tiers waited for in a step\n  %-24s %6s\n", "", "ms");
            any = true;
            const int column = fprintf(printer->out, "  %-7s %c %-15s %7.3f  ", lane_name((enum lane)lane),
                                       stall_letter(why), stall_name(why), ms(printer, ns));
            words_print(printer->out, column, column, stall_help(why));
        }
}

/* ---- traffic ---- */

static bool moved(const struct printer *printer, int kind)
{
    return printer->sum.traffic[kind].count > 0 || printer->section->planned[kind].count > 0;
}

static void print_bytes(const struct printer *printer)
{
    uint64_t sent_bytes = 0;
    char a[32], b[32], c[32];
    fprintf(printer->out, "\n  bytes of a rank and step\n  %-14s %7s %16s %14s %14s\n", "", "count", "payload", "sent",
            "planned");
    for (int kind = 0; kind < TRAFFIC_KINDS; kind++) {
        const struct collective_totals *sum = &printer->sum.traffic[kind];
        const struct run_traffic *planned = &printer->section->planned[kind];
        if (!moved(printer, kind)) continue;
        if (kind <= TRAFFIC_ALL_TO_ALL) sent_bytes += sum->sent_bytes;
        fprintf(printer->out, "  %-14s %7.1f %16s %14s %14s\n", traffic_name((enum traffic)kind),
                (double)sum->count / printer->parts, grouped(a, (int64_t)((double)sum->bytes / printer->parts + 0.5)),
                grouped(b, (int64_t)((double)sum->sent_bytes / printer->parts + 0.5)),
                planned->ranks ? grouped(c, (int64_t)((double)planned->sent_bytes / planned->ranks + 0.5)) : "n/a");
    }
    if (printer->section->theory_bytes == 0) return;
    fprintf(printer->out, "  %-14s %7s %16s %14s %14s (paper)\n", "tensors", "", "",
            grouped(a, (int64_t)((double)sent_bytes / printer->parts + 0.5)),
            grouped(b, (int64_t)printer->section->theory_bytes));
}

static void print_bandwidth(const struct printer *printer, double bytes_per_s)
{
    if (bytes_per_s > 0) fprintf(printer->out, " %9.1f", bytes_per_s / 1e6);
    else fprintf(printer->out, " %9s", "n/a");
}

static void print_times(const struct printer *printer)
{
    fprintf(printer->out, "\n  time of a rank and step, ms\n  %-14s %9s %9s %9s %9s %9s %9s\n", "", "busy", "exposed",
            "peers", "paced", "alg MB/s", "bus MB/s");
    for (int kind = 0; kind < TRAFFIC_KINDS; kind++) {
        const struct collective_totals *sum = &printer->sum.traffic[kind];
        if (sum->count == 0) continue;
        fprintf(printer->out, "  %-14s %9.3f %9.3f %9.3f %9.3f", traffic_name((enum traffic)kind),
                ms(printer, sum->busy_ns), ms(printer, sum->exposed_ns), ms(printer, sum->peers_ns),
                ms(printer, sum->paced_ns));
        print_bandwidth(printer, per_second(sum->bytes, sum->busy_ns));
        print_bandwidth(printer, per_second(sum->bus_bytes, sum->busy_ns));
        fputc('\n', printer->out);
    }
}

static void print_io(const struct printer *printer)
{
    bool any = false;
    for (int kind = TRAFFIC_NVME_READ; kind <= TRAFFIC_NVME_WRITE; kind++) {
        const struct collective_totals *sum = &printer->sum.traffic[kind];
        const struct io_most *most = &printer->sum.most[kind];
        if (sum->requests == 0 || sum->io_ns == 0) continue;
        if (!any)
            fprintf(printer->out,
                    "\n  requests to NVMe of a rank and step; latencies in ms\n  %-14s %9s %9s %9s %9s %9s %9s\n", "",
                    "count", "MB/s", "depth", "most", "latency", "slowest");
        any = true;
        fprintf(printer->out, "  %-14s %9.1f %9.1f %9.2f %9llu %9.3f %9.3f\n", traffic_name((enum traffic)kind),
                (double)sum->requests / printer->parts, (double)sum->io_bytes * 1e3 / (double)sum->io_ns,
                (double)sum->latency_ns / (double)sum->io_ns, (unsigned long long)most->deepest,
                (double)sum->latency_ns / (double)sum->requests / 1e6, (double)most->longest_ns / 1e6);
    }
}

static void print_prefetch(const struct printer *printer)
{
    const struct prefetch_totals *sum = &printer->sum.prefetch;
    if (sum->gathers == 0) return;
    fprintf(printer->out,
            "\n  gathers for forward and backward: %.1f a step, %.1f of them ahead of need\n"
            "    busy %.3f ms, %.1f %% hidden beside compute\n"
            "    compute waited for one %.1f times, %.3f ms in all\n",
            (double)sum->gathers / printer->parts, (double)sum->prefetched / printer->parts, ms(printer, sum->busy_ns),
            100 * prefetch_hidden_share(sum), (double)sum->stalls / printer->parts, ms(printer, sum->stalled_ns));
    if (sum->early_count)
        fprintf(printer->out, "    %.1f were ready before they were needed, by %.3f ms\n",
                (double)sum->early_count / printer->parts, (double)sum->early_ns / (double)sum->early_count / 1e6);
}

/* ---- memory ---- */

static void print_tenants(const struct printer *printer, const struct run_instant *instant)
{
    char a[32];
    for (int category = 0; category < CATEGORIES; category++) {
        if (instant->held_bytes[category] == 0) continue;
        fprintf(printer->out, "    %c %-14s %14s  %5.1f %%\n", category_letter((enum category)category),
                category_name((enum category)category), grouped(a, (int64_t)instant->held_bytes[category]),
                percent(instant->held_bytes[category], instant->live_bytes));
    }
}

static void print_tier(const struct printer *printer, enum tier tier)
{
    const struct run_predicted *planned = &printer->section->tier[tier];
    const struct analysis_peak *fullest = NULL;
    char a[32], b[32];
    for (int rank = 0; rank < printer->section->ranks; rank++) {
        const struct analysis_peak *peak = &printer->section->peak[rank][tier];
        if (!peak->instant.known) continue;
        if (!fullest)
            fprintf(printer->out, "\n  peak of the %s tier, bytes; planned %s\n", tier_name(tier),
                    planned->known ? grouped(a, (int64_t)planned->peak_bytes) : "n/a");
        if (!fullest || peak->instant.live_bytes > fullest->instant.live_bytes) fullest = peak;
        fprintf(printer->out, "  rank %-4d %21s  in step %u\n", rank, grouped(b, (int64_t)peak->instant.live_bytes),
                peak->step);
    }
    if (fullest) print_tenants(printer, &fullest->instant);
}

/* Measured, and apart from all tiers; of the last part. */
static void print_outside(const struct run_model *model, FILE *out)
{
    char a[32], b[32];
    for (int rank = 0; rank < model->ranks; rank++) {
        const struct run_gpu *gpu = run_gpu_led_by(model, rank);
        const struct run_outside *outside = &model->rank[rank].outside;
        if (!gpu) continue;
        fprintf(out, "\nGPU %d, %s, of %d rank%s: outside of all tiers, measured, bytes of %s\n", gpu->gpu, gpu->name,
                gpu->ranks, gpu->ranks == 1 ? "" : "s that share it", grouped(a, (int64_t)gpu->total_bytes));
        fprintf(out, "  %-10s%20s\n", "last", outside->known ? grouped(b, (int64_t)outside->bytes) : "n/a");
        fprintf(out, "  %-10s%20s\n", "most", outside->known ? grouped(b, (int64_t)outside->most_bytes) : "n/a");
    }
}

/* ---- what it costs, in words ---- */

static void print_costs(const struct printer *printer)
{
    enum { SHOWN = 3 };
    struct cost costs[COSTS_MAX];
    const int count = costs_of(costs, &printer->sum, printer->parts);
    char text[512];
    int slowest;
    double longer;
    fprintf(printer->out, "\n  the largest costs of a step, mean over ranks\n");
    for (int i = 0; i < count && i < SHOWN; i++)
        fprintf(printer->out, "    %9.3f ms %5.1f %%  %s\n", ms(printer, costs[i].ns),
                percent(costs[i].ns, printer->sum.temporal.window_ns), costs[i].text);
    if (costs_slowest(&slowest, &longer, printer->section->rank, printer->section->ranks))
        fprintf(printer->out, "  rank %d computes longest, %.1f %% longer than the mean\n", slowest, 100 * longer);
    if (!printer->section->critical.window_ns) return;
    critical_text(text, sizeof text, &printer->section->critical, (double)printer->section->timed);
    const int column = fprintf(printer->out, "  critical path ");
    words_print(printer->out, column, column, text);
}

/* ---- all of it ---- */

static void print_section(const struct analysis *analysis, const struct analysis_section *section, FILE *out)
{
    struct printer printer = {.out = out, .section = section, .parts_of_run = analysis->model->part_count};
    printer.parts = analysis_sum(&printer.sum, section, -1);
    print_section_head(&printer);
    if (printer.parts > 0) {
        print_costs(&printer);
        print_temporal(&printer);
        print_stalls(&printer);
        print_lane_stalls(&printer);
        print_bytes(&printer);
        print_times(&printer);
        print_io(&printer);
        print_prefetch(&printer);
    }
    for (int tier = 0; tier < TIERS; tier++) print_tier(&printer, (enum tier)tier);
}

void analysis_print(const struct analysis *analysis, FILE *out)
{
    print_head(analysis, out);
    for (int i = 0; i < analysis->section_count; i++) print_section(analysis, &analysis->sections[i], out);
    print_outside(analysis->model, out);
    analysis_print_why(analysis, out);
}
