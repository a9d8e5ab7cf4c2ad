#include "engine/advise/theory.h"

#include <stdlib.h>
#include <string.h>

#include "engine/plan/footprint.h"

/* Within: parameters that are gathered from a secondary copy. */
enum class { OF_PARAMETERS, OF_GRADIENTS, OF_WITHIN, CLASSES };

/* How many elements of a unit move in a step, and bytes of one. */
struct moved {
    int64_t elems[CLASSES];
    int bytes[CLASSES];
};

static int class_of(const struct schedule *schedule, const struct op *op)
{
    if (op_is_within(schedule, op)) return OF_WITHIN;
    if (op->kind == OP_GATHER || op->kind == OP_REFRESH) return OF_PARAMETERS;
    return op->kind == OP_REDUCE_SCATTER || op->kind == OP_ALL_REDUCE ? OF_GRADIENTS : -1;
}

static void count_moves(struct moved *moved, int units, const struct schedule *schedule)
{
    for (int i = 0; i < schedule->op_count; i++) {
        const struct op *op = &schedule->ops[i];
        const int class = class_of(schedule, op), times = op->kind == OP_ALL_REDUCE ? 2 : 1;
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
                     const struct schedule *schedule, double *largest)
{
    const struct volume volume = traffic_theory_volume(schedule);
    const int times[CLASSES] = {volume.parameters, volume.gradients, volume.within}, k = times[class];
    const int ranks = schedule->ranks, among = class == OF_WITHIN ? schedule->knobs.hpz_partition : ranks;
    const int64_t padded = shard_elems(unit->elems, ranks) * ranks, elems = moved->elems[class];
    const double share = (double)(among - 1) / among * moved->bytes[class];
    const bool whole = elems % padded == 0;
    const double padding = whole ? (double)(elems / padded * (padded - unit->elems)) : 0;
    const double other = ((double)elems - padding - (double)k * (double)unit->elems) * share;
    theory->planned_bytes += (double)elems * share;
    theory->padding_bytes += padding * share;
    *(class == OF_GRADIENTS ? &theory->gradient_bytes : &theory->parameter_bytes) += other;
    if ((other < 0 ? -other : other) <= *largest) return;
    *largest = other < 0 ? -other : other;
    memcpy(theory->unit, unit->name, sizeof theory->unit);
    theory->unit_times = ((double)elems - padding) / (double)unit->elems;
    theory->unit_is_gradient = class == OF_GRADIENTS;
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
    theory->parameters = volume.parameters + volume.within;
    theory->within = volume.within;
    theory->gradients = volume.gradients;
    count_moves(moved, header->unit_count, &plan->ops);
    for (int u = 0; u < header->unit_count; u++)
        for (int class = 0; class < CLASSES; class ++)
            if (header->units[u].elems > 0 && (class != OF_WITHIN || volume.within))
                add_unit(theory, &moved[u], &header->units[u], class, &plan->ops, &largest);
    theory->paper_bytes =
        theory->planned_bytes - theory->padding_bytes - theory->parameter_bytes - theory->gradient_bytes;
    free(moved);
}
