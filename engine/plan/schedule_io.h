/* A schedule as JSON (what the trace stores, what `plan --schedule --json` prints) and as text for people. */
#pragma once

#include <stdio.h>

#include "engine/plan/schedule.h"

/* One JSON object; the caller frees it. NULL: no memory. */
char *schedule_to_json(const struct schedule *schedule);

/* Reads what schedule_to_json() wrote, and checks every number, so that a hostile file cannot index outside of arrays. STATUS_INPUT: the
 * text is not such a schedule. */
int schedule_from_json(struct schedule *schedule, const char *json, size_t bytes, struct error *err);

/* One line an operation: number, lane, name, unit or bucket, payload, what it takes and gives, what it waits for. */
void schedule_print(FILE *out, const struct schedule *schedule, const struct model *model);

/* "gather block 2", "backward head", "reduce bucket 3", "agree": one operation in a sentence. */
void op_describe(char *text, size_t room, const struct op *op, const struct model *model);
