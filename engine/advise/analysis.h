/* What `zerolab analyze` says of a trace: totals step by step, added up for each schedule that trained, so that the stages
 * of one run stand beside each other. A trace of any length is read once, in bounded memory.
 *
 *     struct analysis analysis;
 *     if (analysis_read(&analysis, path, &options, &err)) ...
 *     analysis_print(&analysis, stdout);
 *     analysis_release(&analysis); */
#ifndef ENGINE_ADVISE_ANALYSIS_H
#define ENGINE_ADVISE_ANALYSIS_H

#include <stdio.h>

#include "engine/advise/figures.h"
#include "engine/base/error.h"
#include "engine/observe/totals.h"

struct analysis_peak { struct run_instant instant; uint32_t step; }; /* the fullest instant, within a step */

struct analysis_loss { uint32_t step; float loss; };

/* The steps of one schedule. */
struct analysis_section {
    uint32_t schedule, first_step, last_step;
    int stage, ranks;
    int64_t steps, skipped, timed;   /* with an update; without; of those with one, recorded without loss */
    uint64_t total_ns, tokens;       /* of `steps`, slowest rank */
    float first_loss, last_loss;
    struct analysis_loss *losses;    /* of steps with an update, as they came: one that is taken again after an error comes again */
    int loss_count, loss_room;
    struct totals *rank;             /* [ranks], sums over the timed steps */
    struct analysis_peak (*peak)[TIERS]; /* [ranks], over all its steps */
    bool has_knobs;
    struct config_zero knobs;
    struct run_predicted tier[TIERS];         /* planned, each rank */
    struct run_traffic planned[TRAFFIC_KINDS]; /* count and sent_bytes of one step, sums over `ranks` of it; all links */
    uint64_t theory_bytes;                    /* the paper's formula, one rank and step; 0: unknown */
};

struct analysis {
    char *path;
    struct run_model *model; /* the whole trace, folded */
    struct history *history;       /* the end of it */
    struct analysis_section *sections;
    int section_count;
    uint64_t records;
    char defect[256];        /* why the trace has no proper end; "": it has */
};

struct analysis_options {
    uint32_t from_step, to_step; /* both included; 0: no limit */
    /* Now and then, to say how far it is; NULL: nobody wants to know. */
    void (*progress)(void *user, uint64_t records, uint32_t step);
    void *user;
};

/* STATUS_INPUT: not a trace; damaged; no step of the window in it. */
int analysis_read(struct analysis *analysis, const char *path, const struct analysis_options *options, struct error *err);
void analysis_release(struct analysis *analysis);

/* Sums of one rank, or (-1) of all. Returns by how much to divide them for a rank and step; 0: nothing is known, because no
 * step was recorded without loss. */
double analysis_sum(struct totals *sum, const struct analysis_section *section, int rank);

/* The figures of a section; `loss` is of the step, 0: none. */
void analysis_put_section(struct figures *figures, const struct analysis_section *section, uint32_t loss_step, float loss);

/* analysis_print.c, analysis_json.c (caller frees; NULL: no memory), analysis_diff.c */
void analysis_print(const struct analysis *analysis, FILE *out);
char *analysis_json(const struct analysis *analysis);

/* analysis_why.c: the last section of both */
struct cJSON;
void analysis_print_why(const struct analysis *analysis, FILE *out);
struct cJSON *analysis_why_object(const struct analysis *analysis, enum tier tier); /* null: nothing is there, or it is not known */

/* ---- two traces ---- */

/* Sections of A and B; NULL: nothing of the other belongs to it. */
struct analysis_pair {
    const struct analysis_section *side[2];
    uint32_t loss_step; /* the last step of both that was updated; 0: none */
    float loss[2];      /* ... and what was lost in it */
};

/* Sections of one stage and number of ranks, in the order in which they appear; what is left of both then, likewise; and what is
 * left of one. Sets *pairs, which the caller frees; returns how many, -1: no memory. */
int analysis_pairs(struct analysis_pair **pairs, const struct analysis *left, const struct analysis *right);

/* A key whose value at the start was another one. */
struct analysis_key { const char *path; char value[2][80]; };

/* Sets *keys, which the caller frees; returns how many, -1: one of the traces does not say how it was configured. */
int analysis_keys(struct analysis_key **keys, const struct analysis *left, const struct analysis *right);

/* The same figures of two traces, side by side. True: all bytes and counts are equal; times never are. */
bool analysis_diff_print(const struct analysis *left, const struct analysis *right, FILE *out);
char *analysis_diff_json(const struct analysis *left, const struct analysis *right, bool *equal);

#endif
