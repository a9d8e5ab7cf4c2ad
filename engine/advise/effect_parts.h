/* Shared by effect.c and its tables of keys, each with what says its sentence: effect_{training,machine,zero}.c. Internal to
 * engine/plan. */
#ifndef ENGINE_ADVISE_EFFECT_PARTS_H
#define ENGINE_ADVISE_EFFECT_PARTS_H

#include "engine/advise/effect.h"

struct effect_text { char *text; size_t room; };

void effect_say(const struct effect_text *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

struct effect_row {
    const char *path;
    void (*say)(const struct effect_text *out, const struct effect_run *run);
};

/* A table ends with a row that has no path. */
extern const struct effect_row effect_training_rows[], effect_machine_rows[], effect_zero_rows[];
static const struct effect_row *const effect_tables[] = {effect_training_rows, effect_machine_rows, effect_zero_rows};
enum { EFFECT_TABLES = sizeof effect_tables / sizeof *effect_tables };

/* Bytes of a category over all tiers: at rest, and at its fullest. */
int64_t effect_resting_bytes(const struct effect_run *run, enum category category);
int64_t effect_peak_bytes(const struct effect_run *run, enum category category);

int effect_ops(const struct effect_run *run, enum op_kind kind);

#endif
