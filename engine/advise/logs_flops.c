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
