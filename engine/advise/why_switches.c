/* The measured effect of each switch of stage or key: the last steps before it against the first after it, none from
 * beyond the next switch. */
#include <stdio.h>
#include <string.h>

#include "engine/advise/why.h"
#include "engine/base/json.h"
#include "engine/config/keys.h"

/* ---- the switches: events "stage", "ranks" and "set" ---- */

/* "stage 0 -> 3" or "reduce_bucket_size 198272 -> 99136"; false: an event of another kind. */
static bool describe(char *text, size_t room, const struct run_notice *notice)
{
    if (notice->kind != NOTICE_EVENT || !notice->json) return false;
    cJSON *event = cJSON_Parse(notice->json);
    const char *kind = json_get_text(event, "kind");
    const cJSON *detail = json_get(event, "detail");
    const cJSON *from = json_get(detail, "from");
    const cJSON *to = json_get(detail, "to");
    const char *key = json_get_text(detail, "key");
    bool is_number =
        kind && (!strcmp(kind, "stage") || !strcmp(kind, "ranks")) && cJSON_IsNumber(from) && cJSON_IsNumber(to);
    bool is_set = kind && !strcmp(kind, "set") && key && cJSON_IsString(to);
    if (is_number) snprintf(text, room, "%s %d -> %d", kind, from->valueint, to->valueint);
    if (is_set) {
        char name[80];
        key_short_name(name, sizeof name, key);
        snprintf(text, room, "%s %s%s%s", name, cJSON_IsString(from) ? from->valuestring : "",
                 cJSON_IsString(from) ? " -> " : "-> ", to->valuestring);
    }
    cJSON_Delete(event);
    return is_number || is_set;
}

/* Several switches before one step count as one: their texts are joined. */
static int list_switches(const struct run_model *model, struct why_switch out[], int room)
{
    int count = 0;
    for (int i = model->notice_count - 1; i >= 0; i--) {
        char text[sizeof out->text];
        if (!describe(text, sizeof text, &model->notices[i])) continue;
        uint32_t step = model->notices[i].step;
        if (count && out[count - 1].step == step) {
            char later[sizeof out->text];
            memcpy(later, out[count - 1].text, sizeof later);
            snprintf(out[count - 1].text, sizeof later, "%.50s, %.58s", text, later);
            continue;
        }
        if (count == room) break;
        out[count] = (struct why_switch){.step = step};
        memcpy(out[count++].text, text, sizeof text);
    }
    return count;
}

/* ---- the steps on both sides ---- */

struct sums {
    uint64_t total_ns, tokens;
    int sent_steps, timed_steps;
};

static void side_add(struct why_side *side, struct sums *sums, const struct run_step *step)
{
    side->steps++;
    side->stage = step->stage;
    sums->total_ns += step->total_ns;
    sums->tokens += step->tokens;
    for (int tier = 0; tier < TIERS; tier++)
        if (step->memory[tier].known && step->memory[tier].peak_bytes >= side->memory[tier].peak_bytes)
            side->memory[tier] = step->memory[tier];
    if (step->timed) {
        sums->timed_steps++;
        side->exposed_ns += (double)step->split.exposed_ns / step->timed;
    }
    if (!step->sent_bytes) return;
    sums->sent_steps++;
    for (int rank = 0; rank < step->ranks; rank++) side->sent_bytes += (double)step->sent_bytes[rank] / step->ranks;
}

static void side_finish(struct why_side *side, const struct sums *sums)
{
    if (!side->steps) return;
    side->step_ns = (double)sums->total_ns / side->steps;
    side->tokens_per_s = sums->total_ns ? (double)sums->tokens * 1e9 / (double)sums->total_ns : 0;
    side->has_sent = sums->sent_steps > 0;
    side->has_exposed = sums->timed_steps > 0;
    if (side->has_sent) side->sent_bytes /= sums->sent_steps;
    if (side->has_exposed) side->exposed_ns /= sums->timed_steps;
}

/* The last whole steps of [from, to), or the first. */
static struct why_side side_of(const struct run_model *model, uint32_t from, uint32_t to, bool last)
{
    struct why_side side = {0};
    struct sums sums = {0};
    for (int n = 0; n < model->step_count && side.steps < WHY_SWITCH_STEPS; n++) {
        const struct run_step *step = &model->steps[last ? model->step_count - 1 - n : n];
        const bool counts = run_step_is_whole(step) && !step->skipped;
        if (step->step >= from && step->step < to && counts) side_add(&side, &sums, step);
    }
    side_finish(&side, &sums);
    return side;
}

int why_switches(const struct run_model *model, struct why_switch out[], int room)
{
    struct why_switch found[room + 1]; /* one more: where the steps before the oldest begin */
    int count = list_switches(model, found, room + 1), shown = count < room ? count : room;
    for (int i = 0; i < shown; i++) {
        out[i] = found[i];
        out[i].before = side_of(model, i + 1 < count ? found[i + 1].step : 0, found[i].step, true);
        out[i].after = side_of(model, found[i].step, i ? found[i - 1].step : UINT32_MAX, false);
    }
    return shown;
}
