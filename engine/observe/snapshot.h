/* A copy of a run model at one moment, to continue folding from. It is small, so that there can be many: lists to which
 * a model only appends (steps, notices) are taken from the newer model:
 *
 *     struct run_model *snapshot = run_snapshot_take(model);           ... then the model folds on ...
 *     struct run_model *then = run_snapshot_restore(snapshot, model);  a new model, as `model` was
 *     run_model_free(snapshot);
 *
 * Steps and notices that the newer model has dropped (run_model_options) are missing in the restored one too. */
#pragma once

#include "engine/observe/questions.h"

/* A model without its history: no notices, the open steps only. Header and plans are shared. NULL: no memory. */
struct run_model *run_snapshot_take(struct run_model *model);
size_t run_snapshot_bytes(const struct run_model *snapshot);

/* NULL: no memory. */
struct run_model *run_snapshot_restore(struct run_model *snapshot, const struct run_model *newest);
