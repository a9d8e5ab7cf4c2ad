/* Other people's formulas for a setup, line by line beside what this engine plans: DeepSpeed's estimators, the tables of ZeRO,
 * ZeRO-Infinity, Megatron-LM and ZeRO++, bus bandwidth. A convention is rows of conventions.def; quantities.def has what its
 * formulas are made of, each with its value in a setup. Values that a setup does not have (tensor, sequence and pipeline
 * parallelism, bandwidths) are given as text: "tp=8,pp=4". They enter formulas only; the engine does not run them.
 * accounting.h has the counts of bytes per parameter, array by array.
 *
 *     convention_find(&convention, "zero-states", &err)  ->  convention_print(out, false, convention, &config, &with, &err) */
#pragma once

#include <stdio.h>

#include "engine/base/arithmetic.h"
#include "engine/base/text_list.h"
#include "engine/plan/setup.h"

/* A row of the table. After a convention come its sections with their lines, and the cases for which sums are printed. */
struct convention_row {
    enum convention_kind { CONVENTION, CONVENTION_SECTION, CONVENTION_LINE, CONVENTION_CASE } kind;
    const char *label;   /* of a convention: its name; of a section: its title with the unit */
    const char *when;    /* of a line: its condition, or ""; of a convention: its group */
    const char *formula; /* of a section: the label of its sum, or ""; of a case: quantities; of a convention: who counts so */
    const char *ours;    /* of a line: the formula of our figure, or "": there is none */
    const char *why;     /* of a line: why the two differ; of a convention: what it leaves out */
};
extern const struct convention_row convention_rows[];
extern const int convention_row_count;

/* A quantity in formulas. formula: its value if the setup has none, or if a quantity in that formula was given; or "". */
struct quantity_row { const char *name, *meaning, *formula; double least, most; };
enum {
#define QUANTITY(name, least, most, meaning, value, formula) QUANTITY_##name,
#include "engine/advise/quantities.def"
#undef QUANTITY
    QUANTITY_COUNT
};
extern const struct quantity_row quantity_table[QUANTITY_COUNT];

/* The values of one setup. NAN: not known. used: by no formula, by another quantity's formula, or by a convention's own. */
struct quantities {
    double value[QUANTITY_COUNT];
    enum { NOT_GIVEN, GIVEN_AS_IS, GIVEN } given[QUANTITY_COUNT]; /* AS_IS: with the setup's own value */
    enum { UNUSED, USED_WITHIN, USED } used[QUANTITY_COUNT];
};

void quantities_of(struct quantities *quantities, const struct setup *setup, const struct config *config);
/* Takes "tp=8,memory=32GB". STATUS_USAGE: a name or value is wrong. */
int quantities_give(struct quantities *quantities, const char *text, struct error *err);
/* quantities_value(): the value of a formula; marks the quantities in it as used. *given (may be NULL): one of them was given.
 * quantities_numbers(): the formula with numbers in place of names. */
double quantities_value(struct quantities *quantities, const char *formula, bool *given);
void quantities_numbers(struct quantities *quantities, char *text, size_t room, const char *formula);

/* STATUS_USAGE: there is none; the error names the nearest, of accounting.h's names too. */
int convention_find(const struct convention_row **out, const char *name, struct error *err);
/* The answer: lines and sums of the sections that apply, and the sums in every case, as --json prints them (docs/JSON.md). NULL: err says
 * why; a quantity is unknown, or the convention does not use it (STATUS_USAGE). The caller deletes it. */
struct cJSON;
struct cJSON *convention_facts(const struct convention_row *convention, const struct config *config, const struct text_list *with,
                               struct error *err);

/* For `zerolab plan --accounting`: the counts of accounting.h, then all conventions by group; one convention for a configuration. */
int accountings_print(FILE *out, bool as_json, struct error *err);
int convention_print(FILE *out, bool as_json, const struct convention_row *convention, const struct config *config,
                     const struct text_list *with, struct error *err);
