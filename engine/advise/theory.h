/* The traffic that a schedule plans, held against the paper's k x Psi x (N-1)/N, and what the difference is made of. */
#ifndef ENGINE_ADVISE_THEORY_H
#define ENGINE_ADVISE_THEORY_H

#include "engine/observe/questions.h"

/* Bytes that one rank sends in a step, mean over ranks. planned = paper + padding + parameters + gradients. */
struct theory {
    bool known;
    int parameters, gradients;            /* the paper's k: how often all of them are sent */
    double paper_bytes, planned_bytes;
    double padding_bytes;                 /* of shards, each time a unit moves */
    double parameter_bytes, gradient_bytes; /* units, or parts of them, that move more or less often than k */
    char unit[24];                        /* the one that makes most of it; "": none does */
    double unit_times;                    /* how often it moves: parameters, else gradients */
    bool unit_is_gradient;
};

/* Unknown without the schedule's operations or the model's units. */
void theory_of(struct theory *theory, const struct run_model *model, const struct run_schedule *plan);

#endif
