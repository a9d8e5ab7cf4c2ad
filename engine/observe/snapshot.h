/* A run model as it was at one moment, to begin folding from again. It is kept small, so that there can be many: what a
 * model only ever adds to (steps, notices) is not in it but comes from the model that went on:
 *
 *     struct run_snapshot *snapshot = run_snapshot_take(model);        ... then the model folds on ...
 *     struct run_model *then = run_snapshot_restore(snapshot, model);  a model of its own, as `model` was
 *
 * What the model has dropped of its history meanwhile (run_model_options) is missing in the restored one too. */
#ifndef ENGINE_OBSERVE_SNAPSHOT_H
#define ENGINE_OBSERVE_SNAPSHOT_H

#include "engine/observe/questions.h"

struct run_snapshot;

struct run_snapshot *run_snapshot_take(struct run_model *model); /* NULL: no memory */
void run_snapshot_free(struct run_snapshot *snapshot);
size_t run_snapshot_bytes(const struct run_snapshot *snapshot);

/* NULL: no memory. */
struct run_model *run_snapshot_restore(const struct run_snapshot *snapshot, const struct run_model *newest);

#endif
