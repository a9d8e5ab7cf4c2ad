/* A run goes on with other ranks: what the model keeps, and what it forgets. Memory, lanes and processes were those of ranks
 * that have ended; their plans and their traffic say nothing of the new ones. What was learned, and what happened, stays. */
#include <stdlib.h>
#include <string.h>

#include "engine/observe/fold.h"

static void part_add(struct run_model *model, const struct run_part *part)
{
    if (model->part_count == RUN_PARTS_MAX)
        memmove(model->parts, model->parts + 1, (size_t)--model->part_count * sizeof *model->parts);
    model->parts[model->part_count++] = *part;
}

static void forget_ranks(struct run_model *model)
{
    free(model->rank);
    model->rank = NULL;
    model->ranks = 0;
    model->has_training = false;
    model->traffic_step = model->traffic_steps = 0;
    memset(model->traffic, 0, sizeof model->traffic);
    memset(model->traffic_total, 0, sizeof model->traffic_total);
    memset(model->best_busbw, 0, sizeof model->best_busbw);
    memset(&model->split_total, 0, sizeof model->split_total);
    model->split_count = 0;
}

void part_begin(struct run_model *model, int number, uint32_t steps_done, uint64_t begun_ns)
{
    if (model->part_count)
        forget_ranks(model); /* else the head of the trace was lost, and this is what it belongs to */
    part_add(model, &(struct run_part){number, steps_done, model->header.ranks, begun_ns});
}
