#include "engine/lab/play.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/json.h"
#include "engine/base/words.h"

void lab_baseline_take(struct lab_baseline *baseline, const struct run_model *model)
{
    const struct run_step *last = run_last_step(model);
    *baseline = (struct lab_baseline){.known = true, .notices = run_notices_seen(model), .step = last ? last->step : 0};
}

/* ---- what was changed ---------------------------------------------------------------------------------------------- */

static void show(char *out, size_t room, const cJSON *value)
{
    if (cJSON_IsNumber(value)) snprintf(out, room, "%.0f", value->valuedouble);
    else snprintf(out, room, "%s", cJSON_IsString(value) ? value->valuestring : "");
}

/* {"kind": "stage", "detail": {"from": 1, "to": 3}}; "set" names its key too. */
static bool read_change(struct baseline_change *change, const struct run_notice *notice)
{
    static const char *const kinds[] = {"stage", "budget", "ranks", "set"};
    cJSON *event = notice->kind == NOTICE_EVENT && notice->json ? cJSON_Parse(notice->json) : NULL;
    const char *kind = json_get_text(event, "kind");
    const cJSON *detail = json_get(event, "detail");
    const char *key = json_get_text(detail, "key");
    bool found = false;
    for (size_t k = 0; kind && k < sizeof kinds / sizeof *kinds; k++) found |= !strcmp(kind, kinds[k]);
    if (found) {
        snprintf(change->setting, sizeof change->setting, "%s%s%.80s", kind, key ? " " : "", key ? key : "");
        show(change->from, sizeof change->from, json_get(detail, "from"));
        show(change->to, sizeof change->to, json_get(detail, "to"));
    }
    cJSON_Delete(event);
    return found && *change->from;
}

/* Of several changes of one setting, the first has the old value, the last the present one. */
static int merge(struct baseline_change changes[BASELINE_CHANGES_MAX], int count, const struct baseline_change *change)
{
    for (int c = 0; c < count; c++) {
        if (strcmp(changes[c].setting, change->setting) != 0) continue;
        memcpy(changes[c].to, change->to, sizeof change->to);
        return count;
    }
    if (count < BASELINE_CHANGES_MAX) changes[count++] = *change;
    return count;
}

/* A command is recorded before its effects, so events before the first command are still the lab's own. */
static int find_changes(const struct lab_baseline *baseline, const struct run_model *model,
                        struct baseline_change changes[BASELINE_CHANGES_MAX])
{
    bool others = baseline->notices < model->notices_dropped;
    int count = 0;
    for (int n = run_notices_since(model, baseline->notices); n < model->notice_count; n++) {
        const struct run_notice *notice = &model->notices[n];
        struct baseline_change change;
        others |= notice->kind == NOTICE_COMMAND && notice->level == 0;
        if (others && read_change(&change, notice)) count = merge(changes, count, &change);
    }
    return count;
}

/* ---- the way back -------------------------------------------------------------------------------------------------- */

static void add_back(struct lab_baseline *baseline, const struct baseline_change *change)
{
    const int at = baseline->back.count;
    if (strcmp(change->from, change->to) == 0) return;
    snprintf(baseline->line[at], sizeof baseline->line[at], "%.95s=%.159s", change->setting, change->from);
    baseline->piece[at] = (struct prose_piece){.text = baseline->line[at]};
    baseline->back.at[baseline->back.count++] = (struct lab_action){.act = LAB_COMMAND, .text = {1, &baseline->piece[at]}};
    text_append(baseline->said, sizeof baseline->said, "%s%s (it was %s)", *baseline->said ? ", " : "",
                baseline->line[at], change->to);
}

bool lab_baseline_find(struct lab_baseline *baseline, const struct run_model *model)
{
    struct baseline_change changes[BASELINE_CHANGES_MAX];
    const struct run_step *last = run_last_step(model);
    const int count = baseline->known ? find_changes(baseline, model, changes) : 0;
    baseline->back.count = 0;
    baseline->said[0] = '\0';
    for (int c = 0; c < count; c++) add_back(baseline, &changes[c]);
    if (count && last && last->step > baseline->step)
        baseline->back.at[baseline->back.count++] = (struct lab_action){.act = LAB_RUN, .count = 1};
    return baseline->back.count > 0;
}
