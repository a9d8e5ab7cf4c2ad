/* Parses the details of events. "oom": bytes by category at that instant, bytes wanted, changes that would fit.
 * "checkpoint": a save has begun, is complete, or failed. */
#include <string.h>

#include "engine/base/json.h"
#include "engine/base/named.h"
#include "engine/observe/fold.h"

int64_t json_count(const cJSON *object, const char *key)
{
    return (int64_t)json_get_number(object, key, 1e18, RUN_UNKNOWN);
}

NAMED(tier, TIERS)
NAMED(category, CATEGORIES)

/* A category that the event does not name held nothing. */
static void read_held(struct run_shortage *shortage, const cJSON *held)
{
    shortage->has_held = cJSON_IsObject(held);
    for (int category = 0; category < CATEGORIES; category++) {
        int64_t bytes = json_count(held, category_name(category));
        shortage->held_bytes[category] = bytes == RUN_UNKNOWN ? 0 : bytes;
    }
}

static void read_knobs(struct run_shortage *shortage, const cJSON *detail)
{
    if (shortage->category >= 0)
        json_copy_text(shortage->knobs[shortage->category], sizeof *shortage->knobs, detail, "knob");
    const cJSON *knobs = json_get(detail, "knobs");
    for (int c = 0; c < CATEGORIES; c++)
        if (json_get(knobs, category_name(c)))
            json_copy_text(shortage->knobs[c], sizeof *shortage->knobs, knobs, category_name(c));
}

/* Returns how many there was room for, after the first `slot`. */
static int read_fits(struct run_shortage *shortage, int slot, const cJSON *fits)
{
    const int first = slot;
    const cJSON *fit;
    cJSON_ArrayForEach(fit, fits)
    {
        if (slot == RUN_FITS_MAX) break;
        json_copy_text(shortage->fits[slot].command, sizeof shortage->fits[slot].command, fit, "command");
        shortage->fits[slot++].peak_bytes = json_count(fit, "peak_bytes");
    }
    return slot - first;
}

static void read_also(struct run_shortage *shortage, const cJSON *ranks)
{
    const cJSON *rank;
    cJSON_ArrayForEach(rank, ranks) if (cJSON_IsNumber(rank) && rank->valueint >= 0 && rank->valueint < 64)
        shortage->also_ranks |= UINT64_C(1) << rank->valueint;
}

void shortage_read(struct run_shortage *shortage, const cJSON *detail)
{
    memset(shortage, 0, sizeof *shortage);
    shortage->known = true;
    int64_t rank = json_count(detail, "rank");
    shortage->rank = rank < TRACE_RANK_ALL ? (int)rank : RUN_UNKNOWN;
    shortage->tier = tier_named(json_get_text(detail, "tier"));
    shortage->category = category_named(json_get_text(detail, "category"));
    shortage->wanted_bytes = json_count(detail, "wanted_bytes");
    shortage->budget_bytes = json_count(detail, "budget_bytes");
    shortage->reserved_bytes = json_count(detail, "reserved_bytes");
    json_copy_text(shortage->op, sizeof shortage->op, detail, "op");
    json_copy_text(shortage->text, sizeof shortage->text, detail, "text");
    read_held(shortage, json_get(detail, "held_bytes"));
    read_knobs(shortage, detail);
    read_also(shortage, json_get(detail, "also_ranks"));
    shortage->has_fits = cJSON_IsArray(json_get(detail, "fits"));
    shortage->fit_count = read_fits(shortage, 0, json_get(detail, "fits"));
    shortage->larger_count = read_fits(shortage, shortage->fit_count, json_get(detail, "larger"));
}

bool run_notice_shortage(struct run_shortage *shortage, const struct run_notice *notice)
{
    if (notice->kind != NOTICE_EVENT || strncmp(notice->text, "oom", 3) != 0 || !notice->json) return false;
    cJSON *json = cJSON_Parse(notice->json);
    shortage_read(shortage, json_get(json, "detail"));
    cJSON_Delete(json);
    return true;
}

void save_read(struct run_save *save, const cJSON *detail, uint32_t step, uint64_t time_ns)
{
    const char *state = json_get_text(detail, "state");
    if (!state) return;
    json_copy_text(save->tag, sizeof save->tag, detail, "tag");
    save->saving = strcmp(state, "saving") == 0;
    save->failed = strcmp(state, "failed") == 0;
    if (!save->failed) json_copy_text(save->folder, sizeof save->folder, detail, "folder");
    else if (!*save->saved_tag) *save->folder = '\0';
    if (save->failed) {
        save->failed_ns = time_ns;
        save->lost_step = step;
        json_copy_text(save->lost_tag, sizeof save->lost_tag, detail, "tag");
    }
    if (strcmp(state, "saved") != 0) return;
    json_copy_text(save->saved_tag, sizeof save->saved_tag, detail, "tag");
    save->saved_ns = time_ns;
    if (step >= save->lost_step) *save->lost_tag = '\0'; /* an older one may end later, in the background */
    const int64_t bytes = json_count(detail, "bytes");
    save->saved_bytes = bytes == RUN_UNKNOWN ? 0 : (uint64_t)bytes;
}
