/* Named figures, each put once: into an object of JSON under its name, and into a list under its label. Of two lists the differences
 * are made, figure by figure; names in JSON are a promise (docs/JSON.md). */
#ifndef ENGINE_ADVISE_FIGURES_H
#define ENGINE_ADVISE_FIGURES_H

#include <stdbool.h>

struct cJSON;

/* TIME is put in ns and is seconds in JSON; SHARE is of 1, RATE bytes a second. */
enum figure_unit { FIGURE_STAGE, FIGURE_COUNT, FIGURE_BYTES, FIGURE_TIME, FIGURE_SHARE, FIGURE_RATE, FIGURE_LOSS };

/* What is planned, or counted, is the same in equal runs; what was measured depends on how the lanes met. */
enum figure_source { FIGURE_COUNTED, FIGURE_PLANNED, FIGURE_MEASURED };

struct figure { char label[48]; enum figure_unit unit; enum figure_source source; bool known; double value; };

enum { FIGURES_MAX = 256 };
struct figures {
    struct cJSON *json;         /* where figures go that have a name; NULL: nowhere */
    bool labelled;              /* those with a label are kept */
    const char *of;             /* begins the labels: "all_gather: "; NULL: nothing */
    enum figure_source source;  /* of bytes that are put next */
    int count;
    struct figure at[FIGURES_MAX];
};

/* Either may be NULL: no name in JSON, no label. */
void figures_put(struct figures *figures, const char *name, const char *label, enum figure_unit unit, bool known, double value);

/* Whether it is the same in equal runs. */
bool figure_is_exact(const struct figure *figure);
bool figure_same(const struct figure *one, const struct figure *other);
/* A figure as "12.3 %"; "n/a": not known. */
const char *figure_show(char out[32], const struct figure *figure);
/* Its unit in differences, and how many of them it is: "ms", "MB/s". */
const char *figure_unit_name(const struct figure *figure);
double figure_in_unit(const struct figure *figure);

#endif
