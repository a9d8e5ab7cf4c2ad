#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/advise/effect_parts.h"

typedef const struct effect_text *out_t;
typedef const struct effect_run *run_t;

void effect_say(const struct effect_text *out, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(out->text, out->room, format, args);
    va_end(args);
}

int64_t effect_resting_bytes(const struct effect_run *run, enum category category)
{
    int64_t bytes = 0;
    for (int tier = 0; tier < TIERS; tier++) bytes += run->setup->footprint.category[tier][category].resting_bytes;
    return bytes;
}

int64_t effect_peak_bytes(const struct effect_run *run, enum category category)
{
    int64_t bytes = 0;
    for (int tier = 0; tier < TIERS; tier++) bytes += run->setup->footprint.category[tier][category].peak_bytes;
    return bytes;
}

int effect_ops(const struct effect_run *run, enum op_kind kind)
{
    int count = 0;
    for (int i = 0; i < run->setup->schedule.op_count; i++) count += run->setup->schedule.ops[i].kind == kind;
    return count;
}

struct effect_run effect_run_of(const struct config *config, const struct setup *setup)
{
    struct effect_run run = {.config = config, .setup = setup, .step = step_counts_of(setup)};
    traffic_of(run.traffic, &setup->schedule, &setup->model, 0);
    run.sent_bytes = setup_sent_bytes(setup, 0);
    return run;
}

static const struct effect_row *row_of(const char *path)
{
    for (int t = 0; t < EFFECT_TABLES; t++)
        for (const struct effect_row *row = effect_tables[t]; row->path; row++)
            if (strcmp(row->path, path) == 0) return row;
    return NULL;
}

/* True, and said, where the key's section has an `enabled` that is false. */
static bool is_switched_off(out_t out, run_t run, const char *path)
{
    char enabled[CONFIG_PATH_MAX + 16];
    const char *dot = strrchr(path, '.');
    if (!dot) return false;
    snprintf(enabled, sizeof enabled, "%.*s.enabled", (int)(dot - path), path);
    int row = key_index(enabled);
    if (row < 0 || config_keys[row].class != CLASS_HONOURED || !strcmp(enabled, path)) return false;
    if (!key_is_zero(&config_keys[row], run->config)) return false;
    effect_say(out, "nothing to act on: %.*s is off", (int)(dot - path), path);
    return true;
}

void effect_of(char *text, size_t room, const struct config_key *key, const struct effect_run *run)
{
    const struct effect_text out = {text, room};
    *text = '\0';
    if (!binding_in_force(run->config, key->path)) return; /* the verdict says it */
    if (is_switched_off(&out, run, key->path)) return;
    const struct effect_row *row = row_of(key->path);
    if (row) row->say(&out, run);
}
