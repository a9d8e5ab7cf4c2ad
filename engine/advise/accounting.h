/* Compares other programs' counts of bytes per parameter with a schedule's, array by array, so that every difference
 * has a name. Calculators and courses say 12, 16, 18, 20 or 36, because they count different arrays; accountings.def
 * holds their counts. Our side is no formula: it sums the buffers that a schedule keeps between steps, over all tiers.
 *
 *     accounting_find(&preset, "ds18", &err)  ->  accounting_hold(&held, preset, &setup)  ->  held.line[...] */
#pragma once

#include <stdio.h>

#include "engine/plan/setup.h"

/* An array that is counted at some stages; cut_from: the stage from which on a rank has 1/N of it. */
struct accounting_part { enum category category; const char *array; int bytes; const char *stages; int cut_from; };

enum { ACCOUNTING_PARTS_MAX = 7 }; /* the list ends with a part of 0 bytes */
struct accounting { const char *name, *stages, *who, *why; struct accounting_part parts[ACCOUNTING_PARTS_MAX]; };

enum {
    ACCOUNTINGS = 0
#define ACCOUNTING(...) +1
#include "engine/advise/accountings.def"
#undef ACCOUNTING
};
extern const struct accounting accounting_table[ACCOUNTINGS];

/* Finds a preset by name. STATUS_USAGE: there is none; the error names the nearest. */
int accounting_find(const struct accounting **out, const char *name, struct error *err);

bool accounting_speaks_of(const struct accounting *accounting, int stage);
/* Bytes per parameter that the preset counts on each of N ranks: whole + cut / N. */
struct accounting_sum { int whole, cut; };
struct accounting_sum accounting_sum_of(const struct accounting *accounting, int stage);
/* "2 + 14/N", "16/N", "16"; of " Psi": "16 Psi". */
const char *accounting_sum_text(char text[32], struct accounting_sum sum, const char *of);
double accounting_bytes(const struct accounting *accounting, int stage, int ranks);

/* One array as both sides count it, in bytes per parameter; 0: that side does not count it. */
struct accounting_side { int bytes; bool cut; double held; };
struct accounting_line { enum category category; const char *array; struct accounting_side theirs, ours; };

enum { ACCOUNTING_LINES_MAX = 20 };
struct accounting_held {
    int count;
    struct accounting_line line[ACCOUNTING_LINES_MAX]; /* by category; the preset's arrays first */
    double theirs, ours, padding; /* sums over the lines; padding of shards to equal length */
};

/* Compares at the setup's stage and ranks. If the preset does not cover the stage, fills our side only. */
void accounting_hold(struct accounting_held *held, const struct accounting *accounting, const struct setup *setup);

/* For `zerolab plan --accounting`: compares one preset with a configuration. */
int accounting_print(FILE *out, bool as_json, const struct accounting *accounting, const struct config *config, struct error *err);
