/* Shared by effect.c and effect_zero.c: tables of keys with what says their sentence. Internal to engine/plan. */
#ifndef ENGINE_PLAN_EFFECT_PARTS_H
#define ENGINE_PLAN_EFFECT_PARTS_H

#include "engine/plan/effect.h"

struct effect_text { char *text; size_t room; };

void effect_say(const struct effect_text *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

struct effect_row {
    const char *path;
    void (*say)(const struct effect_text *out, const struct effect_run *run);
};

extern const struct effect_row effect_rows[], effect_zero_rows[];
extern const int effect_row_count, effect_zero_count;

/* Bytes of a category over all tiers: at rest, and at its fullest. */
int64_t effect_resting_bytes(const struct effect_run *run, enum category category);
int64_t effect_peak_bytes(const struct effect_run *run, enum category category);

int effect_ops(const struct effect_run *run, enum op_kind kind);

#endif
