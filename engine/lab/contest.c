#include "engine/lab/expression.h"

#include <math.h>
#include <string.h>

#include "engine/base/words.h"
#include "engine/simulate/simulate.h"

enum { COMBINATIONS_MAX = 2000 };

static int combinations(const struct lab_tries *tries)
{
    int64_t count = tries && tries->count ? 1 : 0;
    for (int t = 0; count && t < tries->count && count <= COMBINATIONS_MAX; t++) count *= tries->at[t].count;
    return count > COMBINATIONS_MAX ? COMBINATIONS_MAX + 1 : (int)count;
}

/* The configuration of one combination; STATUS_USAGE: there is none such (offload without a stage to offload from ...). */
static int config_of(struct config *config, const struct lab_tries *tries, const int *chosen,
                     const struct text_list *sets, struct error *err)
{
    char text[LAB_TRIES_MAX * 160] = "";
    for (int t = 0; t < tries->count; t++)
        text_append(text, sizeof text, "%.100s=%.50s ", tries->at[t].key, tries->at[t].values[chosen[t]]);
    return lab_config(config, text, sets, err);
}

static void try_one(struct contest *contest, const struct config *config, const int *chosen)
{
    struct setup setup;
    struct error ignored;
    if (setup_init(&setup, config, &ignored)) return;
    contest->tried++;
    const double seconds = footprint_fits(&setup.footprint, config->budget_bytes) ? paced_seconds(&setup, config) : NAN;
    if (!isnan(seconds) && (contest->fitting++ == 0 || seconds < contest->best_s)) {
        contest->best_s = seconds;
        memcpy(contest->best, chosen, sizeof contest->best);
    }
    setup_release(&setup);
}

void contest_hold(struct contest *contest, const struct lab_tries *tries, const struct text_list *sets)
{
    *contest = (struct contest){0};
    for (int c = 0, all = combinations(tries); c < all; c++) {
        int chosen[LAB_TRIES_MAX] = {0}, rest = c;
        struct config config;
        struct error ignored;
        for (int t = 0; t < tries->count; t++) chosen[t] = rest % tries->at[t].count, rest /= tries->at[t].count;
        if (config_of(&config, tries, chosen, sets, &ignored)) continue;
        try_one(contest, &config, chosen);
        config_release(&config);
    }
}

/* Combinations are counted with the key in question as the fastest digit, so the first few say all. */
static int check_key(const struct lab_tries *tries, int key, const struct text_list *sets, struct error *err)
{
    struct error why;
    unsigned possible = 0;
    const int values = tries->at[key].count;
    for (int c = 0, all = combinations(tries); c < all && possible != (1u << values) - 1; c++) {
        int chosen[LAB_TRIES_MAX] = {0}, rest = c / values;
        struct config config;
        for (int t = 0; t < tries->count; t++)
            if (t != key) chosen[t] = rest % tries->at[t].count, rest /= tries->at[t].count;
        chosen[key] = c % values;
        if (possible >> chosen[key] & 1 || config_of(&config, tries, chosen, sets, &why)) continue;
        config_release(&config);
        possible |= 1u << chosen[key];
    }
    for (int v = 0; v < values; v++)
        if (!(possible >> v & 1))
            return error_set(err, STATUS_USAGE, "try: %.60s=%.40s is possible in no combination: %.200s",
                             tries->at[key].key, tries->at[key].values[v], why.text);
    return STATUS_OK;
}

int contest_check(const struct lab_tries *tries, const struct text_list *sets, struct error *err)
{
    int status = STATUS_OK;
    if (combinations(tries) > COMBINATIONS_MAX)
        return error_set(err, STATUS_USAGE, "try: these are more than %d setups", COMBINATIONS_MAX);
    for (int key = 0; key < tries->count && !status; key++) status = check_key(tries, key, sets, err);
    return status;
}
