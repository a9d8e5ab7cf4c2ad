/* Floating-point operations of one step, as DeepSpeed's flops_profiler lays them out: what the model needs by the formula of
 * Narayanan et al., what the kernels executed, how fast, and which module took how much. */
#include <stdlib.h>
#include <string.h>

#include "engine/advise/logs_parts.h"
#include "engine/plan/gpt2.h"

/* 72 B L s h^2 (1 + s / (6 h) + V / (12 h L)): forward, and twice as much for backward; attention counted as if it were not
 * causal. Recomputation is none of the model's. */
double log_model_flops(const struct config_model *shape, int64_t sequences, int T)
{
    const double B = (double)sequences, L = shape->layers, s = T, h = shape->hidden, V = shape->vocabulary;
    return 72 * B * L * s * h * h * (1 + s / (6 * h) + V / (12 * h * L));
}

/* ---- the model as modules ---- */

static struct log_module *add(struct log_profile *profile, int depth, const char *class, const char *name)
{
    struct log_module *module = &profile->module[profile->modules++];
    *module = (struct log_module){.depth = depth, .timed = depth < LOG_MODULE_DEPTH};
    snprintf(module->name, sizeof module->name, "%s", name);
    snprintf(module->class, sizeof module->class, "%s", class);
    return module;
}

/* Of a block with the tiles of its MLP. */
static int64_t elems_of(const struct model *model, int block, const char *prefix)
{
    int64_t sum = 0;
    for (int u = 0; u < model->unit_count; u++)
        for (int t = 0; model->units[u].block == block && t < model->units[u].tensor_count; t++) {
            const struct tensor *tensor = &model->units[u].tensors[t];
            if (!strncmp(tensor->name, prefix, strlen(prefix))) sum += tensor->elems;
        }
    return sum;
}

static void add_block(struct log_profile *profile, struct log_module *blocks, const struct model *model, int number,
                      double macs, double mlp_macs)
{
    struct log_module *block = add(profile, 2, "block", model->units[model_block(model, number)].name);
    block->params = elems_of(model, number, "");
    block->macs = macs;
    blocks->params += block->params;
    struct log_module *attention = add(profile, 3, "attention", "attention");
    attention->params = elems_of(model, number, "attn") + elems_of(model, number, "ln1");
    attention->macs = macs - mlp_macs;
    struct log_module *mlp = add(profile, 3, "mlp", "mlp");
    mlp->params = elems_of(model, number, "mlp") + elems_of(model, number, "ln2");
    mlp->macs = mlp_macs;
}

/* Multiply-adds of one forward. */
static double macs_of(const struct schedule *schedule, const struct model *model, enum gpt2_use use)
{
    const struct op op = {.kind = OP_FORWARD, .use = &gpt2_uses[use]};
    return op_flops(schedule, model, &op) / 2;
}

static void add_modules(struct log_profile *profile, const struct schedule *schedule, const struct model *model)
{
    const double N = (double)schedule->B * schedule->T, C = model->shape.hidden, m = schedule->micro_steps;
    const double mlp = m * N * 8 * C * C;
    const double block = m * macs_of(schedule, model, USE_BLOCK) + (model_tiled(model) ? mlp : 0);
    const double head = m * macs_of(schedule, model, USE_HEAD);
    const int layers = model->shape.layers;
    struct log_module *whole = add(profile, 0, "GPT", "GPT");
    whole->params = model->elems;
    whole->macs = layers * block + head;
    add(profile, 1, "embed", "embed")->params = model->units[0].elems;
    struct log_module *blocks = add(profile, 1, "blocks", "blocks");
    blocks->macs = layers * block;
    for (int b = 0; b < layers; b++) add_block(profile, blocks, model, b, block, mlp);
    add(profile, 1, "norm", "norm")->params = model->units[model->unit_count - 1].elems;
    add(profile, 1, "head", "head (tied to embed)")->macs = head;
}

/* ---- their times ---- */

static struct log_module *module_named(struct log_profile *profile, int depth, const char *name)
{
    for (int i = 0; i < profile->modules; i++)
        if (profile->module[i].depth == depth && !strncmp(profile->module[i].name, name, strlen(name)))
            return &profile->module[i];
    return NULL;
}

/* The modules that an operation's time belongs to, outermost first, up to a NULL. */
static void owners_of(struct log_module *owners[4], struct log_profile *profile, const struct model *model,
                      const struct span *span)
{
    memset(owners, 0, 4 * sizeof *owners);
    if (!span->use) return;
    const int block = model->units[span->unit].block;
    owners[0] = &profile->module[0];
    owners[1] = module_named(profile, 1, block < 0 ? op_name(OP_FORWARD, span->use) : "blocks");
    if (block >= 0) owners[2] = module_named(profile, 2, model->units[model_block(model, block)].name);
}

static void add_times(struct log_profile *profile, const struct model *model, const struct history *history,
                      const struct history_step *step, int rank)
{
    struct log_lane lane = log_lane_of(history, step, rank, LANE_COMPUTE);
    for (const struct span *span; (span = log_next(&lane));) {
        struct log_module *owners[4];
        if (span->unit < 0 || span->unit >= model->unit_count) continue;
        owners_of(owners, profile, model, span);
        for (int i = 0; owners[i]; i++) {
            uint64_t *sum = span->phase == PHASE_FORWARD ? &owners[i]->forward_ns : &owners[i]->backward_ns;
            *sum += span->ended_ns - span->started_ns;
        }
    }
}

