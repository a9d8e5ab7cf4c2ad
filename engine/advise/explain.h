/* `zerolab plan --explain`: prints every configuration key, given ones first: its value, the value's source, whether it
 * binds (binding.h), what it does in this run (effect.c), and what DeepSpeed's own code does if that differs. */
#pragma once

#include <stdio.h>

#include "engine/advise/knobs.h"

/* `name`: the configuration's name in the heading. Lines have at most 80 columns. As JSON:
 * {"config": ..., "keys": [{"key": ..., "class": "honoured | no effect | refused", "value": ..., "from": ..., ...}]} */
int explain_print(FILE *out, bool as_json, const struct config *config, const char *name, struct error *err);

/* ---- the facts on each key ---- */

enum explain_part { EXPLAIN_GIVEN, EXPLAIN_NOT_GIVEN, EXPLAIN_WITHOUT_EFFECT, EXPLAIN_REFUSED };

struct explained {
    struct knob knob;                /* its effect: what it does in this run, or why nothing */
    enum explain_part part;
    char spelling[CONFIG_PATH_MAX];  /* the key's spelling in the file if it differs; else "" */
    char why[400];                   /* the reason for the verdict */
    char note[400];                  /* notes from reading it: what "auto" became, which other keys it depends on */
};

/* All keys but aliases, in the order of the page; sets *count. The caller frees the array. NULL: no memory. */
struct explained *explain_keys(const struct config *config, const struct setup *setup, int *count);
