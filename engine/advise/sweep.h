/* Plans every combination of some values of some keys, and keeps the figures of each plan as a row of a table.
 *
 *     sweep_add(&sweep, "zero_optimization.stage=0,1,2,3", &err)      each --sweep: STATUS_USAGE
 *     sweep_plan(&sweep, &loader, &err)                               every row: figures, or why it was refused
 *     sweep_print_csv(out, &sweep);
 *     sweep_release(&sweep);
 *
 * A row is the configuration that --set KEY=VALUE gives for its values, planned as `zerolab plan` plans it, so the figures are
 * the same. Rows are in the order of the values, those of the first key outermost. */
#pragma once

#include <stdio.h>

#include "engine/config/config.h"
#include "engine/simulate/hardware.h"

enum { SWEEP_KEYS_MAX = 3, SWEEP_SETS_MAX = 16, SWEEP_VALUES_MAX = 64, SWEEP_ROWS_MAX = 4096, SWEEP_VALUE_ROOM = 48 };

/* Figures of a rank's memory in a tier: each category's bytes at the tier's peak (their sum is the peak), then these. */
enum { SWEEP_PEAK = CATEGORIES, SWEEP_RESTING, SWEEP_BUDGET, SWEEP_PARTS };

enum {
#define FIGURE(ID, name, value) SWEEP_##ID,
#include "engine/advise/sweep.def"
#undef FIGURE
    SWEEP_MEMORY,
    SWEEP_TRAFFIC = SWEEP_MEMORY + TIERS * SWEEP_PARTS,
    SWEEP_FIGURES = SWEEP_TRAFFIC + TRAFFIC_CONTROL
};

static inline int sweep_memory(int tier, int part)
{
    return SWEEP_MEMORY + tier * SWEEP_PARTS + part;
}

enum { SWEEP_NAME_ROOM = 48 };
/* "device_optimizer_bytes": the name in CSV and JSON, with its unit. Returns out. */
const char *sweep_figure_name(char out[SWEEP_NAME_ROOM], int figure);

struct sweep_key { char path[CONFIG_PATH_MAX]; int count; char value[SWEEP_VALUES_MAX][SWEEP_VALUE_ROOM]; };
struct sweep_row { char *refusal; double figure[SWEEP_FIGURES]; }; /* refusal NULL: the row was planned. figure NAN: unknown */

struct sweep {
    int key_count, row_count;
    struct sweep_key key[SWEEP_KEYS_MAX];
    const char *const *sets; /* [set_count]: "KEY=VALUE" of every row, before its own; borrowed */
    int set_count;           /* at most SWEEP_SETS_MAX */
    struct sweep_row *rows;  /* [row_count], owned */
    char *notes;            /* notes on the first configuration that loads; NULL: none; owned */
};

struct sweep_loader {
    /* Loads the configuration with these "KEY=VALUE"; the sweep releases it. */
    int (*load)(void *user, struct config *config, const char *const *sets, int count, struct error *err);
    void *user;
    const struct hardware *hardware; /* steps are simulated on it; NULL: not simulated */
};

/* Reads KEY=A,B,... A value may be a range of whole numbers: 1..8, 0..100+25, or 1..64*2. STATUS_USAGE: an unknown key, one that is swept
 * already, a value that the key cannot have, or that is there twice. */
int sweep_add(struct sweep *sweep, const char *text, struct error *err);
bool sweep_sets(const struct sweep *sweep, const char *typed); /* whether this key is swept */
/* Loads the configuration of a row, which the caller releases. */
int sweep_load(struct config *config, const struct sweep *sweep, int row, const struct sweep_loader *loader, struct error *err);
/* May be called again. STATUS_USAGE: too many rows, or every one was refused: err has the reason of the first. Errors other than
 * STATUS_USAGE end it. */
int sweep_plan(struct sweep *sweep, const struct sweep_loader *loader, struct error *err);
void sweep_release(struct sweep *sweep);

/* Which value of a key a row has. */
int sweep_at(const struct sweep *sweep, int row, int key);

/* The table, as text in 80 columns where it fits, as CSV (RFC 4180, but lines end with a line feed) with all figures, and as JSON. */
void sweep_print(FILE *out, const struct sweep *sweep);
void sweep_print_csv(FILE *out, const struct sweep *sweep);
int sweep_print_json(FILE *out, const struct sweep *sweep, struct error *err);