static bool measure(struct log_profile *profile, const struct model *shape, const struct history *history,
                    const struct run_model *model, const struct history_step *step)
{
    const struct run_schedule *schedule = run_schedule_numbered(model, step->schedule);
    profile->module = calloc((size_t)(5 + 3 * shape->shape.layers), sizeof *profile->module);
    if (!profile->module || !schedule || !schedule->has_ops) return false;
    const struct schedule *ops = &schedule->ops;
    if (!log_clock_add(&profile->clock, history, model, step)) return false;
    profile->step = step->step;
    profile->ranks = run_world(model);
    profile->micro_batch = ops->B;
    profile->samples = (int64_t)ops->B * ops->micro_steps * profile->ranks;
    profile->model_flops = log_model_flops(&shape->shape, (int64_t)ops->B * ops->micro_steps, ops->T);
    flops_of(&profile->executed, ops, shape);
    add_modules(profile, ops, shape);
    for (int rank = 0; rank < model->ranks; rank++) add_times(profile, shape, history, step, rank);
    for (int i = 0; i < profile->modules; i++) {
        profile->module[i].forward_ns /= (uint64_t)model->ranks;
        profile->module[i].backward_ns /= (uint64_t)model->ranks;
    }
    return true;
}

bool log_profile_of(struct log_profile *profile, const struct config *config, const struct history *history,
                    const struct run_model *model, const struct history_step *step)
{
    struct model shape;
    *profile = (struct log_profile){0};
    if (model_of(&shape, config, NULL)) return false;
    bool known = measure(profile, &shape, history, model, step);
    model_release(&shape);
    if (!known) log_profile_release(profile);
    return known;
}

void log_profile_release(struct log_profile *profile)
{
    free(profile->module);
    profile->module = NULL;
    profile->modules = 0;
}

/* ---- the page, in DeepSpeed's order: the whole, the heaviest modules of each depth, every module ---- */

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

/* ---- the whole ---- */

/* A line of the summary. places -1: three digits and a prefix, or "-" where nothing was done or timed. */
struct row {
    const char *name;
    int places;
    double value;
    const char *unit;
};

static void print_row(const struct row *row, FILE *out)
{
    char text[32];
    const bool known = row->places >= 0 || row->value > 0;
    if (row->places >= 0) snprintf(text, sizeof text, "%.*f", row->places, row->value);
    else if (known) short_number(text, row->value);
    fprintf(out, "%-66s  %s%s\n", row->name, known ? text : "-", known ? row->unit : "");
}

static void print_summary(const struct log_profile *profile, double peak_flops, FILE *out)
{
    const struct log_clock *clock = &profile->clock;
    const struct flops *executed = &profile->executed;
    const double ranks = profile->ranks, forward = executed->forward;
    const double backward = executed->backward + executed->recomputed;
    const double forward_ms = ms(clock->forward, ranks), backward_ms = ms(clock->inner + clock->reduce, ranks);
    const double step_ms = ms(clock->gradients + clock->update + clock->allgather, ranks);
    const double iteration_ms = forward_ms + backward_ms + step_ms;
    const double hardware = forward + executed->backward + executed->recomputed;
    const double model_flops = per_second(profile->model_flops, iteration_ms);
    const struct row rows[] = {
        {"data parallel size:", 0, ranks, ""},
        {"batch size per rank:", 0, profile->micro_batch, ""},
        {"params of model:", -1, (double)profile->module[0].params, ""},
        {"fwd MACs per rank:", -1, profile->module[0].macs, "MACs"},
        {"fwd flops per rank, as executed:", -1, forward, ""},
        {"bwd flops per rank, as executed, without recomputation:", -1, executed->backward, ""},
        {"recomputed flops per rank:", -1, executed->recomputed, ""},
        {"model flops per rank = 72 B L s h^2 (1 + s/6h + V/12hL):", -1, profile->model_flops, ""},
        {"fwd latency:", 2, forward_ms, " ms"},
        {"bwd latency:", 2, backward_ms, " ms"},
        {"step latency:", 2, step_ms, " ms"},
        {"iter latency = fwd + bwd + step:", 2, iteration_ms, " ms"},
        {"fwd FLOPS per rank:", -1, per_second(forward, forward_ms), "FLOPS"},
        {"bwd FLOPS per rank:", -1, per_second(backward, backward_ms), "FLOPS"},
        {"fwd+bwd FLOPS per rank:", -1, per_second(forward + backward, forward_ms + backward_ms), "FLOPS"},
        {"FLOPS per rank = model flops per rank / iter latency:", -1, model_flops, "FLOPS"},
        {"hardware FLOPS per rank = executed flops per rank / iter latency:", -1, per_second(hardware, iteration_ms),
         "FLOPS"},
    };
    const struct row of_peak[] = {
        {"stated peak of a rank (flops_profiler.peak_flops):", -1, peak_flops, "FLOPS"},
        {"MFU = FLOPS per rank / stated peak:", 2, 100 * model_flops / peak_flops, " %"},
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) print_row(&rows[r], out);
    for (size_t r = 0; peak_flops > 0 && r < sizeof of_peak / sizeof *of_peak; r++) print_row(&of_peak[r], out);
    if (peak_flops <= 0) fprintf(out, "%-66s  n/a: state a peak, flops_profiler.peak_flops\n", "MFU:");
    print_row(&(struct row){"samples/second:", -1, per_second((double)profile->samples, iteration_ms), ""}, out);
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
