/* Computes the totals of `zerolab analyze`: one section per training schedule of a trace, so that the stages of one run
 * can be compared. Reads a trace of any length once, in bounded memory.
 *
 *     struct analysis analysis;
 *     if (analysis_read(&analysis, path, &options, &err)) ...
 *     template_print(stdout, analysis_page, facts);          of analysis_facts(&analysis)
 *     analysis_release(&analysis); */
#pragma once

#include "engine/base/error.h"
#include "engine/observe/totals.h"

struct analysis_peak { struct run_instant instant; uint32_t step; }; /* the fullest instant, within a step */

struct analysis_loss { uint32_t step; float loss; };

/* The steps of one schedule. */
struct analysis_section {
    uint32_t schedule, first_step, last_step;
    int stage, ranks;
    int missing;                     /* ranks of which another program's trace has no records */
    int64_t steps, skipped, timed;   /* steps with an update; without; with an update and no lost record */
    uint64_t total_ns, tokens;       /* sums over `steps`; total_ns: of the slowest rank */
    float first_loss, last_loss;
    struct analysis_loss *losses;    /* of steps with an update, in trace order; a step that was retried appears twice */
    int loss_count, loss_room;
    struct critical critical;        /* sum over the timed steps */
    struct totals *rank;             /* [ranks], sums over the timed steps */
    struct analysis_peak (*peak)[TIERS]; /* [ranks], over all its steps */
    bool has_knobs;
    struct config_zero knobs;
    struct run_predicted tier[TIERS];         /* planned, for each rank */
    struct run_traffic planned[TRAFFIC_KINDS]; /* count and sent_bytes of one step, summed over `ranks` ranks and all links */
    uint64_t theory_bytes;                    /* the paper's formula, one rank and step; 0: unknown */
};

struct analysis {
    char *path;
    struct run_model *model; /* the whole trace, folded */
    struct history *history;       /* of the end of the trace */
    struct analysis_section *sections;
    int section_count;
    uint64_t records;
    uint64_t added_ns;       /* begin of the step that was added last */
    char defect[256];        /* why the trace has no proper end; "": it has */
};

struct analysis_options {
    uint32_t from_step, to_step; /* both included; 0: no limit */
    /* Called every 65,536 records; may be NULL. */
    void (*progress)(void *user, uint64_t records, uint32_t step);
    void *user;
};

/* STATUS_INPUT: not a trace, or no whole step of the window in it. STATUS_RUN: no memory. Damage after the first whole step
 * only sets `defect`. */
int analysis_read(struct analysis *analysis, const char *path, const struct analysis_options *options, struct error *err);
void analysis_release(struct analysis *analysis);

/* The same for a run in progress: begin it, then take the records that have arrived, as often as wanted. */
struct source;
int analysis_begin(struct analysis *analysis, const char *path, struct error *err);
int analysis_take(struct analysis *analysis, struct source *source, const struct analysis_options *options,
                  struct error *err);

bool analysis_has_rank(const struct analysis_section *section, int rank); /* false: the trace has no records of it */

/* Sums of one rank, or (-1) of all. Returns the divisor that makes them means per rank and step; 0: every step has lost
 * records. */
double analysis_sum(struct totals *sum, const struct analysis_section *section, int rank);

/* ---- figures ---- */

/* Named figures. Each is put once: into a JSON object under its name, and into a list under its label. --diff compares
 * two such lists figure by figure. Names in JSON are a promise (docs/JSON.md). */
struct cJSON;

/* TIME is put in ns and becomes seconds in JSON; SHARE is 0 to 1; RATE is bytes per second. */
enum figure_unit { FIGURE_STAGE, FIGURE_COUNT, FIGURE_BYTES, FIGURE_TIME, FIGURE_SHARE, FIGURE_RATE, FIGURE_LOSS };

/* Planned and counted figures are the same in equal runs; measured figures depend on the timing of the lanes. */
enum figure_source { FIGURE_COUNTED, FIGURE_PLANNED, FIGURE_MEASURED };

struct figure { char label[48]; enum figure_unit unit; enum figure_source source; bool known; double value; };

enum { FIGURES_MAX = 256 };
struct figures {
    struct cJSON *json;         /* takes the figures that have a name; NULL: no JSON */
    const char *of;             /* prefix of labels: with "all_gather", "all_gather: ..."; NULL: none */
    enum figure_source source;  /* source of the byte figures put next */
    int count;
    struct figure at[FIGURES_MAX];
};

/* The figures of a section, with the training loss of step loss_step (0: none). */
void analysis_put_section(struct figures *figures, const struct analysis_section *section, uint32_t loss_step, float loss);

/* The report: what --json prints, and the page for it (engine/base/template.h). The caller deletes the object; NULL: no memory. */
struct cJSON *analysis_facts(const struct analysis *analysis);
extern const char analysis_page[];

/* Adds the end of the report: why each tier is as full as it is, and what a step waits for. */
void analysis_add_why(struct cJSON *facts, const struct analysis *analysis);

/* ---- two traces ---- */

/* A section of trace A and the matching one of trace B; NULL: that side has none. */
struct analysis_pair {
    const struct analysis_section *side[2];
    uint32_t loss_step; /* the last step whose training loss both have; 0: none */
    float loss[2];      /* the training loss of that step */
};

/* Pairs sections of equal stage and number of ranks, in order; then the remaining ones of both, in order; then those that only
 * one has. Sets *pairs, which the caller frees; returns how many, -1: no memory. */
int analysis_pairs(struct analysis_pair **pairs, const struct analysis *left, const struct analysis *right);

/* A figure that differs, as the page of differences writes it. */
struct analysis_difference { char label[48], value[2][32]; };

/* The figures that a screen of two runs highlights, most important first: of the pair whose section of A has that step, or of the
 * first pair. Returns how many, at most `room`; *pair: the pair, of which a side is NULL where that trace has no section. */
int analysis_differences(struct analysis_difference *out, int room, struct analysis_pair *pair, const struct analysis *left,
                         const struct analysis *right, uint32_t step);

/* The training losses of steps that both traces have, in order of steps; of a retried step, the last one. relative:
 * (b - a) / |a|. Sets *losses, which the caller frees; returns how many, -1: no memory. */
struct analysis_losses { uint32_t step; float a, b; double relative; };
int analysis_losses(struct analysis_losses **losses, const struct analysis *left, const struct analysis *right);

/* The figures of two traces, side by side, in the same form. *equal: planned bytes, sent bytes and counts are equal; times, losses
 * and measured peaks are not compared. */
struct cJSON *analysis_diff_facts(const struct analysis *left, const struct analysis *right, bool *equal);
extern const char analysis_diff_page[];
