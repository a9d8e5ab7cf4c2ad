/* Operations by the names that people call them: "block' 3", "gather block 2", "reduce bucket 1". */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tui/views/parts.h"

static const char *unit_name(const struct run_model *model, int unit)
{
    const struct run_header *header = &model->header;
    return unit >= 0 && unit < header->unit_count && header->units[unit].name[0] ? header->units[unit].name : NULL;
}

/* The number that a unit's name ends in; NULL: none. */
static const char *unit_digits(const char *name)
{
    const char *blank = name ? strrchr(name, ' ') : NULL;
    return blank && blank[1] >= '0' && blank[1] <= '9' ? blank + 1 : NULL;
}

static bool moves_a_bucket(enum op_kind kind)
{
    return kind == OP_REDUCE_SCATTER || kind == OP_ALL_REDUCE || kind == OP_GRADIENT_OFFLOAD;
}

int op_number(const struct run_model *model, enum op_kind kind, int unit, int bucket)
{
    const char *digits = unit_digits(unit_name(model, unit));
    if (moves_a_bucket(kind)) return bucket;
    return digits ? atoi(digits) : -1;
}

static bool moves_a_unit(enum op_kind kind)
{
    return kind == OP_GATHER || kind == OP_REFRESH || kind == OP_UPDATE || op_lane(kind) > LANE_COMM;
}

static void write_label(char out[LABEL_ROOM], const struct run_model *model, enum op_kind kind, int unit, int bucket)
{
    const char *name = unit_name(model, unit), *digits = unit_digits(name);
    if (moves_a_bucket(kind) && bucket >= 0) snprintf(out, LABEL_ROOM, "%s bucket %d", op_name(kind), bucket);
    else if (moves_a_unit(kind) && name) snprintf(out, LABEL_ROOM, "%s %s", op_name(kind), name);
    else snprintf(out, LABEL_ROOM, "%s%s%s", op_name(kind), digits ? " " : "", digits ? digits : "");
}

void span_label(char out[LABEL_ROOM], const struct run_model *model, const struct span *span)
{
    write_label(out, model, span->kind, span->unit, span->bucket);
}

bool op_label(char out[LABEL_ROOM], const struct run_model *model, uint32_t schedule, int op)
{
    const struct run_schedule *of = run_schedule_numbered(model, schedule);
    if (!of || !of->has_ops || op < 0 || op >= of->ops.op_count) return false;
    write_label(out, model, of->ops.ops[op].kind, of->ops.ops[op].unit, of->ops.ops[op].bucket);
    return true;
}
