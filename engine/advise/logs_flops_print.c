/* The flops profiler's page, in DeepSpeed's order: the whole, the heaviest modules of each depth, every module. */
#include <string.h>

#include "engine/advise/logs_parts.h"

/* Three significant digits and a prefix of 1000: "1.23 G". */
static const char *short_number(char text[24], double value)
{
    static const char *const prefixes[] = {"", "k", "M", "G", "T", "P", "E"};
    int p = 0;
    for (; value >= 999.5 && p < 6; p++) value /= 1000;
    snprintf(text, 24, "%.3g%s%s", value, p ? " " : "", prefixes[p]);
    return text;
}

static double ms(uint64_t sum_ns, double parts)
{
    return (double)sum_ns / 1e6 / parts;
}

static double per_second(double flops, double milliseconds)
{
    return milliseconds > 0 ? flops / milliseconds * 1e3 : 0;
}

static void line(FILE *out, const char *name, const char *value, const char *unit)
{
    fprintf(out, "%-66s  %s%s\n", name, value, unit);
}

/* "-": where nothing was done or timed. */
static void number_line(FILE *out, const char *name, double value, const char *unit)
{
    char text[24];
    if (value > 0) line(out, name, short_number(text, value), unit);
    else line(out, name, "-", "");
}

static void time_line(FILE *out, const char *name, double milliseconds)
{
    char text[24];
    snprintf(text, sizeof text, "%.2f", milliseconds);
    line(out, name, text, " ms");
}

/* ---- the whole ---- */

static void print_utilization(const struct log_profile *profile, double iteration_ms, double peak_flops, FILE *out)
{
    char text[32];
    const double hardware =
        profile->executed.forward + profile->executed.backward + profile->executed.recomputed;
    number_line(out,
                "FLOPS per rank = model flops per rank / iter latency:", per_second(profile->model_flops, iteration_ms),
                "FLOPS");
    number_line(out,
                "hardware FLOPS per rank = executed flops per rank / iter latency:", per_second(hardware, iteration_ms),
                "FLOPS");
    if (peak_flops > 0) {
        number_line(out, "stated peak of a rank (flops_profiler.peak_flops):", peak_flops, "FLOPS");
        snprintf(text, sizeof text, "%.2f", 100 * per_second(profile->model_flops, iteration_ms) / peak_flops);
        line(out, "MFU = FLOPS per rank / stated peak:", text, " %");
    } else line(out, "MFU:", "n/a", ": state a peak, flops_profiler.peak_flops");
}

static void print_summary(const struct log_profile *profile, double peak_flops, FILE *out)
{
    const struct log_clock *clock = &profile->clock;
    const double ranks = profile->ranks, forward = profile->executed.forward;
    const double backward = profile->executed.backward + profile->executed.recomputed;
    const double forward_ms = ms(clock->forward, ranks), backward_ms = ms(clock->inner + clock->reduce, ranks);
    const double step_ms = ms(clock->gradients + clock->update + clock->allgather, ranks);
    const double iteration_ms = forward_ms + backward_ms + step_ms;
    char text[32];
    snprintf(text, sizeof text, "%d", profile->ranks);
    line(out, "data parallel size:", text, "");
    snprintf(text, sizeof text, "%d", profile->micro_batch);
    line(out, "batch size per rank:", text, "");
    number_line(out, "params of model:", (double)profile->module[0].params, "");
    number_line(out, "fwd MACs per rank:", profile->module[0].macs, "MACs");
    number_line(out, "fwd flops per rank, as executed:", forward, "");
    number_line(out, "bwd flops per rank, as executed, without recomputation:", profile->executed.backward, "");
    number_line(out, "recomputed flops per rank:", profile->executed.recomputed, "");
    number_line(out, "model flops per rank = 72 B L s h^2 (1 + s/6h + V/12hL):", profile->model_flops, "");
    time_line(out, "fwd latency:", forward_ms);
    time_line(out, "bwd latency:", backward_ms);
    time_line(out, "step latency:", step_ms);
    time_line(out, "iter latency = fwd + bwd + step:", iteration_ms);
    number_line(out, "fwd FLOPS per rank:", per_second(forward, forward_ms), "FLOPS");
    number_line(out, "bwd FLOPS per rank:", per_second(backward, backward_ms), "FLOPS");
    number_line(out, "fwd+bwd FLOPS per rank:", per_second(forward + backward, forward_ms + backward_ms), "FLOPS");
    print_utilization(profile, iteration_ms, peak_flops, out);
    number_line(out, "samples/second:", per_second((double)profile->samples, iteration_ms), "");
}

/* ---- the heaviest of a depth ---- */

enum by { BY_PARAMS, BY_MACS, BY_TIME, BYS };

