/* A copy of a run model at one moment, to continue folding from. It is small, so that there can be many: lists to which
 * a model only appends (steps, notices) are taken from the newer model:
 *
 *     struct run_snapshot *snapshot = run_snapshot_take(model);        ... then the model folds on ...
 *     struct run_model *then = run_snapshot_restore(snapshot, model);  a new model, as `model` was
 *
 * Steps and notices that the newer model has dropped (run_model_options) are missing in the restored one too. */
#pragma once

#include "engine/observe/questions.h"

struct run_snapshot;

struct run_snapshot *run_snapshot_take(struct run_model *model); /* NULL: no memory */
void run_snapshot_free(struct run_snapshot *snapshot);
size_t run_snapshot_bytes(const struct run_snapshot *snapshot);

/* NULL: no memory. */
struct run_model *run_snapshot_restore(const struct run_snapshot *snapshot, const struct run_model *newest);
