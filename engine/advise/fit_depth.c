/* The most layers that fit: at the model's width, or with widths that grow as GPT-2's family does. */
#include "engine/advise/fit.h"

/* GPT-2's four published sizes, 12 x 768 to 48 x 1600, the line through them, and from the last one on. */
static int family_hidden(int layers)
{
    static const struct {
        int layers, hidden;
    } sizes[] = {{0, 0}, {12, 768}, {24, 1024}, {36, 1280}, {48, 1600}};
    enum { LAST = sizeof sizes / sizeof *sizes - 1 };
    int s = 1;
    while (s < LAST && layers > sizes[s].layers) s++;
    const int rise = sizes[s].hidden - sizes[s - 1].hidden, run = sizes[s].layers - sizes[s - 1].layers,
              hidden = sizes[s - 1].hidden + rise * (layers - sizes[s - 1].layers) / run;
    return hidden < FIT_FAMILY_HEAD ? FIT_FAMILY_HEAD : hidden / FIT_FAMILY_HEAD * FIT_FAMILY_HEAD;
}

void fit_grow(struct config *config, int layers, enum fit_growth growth)
{
    config->model.layers = layers;
    if (growth == FIT_GROW_DEEPER) return;
    config->model.hidden = family_hidden(layers);
    config->model.heads = config->model.hidden / FIT_FAMILY_HEAD;
    sizes_scale(config); /* as in our own configurations */
}

static void plan_depth(struct fit_plan *plan, const struct config *config, const struct fit_depth *depth, int layers,
                       const char *folder, enum fit_growth growth)
{
    struct config deeper = *config;
    fit_grow(&deeper, layers, growth);
    fit_plan_setup(plan, &deeper, &depth->setup, folder);
}

/* More layers never need less, so the search doubles until it finds a depth that does not fit, and halves what is between. */
void fit_deepest(struct fit_depth *depth, const struct config *config, const struct fit_setup *setup,
                 const struct fit_limits *limits, enum fit_growth growth)
{
    int fits = 0, fails = FIT_LAYERS_MAX + 1;
    *depth = (struct fit_depth){.setup = *setup};
    while (fails - fits > 1) {
        const bool doubling = fails > FIT_LAYERS_MAX;
        int layers = doubling ? (fits ? 2 * fits : 1) : fits + (fails - fits) / 2;
        if (layers > FIT_LAYERS_MAX) layers = FIT_LAYERS_MAX;
        struct fit_plan plan;
        plan_depth(&plan, config, depth, layers, limits->folder, growth);
        if (fit_fits(&plan, limits)) fits = layers, depth->plan = plan;
        else fails = layers, depth->next = plan;
    }
    struct config deepest = *config;
    if (fits) fit_grow(&deepest, fits, growth);
    depth->layers = fits;
    depth->hidden = deepest.model.hidden;
}