static double weight(const struct log_module *module, enum by by)
{
    return by == BY_PARAMS ? (double)module->params : by == BY_MACS ? module->macs : (double)module->forward_ns;
}

/* Modules of one depth by class, blocks together; at most a handful. Returns how many. */
static int classes_at(const struct log_profile *profile, int depth, struct log_module classes[8])
{
    int count = 0;
    for (int i = 0; i < profile->modules; i++) {
        const struct log_module *module = &profile->module[i];
        int c = 0;
        if (module->depth != depth) continue;
        while (c < count && strcmp(classes[c].class, module->class) != 0) c++;
        if (c == count && count == 8) continue;
        if (c == count) {
            classes[count++] = *module;
            continue;
        }
        classes[c].params += module->params;
        classes[c].macs += module->macs;
        classes[c].forward_ns += module->forward_ns;
    }
    return count;
}

static void print_weight(FILE *out, const struct log_module *module, enum by by)
{
    char text[24];
    if (by == BY_TIME && !module->timed) fprintf(out, "'%s': '-'", module->class);
    else if (by == BY_TIME) fprintf(out, "'%s': '%.2f ms'", module->class, (double)module->forward_ns / 1e6);
    else
        fprintf(out, "'%s': '%s%s'", module->class, short_number(text, weight(module, by)),
                by == BY_MACS ? "MACs" : "");
}

static void print_heaviest(const struct log_profile *profile, int depth, int top, FILE *out)
{
    static const char *const names[BYS] = {"params", "MACs", "fwd latency"};
    fprintf(out, "depth %d:\n", depth);
    for (int by = 0; by < BYS; by++) {
        struct log_module classes[8];
        int count = classes_at(profile, depth, classes);
        fprintf(out, "    %-11s - {", names[by]);
        for (int shown = 0; shown < top && count; shown++) {
            int best = 0;
            for (int c = 1; c < count; c++)
                if (weight(&classes[c], (enum by)by) > weight(&classes[best], (enum by)by)) best = c;
            fputs(shown ? ", " : "", out);
            print_weight(out, &classes[best], (enum by)by);
            classes[best] = classes[--count];
        }
        fputs("}\n", out);
    }
}

/* ---- every module ---- */

static double share(double part, double whole)
{
    return whole > 0 ? 100 * part / whole : 0;
}

static void print_module(const struct log_module *module, const struct log_module *whole, FILE *out)
{
    char params[24], macs[24], rate[24];
    fprintf(out, "%*s%-*s %9s %6.2f%% %9s %6.2f%%", 2 * module->depth, "", 26 - 2 * module->depth, module->name,
            short_number(params, (double)module->params), share((double)module->params, (double)whole->params),
            short_number(macs, module->macs), share(module->macs, whole->macs));
    if (!module->timed) {
        fprintf(out, " %10s %7s %10s %10s\n", "-", "-", "-", "-");
        return;
    }
    const double forward_ms = (double)module->forward_ns / 1e6;
    fprintf(out, " %10.3f %6.2f%% %10.3f", forward_ms, share((double)module->forward_ns, (double)whole->forward_ns),
            (double)module->backward_ns / 1e6);
    const double flops = per_second(2 * module->macs, forward_ms);
    fprintf(out, " %10s\n", flops > 0 ? short_number(rate, flops) : "-");
}

static void print_modules(const struct log_profile *profile, int depth, FILE *out)
{
    fprintf(out, "%-26s %9s %7s %9s %7s %10s %7s %10s %10s\n", "module", "params", "", "MACs", "", "fwd ms", "",
            "bwd ms", "fwd FLOPS");
    for (int i = 0; i < profile->modules; i++)
        if (profile->module[i].depth <= depth) print_module(&profile->module[i], &profile->module[0], out);
    fputs("-: part of its block's operation, so the trace has no time of its own; bwd holds what is computed again\n",
          out);
}

void log_profile_print(const struct log_profile *profile, const struct config_logs *wanted, FILE *out)
{
    const int depth = wanted->flops.module_depth;
    const int deepest = depth < 0 || depth > LOG_MODULE_DEPTH ? LOG_MODULE_DEPTH : depth;
    fprintf(out, "-------------------------- Flops Profiler --------------------------\n");
    fprintf(out, "Profile Summary at step %u:\n", profile->step);
    print_summary(profile, wanted->flops.peak_flops, out);
    fputs("----------------------------- Aggregated Profile per rank -----------------------------\n", out);
    for (int d = depth < 0 ? 0 : deepest; d <= deepest; d++) print_heaviest(profile, d, wanted->flops.top_modules, out);
    if (!wanted->flops.detailed) return;
    fputs("------------------------------ Detailed Profile per rank ------------------------------\n", out);
    print_modules(profile, deepest, out);
}
