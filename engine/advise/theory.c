#include "engine/advise/theory.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/words.h"

/* ---- the formula ---- */

/* The letters of a group's size, and of what each of its ranks has to send. */
static const struct group_letters {
    const char *size, *part;
} letters[GROUPS] = {[GROUP_WORLD] = {"N", ""},     [GROUP_SHARDS] = {"S", ""}, [GROUP_REPLICAS] = {"R", "/S"},
                     [GROUP_PARTITION] = {"P", ""}, [GROUP_NODE] = {"G", ""},   [GROUP_ACROSS] = {"M", "/G"}};

static int times_in(const struct volume *volume, enum group group, bool quantized, bool gradients)
{
    int times = 0;
    for (int t = 0; t < volume->count; t++) {
        const struct volume_term *term = &volume->term[t];
        if (term->group == group && term->quantized == quantized && (!quantized || term->gradients == gradients))
            times += term->times;
    }
    return times;
}

const char *theory_formula(char *text, size_t room, const struct schedule *schedule, const char *psi, int bytes)
{
    enum { AS_IT_IS, INT8, INT4, FORMS };
    const struct volume volume = traffic_theory_volume(schedule);
    const double of[FORMS] = {bytes, dtype_element_bytes(DTYPE_Q8), dtype_element_bytes(DTYPE_Q4)};
    char sizes[64] = "";
    *text = '\0';
    for (int form = 0; form < FORMS; form++)
        for (enum group group = 0; group < GROUPS; group++) {
            const int times = times_in(&volume, group, form != AS_IT_IS, form == INT4);
            const char *size = letters[group].size;
            if (!times) continue;
            text_append(text, room, "%s%.4g x %d %s%s (%s-1)/%s", *text ? " + " : "", of[form], times, psi,
                        letters[group].part, size, size);
            if (group != GROUP_WORLD)
                text_append(sizes, sizeof sizes, ", %s = %d", size, schedule_group(schedule, group, 0).count);
        }
    text_append(text, room, "%s", sizes);
    return text;
}

/* ---- the parts of the difference ---- */

/* How many elements of a unit move in a step, by term of the paper's volume, and bytes of one. */
struct moved {
    int64_t elems[VOLUME_TERMS];
    double bytes[VOLUME_TERMS];
};

static int term_of(const struct volume *volume, const struct op *op)
{
    const bool gradients = op->kind == OP_REDUCE_SCATTER || op->kind == OP_ALL_REDUCE;
    if (!gradients && op->kind != OP_GATHER && op->kind != OP_REFRESH) return -1;
    for (int t = 0; t < volume->count; t++)
        if (volume->term[t].group == op->group && volume->term[t].gradients == gradients) return t;
    return -1;
}

static void count_moves(struct moved *moved, int units, const struct schedule *schedule, const struct volume *volume)
{
    for (int i = 0; i < schedule->op_count; i++) {
        const struct op *op = &schedule->ops[i];
        const int term = term_of(volume, op), times = op->kind == OP_ALL_REDUCE ? 2 : op_rounds(schedule, op);
        for (int p = 0; term >= 0 && p < op->piece_count; p++) {
            const struct piece *piece = &schedule->pieces[op->first_piece + p];
            if (piece->unit < 0 || piece->unit >= units) continue;
            moved[piece->unit].elems[term] += piece->elems * times;
            moved[piece->unit].bytes[term] = dtype_element_bytes(schedule->buffers[piece->source].dtype);
        }
    }
}

/* Whole units moved so often carry their padding each time; parts of units carry none. */
static void add_unit(struct theory *theory, int64_t elems, double bytes, const struct run_unit *unit,
                     const struct volume_term *term, const struct schedule *schedule, double *largest)
{
    const int64_t padded = shard_elems(unit->elems, schedule->ranks) * schedule->ranks;
    const double share = volume_share(schedule, term) * bytes;
    const bool whole = elems % padded == 0;
    const double padding = whole ? (double)(elems / padded * (padded - unit->elems)) : 0;
    const double other = ((double)elems - padding - (double)term->times * (double)unit->elems) * share;
    theory->planned_bytes += (double)elems * share;
    theory->padding_bytes += padding * share;
    *(term->gradients ? &theory->gradient_bytes : &theory->parameter_bytes) += other;
    if ((other < 0 ? -other : other) <= *largest) return;
    *largest = other < 0 ? -other : other;
    memcpy(theory->unit, unit->name, sizeof theory->unit);
    theory->unit_times = ((double)elems - padding) / (double)unit->elems;
    theory->unit_is_gradient = term->gradients;
}

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
    for (int t = 0; t < volume.count; t++)
        *(volume.term[t].gradients ? &theory->gradients : &theory->parameters) += volume.term[t].times;
    count_moves(moved, header->unit_count, &plan->ops, &volume);
    for (int u = 0; u < header->unit_count; u++)
        for (int t = 0; t < volume.count && header->units[u].elems > 0; t++)
            add_unit(theory, moved[u].elems[t], moved[u].bytes[t], &header->units[u], &volume.term[t], &plan->ops,
                     &largest);
    theory->paper_bytes =
        theory->planned_bytes - theory->padding_bytes - theory->parameter_bytes - theory->gradient_bytes;
    free(moved);
}
