/* Each schedule is one function of i, the number of the last iteration (-1: none yet). Arithmetic has DeepSpeed's order, so values
 * agree to the last bit where the C library's log and cos do. Two of DeepSpeed's first values are unusual: WarmupLR gives its
 * minimum at i = -1 and again at 0, and WarmupCosineLR gives 0 at -1, whatever its ratio. */
#include "engine/optim/learning_rate.h"

#include <math.h>

/* 0 to 1 over the warm-up. */
static double warmed(const struct config_scheduler *s, int64_t i)
{
    const double steps = (double)(s->warmup_steps < 2 ? 2 : s->warmup_steps);
    return s->warmup_type == WARMUP_LINEAR ? (double)i / steps : 1.0 / log(steps) * log((double)i + 1);
}

static bool warming(const struct config_scheduler *s, int64_t i)
{
    return i < (s->warmup_steps < 2 ? 2 : s->warmup_steps);
}

/* Steps from the end of the warm-up to total_steps, at least 1. */
static double decay_steps(const struct config_scheduler *s)
{
    const int64_t left = s->total_steps - (s->warmup_steps < 2 ? 2 : s->warmup_steps);
    return left > 1 ? (double)left : 1;
}

static double constant(const struct config_scheduler *s, double base, int64_t i)
{
    (void)s, (void)i;
    return base;
}

static double warmup(const struct config_scheduler *s, double base, int64_t i)
{
    (void)base;
    if (i < 0) return s->warmup_min_lr;
    return s->warmup_min_lr + (s->warmup_max_lr - s->warmup_min_lr) * (warming(s, i) ? warmed(s, i) : 1);
}

static double warmup_decay(const struct config_scheduler *s, double base, int64_t i)
{
    if (i < 0 || warming(s, i)) return warmup(s, base, i);
    const double share = (double)(s->total_steps - i) / decay_steps(s);
    return s->warmup_min_lr + (s->warmup_max_lr - s->warmup_min_lr) * (share > 0 ? share : 0);
}

static double warmup_cosine(const struct config_scheduler *s, double base, int64_t i)
{
    static const double pi = 3.14159265358979323846;
    if (i < 0) return 0;
    if (warming(s, i)) return base * (s->warmup_min_ratio + warmed(s, i) * (1.0 - s->warmup_min_ratio));
    const double since = (double)(i - (s->warmup_steps < 2 ? 2 : s->warmup_steps) + 1) / decay_steps(s);
    const double height = (1 + cos(pi * (since < 1 ? since : 1))) / 2;
    const double ratio = s->cos_min_ratio + (1.0 - s->cos_min_ratio) * height;
    return base * (ratio > 0 ? ratio : 0);
}

/* Position between the cycle's minimum (0) and maximum (1). Stairs are computed from whole steps, because rounding a quotient
 * just below a stair would lose that stair. */
static double cycle_height(const struct config_scheduler *s, int64_t i)
{
    const double first = (double)s->cycle_first_steps, second = (double)s->cycle_second_steps, total = first + second;
    const double step = (double)(i + 1), ratio = first / total;
    const double x = 1. + step / total - floor(1 + step / total);
    const bool up = x <= ratio;
    const double stairs = (double)(up ? s->cycle_first_stairs : s->cycle_second_stairs);
    if (stairs <= 0) return up ? x / ratio : (x - 1) / (ratio - 1);
    const double within = fmod(step, total);
    return floor(within <= first ? within * stairs / first : (total - within) * stairs / second) / stairs;
}

/* Steps since the end of the cycle; 0 or less: within it. */
static int64_t after_cycle(const struct config_scheduler *s, int64_t i)
{
    return i - (s->cycle_first_steps + s->cycle_second_steps) + 1;
}

static double one_cycle(const struct config_scheduler *s, double base, int64_t i)
{
    (void)base;
    const int64_t after = after_cycle(s, i);
    if (after <= 0) return s->cycle_min_lr + (s->cycle_max_lr - s->cycle_min_lr) * cycle_height(s, i);
    if (s->decay_steps == 0) return s->cycle_min_lr;
    return s->cycle_min_lr / (1 + s->decay_lr_rate * ((double)after / (double)s->decay_steps));
}

/* The first beta. As in DeepSpeed it begins at its minimum, although the learning rate does so too. */
static double one_cycle_beta(const struct config_scheduler *s, int64_t i)
{
    const int64_t after = after_cycle(s, i);
    if (i < 0) return s->cycle_min_mom;
    if (after <= 0) return s->cycle_max_mom - (s->cycle_max_mom - s->cycle_min_mom) * cycle_height(s, i);
    if (s->decay_steps == 0) return s->cycle_max_mom;
    return s->cycle_max_mom * (1 + s->decay_mom_rate * ((double)after / (double)s->decay_steps));
}

static double range_test(const struct config_scheduler *s, double base, int64_t i)
{
    (void)base;
    const double rises = (double)(i + 1) / (double)s->range_steps;
    return s->range_min_lr * (1 + s->range_step_rate * (s->range_staircase ? floor(rises) : rises));
}

struct learning_rate learning_rate_at(const struct config *config, int64_t updates)
{
    static double (*const formulas[SCHEDULERS])(const struct config_scheduler *, double, int64_t) = {
        [SCHEDULER_NONE] = constant,
        [SCHEDULER_WARMUP] = warmup,
        [SCHEDULER_WARMUP_DECAY] = warmup_decay,
        [SCHEDULER_WARMUP_COSINE] = warmup_cosine,
        [SCHEDULER_ONE_CYCLE] = one_cycle,
        [SCHEDULER_LR_RANGE_TEST] = range_test,
    };
    const struct config_scheduler *s = &config->scheduler;
    const enum optimizer rule = config->optimizer.rule;
    const bool has_betas = rule == OPTIMIZER_ADAMW || rule == OPTIMIZER_ADAM || rule == OPTIMIZER_LION;
    struct learning_rate now = {formulas[s->kind](s, config->optimizer.learning_rate, updates - 1),
                                config->optimizer.beta1, config->optimizer.beta2};
    if (s->kind == SCHEDULER_ONE_CYCLE && s->cycle_momentum && has_betas) {
        now.beta1 = one_cycle_beta(s, updates - 1);
        now.beta2 = 0.99;
    }
    return now;
}
