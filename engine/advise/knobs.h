/* Every configuration key of a run, as it stands at the moment that the viewer looks at: its value, its source, and whether it binds
 * (binding.h). */
#pragma once

#include <stdio.h>

#include "engine/advise/binding.h"
#include "engine/observe/questions.h"

enum knob_source {
    SOURCE_UNKNOWN, /* the trace does not say what was given */
    SOURCE_DEFAULT, SOURCE_FILE, SOURCE_SET, SOURCE_AUTO,
    SOURCE_DERIVED, /* follows from other keys */
    SOURCE_LIVE,    /* changed while the run went on */
};
enum knob_class { KNOB_HONOURED, KNOB_WITHOUT_EFFECT, KNOB_REFUSED };

struct knob {
    const struct config_key *key;
    enum knob_class class;
    char value[80];            /* "": a key that is not honoured and was not given, or a text that is empty */
    const char *unit;          /* "elements"; "": none, or part of the value */
    enum knob_source source;
    uint32_t changed_step;     /* SOURCE_LIVE: the step before which it changed; 0: unknown */
    struct binding binding;
    char effect[400];          /* what the key does in this run, or why nothing; "": no more than its help says */
};

struct knobs {
    uint64_t made_from;        /* hash of the inputs of the list; 0: the list is empty */
    struct step_counts step;   /* of the present configuration */
    int count;
    struct knob list[CONFIG_KEYS_MAX]; /* honoured keys first, ZeRO's before others; no aliases */
};

/* STATUS_INPUT: the trace does not say enough. Set *knobs to zero before the first call; later calls rebuild the list
 * only when the run or a key has changed. */
int knobs_of(struct knobs *knobs, const struct run_model *model, struct error *err);

/* Shared by knobs_of() and explain.c. knob_read() fills in a key's value and source. `value` is the value that was
 * given, and `from` its source, in the words of config_given_next(); where the key was not given, `from` is NULL. */
void knob_read(struct knob *knob, const struct config_key *key, const struct config *config, const char *from, const char *value);
void knob_bind(struct knob *knob, const struct effect_run *run); /* sets its binding and effect */
const char *knob_source_name(enum knob_source source);
/* The value as it is shown: digits of large numbers in groups of three; "no limit" for the number that means it; "none" for an empty value
 * of an honoured key. "": a key that is not honoured and was not given. */
const char *knob_shown(char text[32], const struct knob *knob);

/* ---- explain.c: `zerolab plan --explain`: every configuration key, given ones first: its value, the value's source, whether it
 * binds (binding.h), what it does in this run (effect.c), and what DeepSpeed's own code does if that differs ---- */

/* `name`: the configuration's name in the heading. Lines have at most 80 columns, but for those of long values. As JSON:
 * {"config": ..., "keys": [{"key": ..., "class": "honoured | no effect | refused", "value": ..., "from": ..., ...}]} */
int explain_print(FILE *out, bool as_json, const struct config *config, const char *name, struct error *err);

enum explain_part { EXPLAIN_GIVEN, EXPLAIN_NOT_GIVEN, EXPLAIN_WITHOUT_EFFECT, EXPLAIN_REFUSED };

struct explained {
    struct knob knob;                /* its effect: what it does in this run, or why nothing */
    enum explain_part part;
    char spelling[CONFIG_PATH_MAX];  /* the key's spelling in the file if it differs; else "" */
    char why[400];                   /* why the key binds or not (binding_why()); "": the question does not arise */
    char note[400];                  /* notes from reading it: what "auto" became, which other keys it depends on */
};

/* All keys but aliases, in the order in which explain_print() prints them; sets *count. The caller frees the array. NULL: no memory. */
struct explained *explain_keys(const struct config *config, const struct setup *setup, int *count);
