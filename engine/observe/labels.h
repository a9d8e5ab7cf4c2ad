/* What operations are called, on screens and in exports. */
#pragma once

#include "engine/observe/history.h"

enum { LABEL_ROOM = 64 };

const char *run_unit_name(const struct run_model *model, int unit); /* NULL: none, or without a name */

/* "block' 3" (the prime: backward), "gather block 2", "reduce bucket 1"; or as another program calls it. op_label() is false where the
 * operation is not known. */
void span_label(char out[LABEL_ROOM], const struct run_model *model, const struct span *span);
bool op_label(char out[LABEL_ROOM], const struct run_model *model, uint32_t schedule, int op);
int op_number(const struct run_model *model, enum op_kind kind, int unit, int bucket); /* of block or bucket; -1: none */
