/* `zerolab plan --explain`: every key of the table, those that were given first. For each: its value, who said so, whether
 * it binds (binding.h), what it does in this run (effect.h), and what DeepSpeed's own code does where that differs. */
#ifndef ENGINE_ADVISE_EXPLAIN_H
#define ENGINE_ADVISE_EXPLAIN_H

#include <stdio.h>

#include "engine/advise/binding.h"

/* `name` is what the configuration is called in the heading. At most 80 columns. */
int explain_print(FILE *out, const struct config *config, const char *name, struct error *err);

/* {"config": ..., "keys": [{"key": ..., "class": "honoured | no effect | refused", "value": ..., "from": ..., ...}]} */
int explain_print_json(FILE *out, const struct config *config, const char *name, struct error *err);

/* ---- between explain.c and explain_print.c ---- */

enum explain_part { EXPLAIN_GIVEN, EXPLAIN_NOT_GIVEN, EXPLAIN_WITHOUT_EFFECT, EXPLAIN_REFUSED, EXPLAIN_PARTS };

struct explained {
    const struct config_key *key;
    enum explain_part part;
    const char *from;                /* "file", "--set", "auto", "default", "derived" (follows from other keys), "": not given */
    char spelling[CONFIG_PATH_MAX];  /* in the file, where that is another one; "" */
    char value[80];                  /* as one types it; of a key without effect: as given */
    struct binding binding;
    char why[400];                   /* the reason for the verdict */
    char note[400];                  /* what was said when it was read: what "auto" became, what else it depends on */
    char effect[400];                /* what it does in this run, or why nothing */
};

/* In the order of the page; aliases are left out. The caller frees. NULL: no memory. */
struct explained *explain_keys(const struct config *config, const struct setup *setup, int *count);

#endif
