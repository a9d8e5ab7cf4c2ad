#include "engine/advise/theory.h"

#include <stdlib.h>
#include <string.h>

#include "engine/plan/footprint.h"

/* How many elements of a unit move in a step, and bytes of one; [0] parameters, [1] gradients. */
struct moved {
    int64_t elems[2];
    int bytes[2];
};

static int class_of(enum op_kind kind)
{
    if (kind == OP_GATHER || kind == OP_REFRESH) return 0;
    return kind == OP_REDUCE_SCATTER || kind == OP_ALL_REDUCE ? 1 : -1;
}

static void count_moves(struct moved *moved, int units, const struct schedule *schedule)
{
    for (int i = 0; i < schedule->op_count; i++) {
        const struct op *op = &schedule->ops[i];
        const int class = class_of(op->kind), times = op->kind == OP_ALL_REDUCE ? 2 : 1;
        for (int p = 0; class >= 0 && p < op->piece_count; p++) {
            const struct piece *piece = &schedule->pieces[op->first_piece + p];
            if (piece->unit < 0 || piece->unit >= units) continue;
            moved[piece->unit].elems[class] += piece->elems * times;
            moved[piece->unit].bytes[class] = dtype_bytes(schedule->buffers[piece->source].dtype);
        }
    }
}

/* Whole units moved so often carry their padding each time; parts of units carry none. */
static void add_unit(struct theory *theory, const struct moved *moved, const struct run_unit *unit, int class,
                     int ranks, double *largest)
{
    const int64_t padded = shard_elems(unit->elems, ranks) * ranks, elems = moved->elems[class];
    const double share = (double)(ranks - 1) / ranks * moved->bytes[class];
    const bool whole = elems % padded == 0;
    const double padding = whole ? (double)(elems / padded * (padded - unit->elems)) : 0;
    const int k = class ? theory->gradients : theory->parameters;
    const double other = ((double)elems - padding - (double)k * (double)unit->elems) * share;
    theory->planned_bytes += (double)elems * share;
    theory->padding_bytes += padding * share;
    *(class ? &theory->gradient_bytes : &theory->parameter_bytes) += other;
    if ((other < 0 ? -other : other) <= *largest) return;
    *largest = other < 0 ? -other : other;
    memcpy(theory->unit, unit->name, sizeof theory->unit);
    theory->unit_times = ((double)elems - padding) / (double)unit->elems;
    theory->unit_is_gradient = class == 1;
}

/* A class that never moves has no bytes of its own; the paper's k is 0 there too. */
void theory_of(struct theory *theory, const struct run_model *model, const struct run_schedule *plan)
{
    const struct run_header *header = &model->header;
    *theory = (struct theory){0};
    if (!plan || !plan->has_ops || header->unit_count <= 0 || plan->ops.ranks < 2) return;
    struct moved *moved = calloc((size_t)header->unit_count, sizeof *moved);
    if (!moved) return;
    const struct volume volume = traffic_theory_volume(&plan->ops);
    double largest = 0.5;
    theory->known = true;
    theory->parameters = volume.parameters;
    theory->gradients = volume.gradients;
    count_moves(moved, header->unit_count, &plan->ops);
    for (int u = 0; u < header->unit_count; u++)
        for (int class = 0; class < 2; class ++)
            if (header->units[u].elems > 0)
                add_unit(theory, &moved[u], &header->units[u], class, plan->ops.ranks, &largest);
    theory->paper_bytes =
        theory->planned_bytes - theory->padding_bytes - theory->parameter_bytes - theory->gradient_bytes;
    free(moved);
}
