#include "engine/advise/same.h"

#include <string.h>

static bool same_op(const struct op *a, const struct op *b)
{
    bool same = a->kind == b->kind && a->micro_step == b->micro_step && a->unit == b->unit && a->bucket == b->bucket &&
                a->accumulate == b->accumulate && a->flush == b->flush && a->prefetch == b->prefetch &&
                a->piece_count == b->piece_count && a->take_count == b->take_count && a->give_count == b->give_count &&
                a->dependency_count == b->dependency_count;
    for (int role = 0; same && role < ROLES; role++) same = a->buffer[role] == b->buffer[role];
    for (int d = 0; same && d < a->dependency_count; d++)
        same = a->dependency[d].op == b->dependency[d].op && a->dependency[d].why == b->dependency[d].why;
    return same;
}

static bool same_buffer(const struct buffer *a, const struct buffer *b)
{
    return a->tier == b->tier && a->category == b->category && a->extent == b->extent && a->dtype == b->dtype &&
           a->unit == b->unit && a->lasting == b->lasting && a->bytes == b->bytes;
}

static bool same_piece(const struct piece *a, const struct piece *b)
{
    return a->unit == b->unit && a->first == b->first && a->elems == b->elems && a->source == b->source &&
           a->destination == b->destination;
}

bool schedule_same(const struct schedule *a, const struct schedule *b)
{
    bool same = a->purpose == b->purpose && a->ranks == b->ranks && a->micro_steps == b->micro_steps && a->B == b->B &&
                a->T == b->T && a->buffer_count == b->buffer_count && a->op_count == b->op_count &&
                a->piece_count == b->piece_count && a->effect_count == b->effect_count;
    for (int i = 0; same && i < a->op_count; i++) same = same_op(&a->ops[i], &b->ops[i]);
    for (int i = 0; same && i < a->buffer_count; i++) same = same_buffer(&a->buffers[i], &b->buffers[i]);
    for (int i = 0; same && i < a->piece_count; i++) same = same_piece(&a->pieces[i], &b->pieces[i]);
    return same && memcmp(a->effects, b->effects, (size_t)a->effect_count * sizeof *a->effects) == 0;
}
