/* What --diff compares: matching sections of two traces, and the keys of their configurations that differ. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/advise/analysis.h"
#include "engine/config/keys.h"

/* ---- sections ---- */

/* Both from their ends, whichever is further on going back. */
static void find_loss(struct analysis_pair *pair)
{
    const struct analysis_section *left = pair->side[0], *right = pair->side[1];
    if (!left || !right) return;
    for (int l = left->loss_count, r = right->loss_count; l && r;) {
        const struct analysis_loss *in_left = &left->losses[l - 1], *in_right = &right->losses[r - 1];
        if (in_left->step > in_right->step || isnan(in_left->loss)) l--;
        else if (in_left->step < in_right->step || isnan(in_right->loss)) r--;
        else {
            *pair = (struct analysis_pair){{left, right}, in_left->step, {in_left->loss, in_right->loss}};
            return;
        }
    }
}

static bool alike(const struct analysis_section *left, const struct analysis_section *right)
{
    return left->stage == right->stage && left->ranks == right->ranks;
}

/* The first section of B that none of A's has yet, of the same stage and ranks if `only_alike`; -1: none. */
static int partner(const struct analysis_section *of, const struct analysis *right, const bool *taken, bool only_alike)
{
    for (int i = 0; i < right->section_count; i++)
        if (!taken[i] && (!only_alike || alike(of, &right->sections[i]))) return i;
    return -1;
}

int analysis_pairs(struct analysis_pair **pairs, const struct analysis *left, const struct analysis *right)
{
    const int lefts = left->section_count, rights = right->section_count;
    bool *taken = calloc((size_t)rights + 1, sizeof *taken);
    int count = 0;
    *pairs = calloc((size_t)(lefts + rights) + 1, sizeof **pairs);
    for (int l = 0; taken && *pairs && l < lefts; l++) (*pairs)[count++].side[0] = &left->sections[l];
    for (int pass = 0; taken && *pairs && pass < 2; pass++)
        for (int l = 0; l < lefts; l++) {
            struct analysis_pair *pair = &(*pairs)[l];
            const int r = pair->side[1] ? -1 : partner(pair->side[0], right, taken, pass == 0);
            if (r >= 0) pair->side[1] = &right->sections[r], taken[r] = true;
        }
    for (int r = 0; taken && *pairs && r < rights; r++)
        if (!taken[r]) (*pairs)[count++].side[1] = &right->sections[r];
    for (int i = 0; i < count; i++) find_loss(&(*pairs)[i]);
    const bool whole = taken && *pairs;
    free(taken);
    return whole ? count : -1;
}

/* ---- keys ---- */

static bool load(struct config *config, const struct analysis *analysis)
{
    const char *json = analysis->model->header.config_json;
    return json && config_load_text(config, json, NULL, 0, NULL) == STATUS_OK;
}

int analysis_keys(struct analysis_key **keys, const struct analysis *left, const struct analysis *right)
{
    struct config a = {0}, b = {0};
    int count = 0;
    *keys = calloc((size_t)config_key_count, sizeof **keys);
    const bool known = *keys && load(&a, left) && load(&b, right);
    for (int k = 0; known && k < config_key_count; k++) {
        struct analysis_key *key = &(*keys)[count];
        if (!key_differs(&config_keys[k], &a, &b, key->value[0], key->value[1], sizeof key->value[0])) continue;
        key->path = config_keys[k].path;
        count++;
    }
    config_release(&a);
    config_release(&b);
    return known ? count : -1;
}
