#include "engine/import/recognise.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *begins;
    enum job_sign sign;
    const char *program;
} signs[] = {
    {"DistributedDataParallel.", SIGN_DDP, "DDP"},
    {"FullyShardedDataParallel.", SIGN_FSDP1, "FSDP1"},
    {"FSDP::", SIGN_FSDP2, "FSDP2"},
    {"LinearFunctionForZeroStage3", SIGN_DEEPSPEED_3, "DeepSpeed's ZeRO-3"},
    {"PreBackwardFunctionForModule", SIGN_DEEPSPEED_3, "DeepSpeed's ZeRO-3"},
};

unsigned sign_of(const char *name)
{
    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++)
        if (!strncmp(name, signs[i].begins, strlen(signs[i].begins))) return signs[i].sign;
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

__attribute__((format(printf, 2, 3))) static void say(struct recognised *out, const char *format, ...)
{
    va_list args;
    if (out->count == EVIDENCE_MAX) return;
    va_start(args, format);
    vsnprintf(out->evidence[out->count++], EVIDENCE_ROOM, format, args);
    va_end(args);
}

static void say_collectives(struct recognised *out, const struct job *job, struct seen seen[OP_KINDS][PHASES])
{
    const struct job_rank *rank = job_first(job);
    const int steps = rank && rank->lane[JOB_STEPS].count ? rank->lane[JOB_STEPS].count : 1;
    for (enum op_kind kind = 0; kind < OP_KINDS; kind++)
        for (enum phase phase = 0; phase < PHASES; phase++) {
            const struct seen *at = &seen[kind][phase];
            if (at->count)
                say(out, "%s: %.3g %s a step in %s, %.6g bytes", "collectives", (double)at->count / steps,
                    op_name(kind, NULL), phase_name(phase), (double)at->bytes / steps);
        }
}

void job_recognise(struct job *job, struct recognised *out)
{
    const unsigned found = job->signs;
    struct seen seen[OP_KINDS][PHASES] = {0};
    memset(out, 0, sizeof *out);
    look(seen, job);
    const int64_t gathers_before = seen[OP_GATHER][PHASE_FORWARD].count + seen[OP_GATHER][PHASE_BACKWARD].count;
    const int64_t gathers_after = seen[OP_GATHER][PHASE_OPTIMIZER].count;
    int64_t scattered = 0, all_reduced = 0;
    for (enum phase phase = 0; phase < PHASES; phase++) {
        scattered += seen[OP_REDUCE_SCATTER][phase].count;
        all_reduced += seen[OP_ALL_REDUCE][phase].count;
    }
    const char *what = "unknown";
    if (found & SIGN_FSDP2) what = "FSDP (FSDP2)";
    else if (found & SIGN_FSDP1) what = "FSDP (FSDP1)";
    else if (found & SIGN_DEEPSPEED_3) what = "ZeRO-3";
    else if (found & SIGN_DDP) what = gathers_after ? "DDP with a sharded optimizer (ZeRO-1)" : "DDP";
    else if (gathers_before && scattered) what = "ZeRO-3 (likely)";
    else if (gathers_after && scattered) what = "ZeRO-2 (likely)";
    else if (gathers_after && all_reduced) what = "ZeRO-1 or ZeRO-2 (likely)";
    else if (all_reduced && !gathers_before && !scattered) what = "DDP (likely)";
    snprintf(out->what, sizeof out->what, "%s", what);
    snprintf(job->recognised, sizeof job->recognised, "%s", strcmp(what, "unknown") ? what : "");
    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++)
        if (found & signs[i].sign && (!i || signs[i].sign != signs[i - 1].sign)) /* a sign may have two rows */
            say(out, "annotations of %s", signs[i].program);
    if (!found && gathers_before) say(out, "parameters are gathered before their use: they are sharded");
    if (gathers_after)
        say(out, "parameters are gathered after the update: the optimizer is sharded, the parameters are not");
    if (!strcmp(what, "ZeRO-1 or ZeRO-2 (likely)"))
        say(out, "whole gradients are all-reduced, as DeepSpeed does at both stages by default");
    say_collectives(out, job, seen);
}
