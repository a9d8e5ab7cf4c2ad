/* Planned traffic compared with the paper's k x Psi x (N-1)/N (Psi parameters, N ranks, k sends per step), and the parts of the
 * difference. */
#pragma once

#include "engine/observe/questions.h"
#include "engine/plan/footprint.h"

/* Bytes that one rank sends in a step, mean over ranks. planned = paper + padding + parameters + gradients. */
struct theory {
    bool known;
    int parameters, gradients;            /* k: sends of all of them per step */
    double paper_bytes, planned_bytes;
    double padding_bytes;                 /* padding of shards, counted each time a unit is sent */
    double parameter_bytes, gradient_bytes; /* bytes of units, or parts of them, that move more or less often than k */
    char unit[24];                        /* the unit with the largest difference; "": none */
    double unit_times;                    /* sends of its parameters per step, or of its gradients */
    bool unit_is_gradient;
};

/* "2 x 3 Psi (S-1)/S + 2 x 2 Psi/S (R-1)/R, S = 2, R = 2": bytes of an element, and how often all are sent, by group. bytes: of an
 * element that is not quantized; psi: the letter for all elements. Returns text. */
const char *theory_formula(char *text, size_t room, const struct schedule *schedule, const char *psi, int bytes);

/* Fills *theory. `known` is false without operations, units, a second rank, or memory. */
void theory_of(struct theory *theory, const struct run_model *model, const struct run_schedule *plan);
