/* Names of operations, units and moments. */
#pragma once

#include "engine/observe/history.h"
#include "engine/observe/progress.h"
#include "tui/view/view.h"

/* "block 3"; "unit 4" if the trace has no names. */
struct text unit_text(const struct run_model *model, int unit);

/* The object of an operation: "block 3", "bucket 2", "block 0…block 2"; "": none. */
struct text op_object(const struct run_model *model, const struct schedule *ops, int op);

/* The label of an operation: "gather block 3", "block' 3", "reduce bucket 2", "agree"; "": not known. */
struct text op_text(const struct run_model *model, uint32_t schedule, int op);
/* The same without the prime of backward: "block 3 bwd"; in a box whose letter says backward, "block 3". */
struct text op_text_in_full(const struct run_model *model, uint32_t schedule, int op);
struct text span_text_boxed(const struct run_model *model, const struct span *span);
struct text span_text(const struct run_model *model, const struct span *span);
const char *stall_text(enum stall why); /* a wait's reason on screens; JSON has stall_table[].name */

/* The ranks of the process group in which `rank` runs a collective: "ranks 0 and 1, a shard group", "ranks 0 and 2, one of each node". */
struct text takers_text(const struct schedule *ops, const struct op *op, int rank);

/* "largest error 0.0012, RMS 0.00034, relative 0.72 %". Relative: the RMS error / the RMS of the values before quantizing. */
struct text quantized_text(const struct run_quantized *of);

/* "step 7, going on", "step 7, done", "before the first step". */
struct text moment_text(const struct run_model *model, const struct progress *at);
