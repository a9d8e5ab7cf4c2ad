/* Names of operations, units and moments. */
#pragma once

#include "engine/observe/history.h"
#include "engine/observe/progress.h"
#include "tui/view/view.h"

enum { OP_TEXT_ROOM = LABEL_ROOM };

/* "block 3"; "unit 4" if the trace has no names. */
const char *unit_text(char out[OP_TEXT_ROOM], const struct run_model *model, int unit);

/* The object of an operation: "block 3", "bucket 2", "block 0…block 2"; "": none. */
const char *op_object(char out[OP_TEXT_ROOM], const struct run_model *model, const struct schedule *ops, int op);

/* op_label() for an operation of a known schedule: "gather block 3", "block' 3", "reduce bucket 2", "agree". */
const char *op_text(char out[OP_TEXT_ROOM], const struct run_model *model, const struct run_schedule *plan, int op);

/* Who takes part in a collective with a rank: "ranks 0 and 1, a shard group", "ranks 0 and 2, one of each node". */
enum { TAKERS_ROOM = 96 };
const char *takers_text(char out[TAKERS_ROOM], const struct schedule *ops, const struct op *op, int rank);

/* "largest error 0.0012, RMS 0.00034, relative 0.72 %": to the RMS of what was quantized. */
enum { QUANTIZED_ROOM = 112 };
const char *quantized_text(char out[QUANTIZED_ROOM], const struct run_quantized *of);

/* "step 7, going on", "step 7, done", "before the first step". */
const char *moment_text(char out[OP_TEXT_ROOM], const struct run_model *model, const struct progress *at);
