/* What trains in a job, from its collectives: a guess with its evidence. Several schemes send the same: then both are named. */
#include <stdio.h>
#include <string.h>

#include "engine/base/words.h"
#include "engine/import/job.h"

/* Words that only one program writes into its traces. What stands first counts. */
static const struct {
    const char *begins, *what, *program;
} signs[] = {
    {"FSDP::", "FSDP (FSDP2)", "FSDP2"},
    {"FullyShardedDataParallel.", "FSDP (FSDP1)", "FSDP1"},
    {"LinearFunctionForZeroStage3", "ZeRO-3", "DeepSpeed's ZeRO-3"},
    {"PreBackwardFunctionForModule", "ZeRO-3", "DeepSpeed's ZeRO-3"},
    {"DistributedDataParallel.", "DDP", "DDP"},
};
enum { SIGNS = sizeof signs / sizeof signs[0], SIGN_OF_DDP = SIGNS - 1 };

unsigned job_sign(const char *name)
{
    for (int i = 0; i < SIGNS; i++)
        if (!strncmp(name, signs[i].begins, strlen(signs[i].begins))) return 1u << i;
    return 0;
}

/* Tensor collectives by kind and phase: how many, how many bytes. Those of less than CONTROL_BYTES carry norms, losses and flags. */
enum { CONTROL_BYTES = 256 };
struct seen {
    int64_t count, bytes;
};

static void look(struct seen seen[OP_KINDS][PHASES], const struct job *job)
{
    const struct job_rank *rank = job_first(job);
    for (int l = 0; rank && l < LANES; l++)
        for (int i = 0; i < rank->lane[l].count; i++) {
            const struct job_op *op = &job->ops[rank->lane[l].at[i].op];
            if (op_lane(op->kind) != LANE_COMM || (op->bytes && op->bytes < CONTROL_BYTES)) continue;
            seen[op->kind][op->phase].count++;
            seen[op->kind][op->phase].bytes += (int64_t)op->bytes;
        }
}

__attribute__((format(printf, 2, 3))) static void say(struct job *job, const char *format, ...)
{
    if (job->evidence_count == JOB_EVIDENCE) return;
    char *text = job->evidence[job->evidence_count++];
    FORMAT_ARGUMENTS(text, sizeof job->evidence[0], format);
}

static void say_collectives(struct job *job, struct seen seen[OP_KINDS][PHASES])
{
    const struct job_rank *rank = job_first(job);
    const int steps = rank && rank->lane[JOB_STEPS].count ? rank->lane[JOB_STEPS].count : 1;
    for (enum op_kind kind = 0; kind < OP_KINDS; kind++)
        for (enum phase phase = 0; phase < PHASES; phase++) {
            const struct seen *at = &seen[kind][phase];
            if (at->count)
                say(job, "collectives: %.3g %s a step in %s, %.6g bytes", (double)at->count / steps,
                    op_name(kind, NULL), phase_name(phase), (double)at->bytes / steps);
        }
}

/* The sign that counts; -1: none. */
static int say_signs(struct job *job)
{
    int first = -1;
    for (int i = SIGNS - 1; i >= 0; i--) {
        if (!(job->signs & 1u << i)) continue;
        if (first < 0 || strcmp(signs[i].program, signs[first].program))
            say(job, "annotations of %s", signs[i].program);
        first = i;
    }
    return first;
}

void job_recognise(struct job *job)
{
    struct seen seen[OP_KINDS][PHASES] = {0};
    look(seen, job);
    const int64_t gathers_before = seen[OP_GATHER][PHASE_FORWARD].count + seen[OP_GATHER][PHASE_BACKWARD].count;
    const int64_t gathers_after = seen[OP_GATHER][PHASE_OPTIMIZER].count;
    int64_t scattered = 0, all_reduced = 0;
    for (enum phase phase = 0; phase < PHASES; phase++) {
        scattered += seen[OP_REDUCE_SCATTER][phase].count;
        all_reduced += seen[OP_ALL_REDUCE][phase].count;
    }
    const int sign = say_signs(job);
    const char *what = "";
    if (sign == SIGN_OF_DDP && gathers_after) what = "DDP with a sharded optimizer (ZeRO-1)";
    else if (sign >= 0) what = signs[sign].what; /* a mark says more than any collective */
    else if (gathers_before && scattered) what = "ZeRO-3 (likely)";
    else if (gathers_after && scattered) what = "ZeRO-2 (likely)";
    else if (gathers_after && all_reduced) what = "ZeRO-1 or ZeRO-2 (likely)";
    else if (all_reduced && !gathers_before && !scattered) what = "DDP (likely)";
    snprintf(job->recognised, sizeof job->recognised, "%s", what);
    if (sign < 0 && gathers_before) say(job, "parameters are gathered before their use: they are sharded");
    if (gathers_after)
        say(job, "parameters are gathered after the update: the optimizer is sharded, the parameters are not");
    if (!strcmp(what, "ZeRO-1 or ZeRO-2 (likely)"))
        say(job, "whole gradients are all-reduced, as DeepSpeed does at both stages by default");
    say_collectives(job, seen);
}
