#include "engine/observe/history.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *run_unit_name(const struct run_model *model, int unit)
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

static bool works_on_bucket(enum op_kind kind, int bucket)
{
    return kind == OP_REDUCE_SCATTER || kind == OP_ALL_REDUCE || kind == OP_GRAD_D2H ||
           (kind == OP_QUANTIZE && bucket >= 0);
}

int op_number(const struct run_model *model, enum op_kind kind, int unit, int bucket)
{
    const char *digits = unit_digits(run_unit_name(model, unit));
    if (works_on_bucket(kind, bucket)) return bucket;
    return digits ? atoi(digits) : -1;
}

static bool moves_a_unit(enum op_kind kind)
{
    return kind == OP_GATHER || kind == OP_REFRESH || kind == OP_UPDATE || kind == OP_QUANTIZE ||
           kind == OP_DEQUANTIZE || op_lane(kind) > LANE_COMM;
}

static void write_label(char out[LABEL_ROOM], const struct run_model *model, enum op_kind kind, const struct use *use,
                        int unit, int bucket)
{
    const char *what = op_name(kind, use), *name = run_unit_name(model, unit), *digits = unit_digits(name);
    if (works_on_bucket(kind, bucket) && bucket >= 0) snprintf(out, LABEL_ROOM, "%s bucket %d", what, bucket);
    else if (moves_a_unit(kind) && name) snprintf(out, LABEL_ROOM, "%s %s", what, name);
    else snprintf(out, LABEL_ROOM, "%s%s%s", what, digits ? " " : "", digits ? digits : "");
}

/* Another program's name for it, and of what moves a unit, the unit. */
static bool write_foreign(char out[LABEL_ROOM], const struct run_model *model, uint32_t schedule, uint32_t number)
{
    const char *name = run_op_name(model, schedule, number);
    const struct op *op = name ? run_op(run_schedule_numbered(model, schedule), number) : NULL;
    const char *unit = op && moves_a_unit(op->kind) ? run_unit_name(model, op->unit) : NULL;
    if (name) snprintf(out, LABEL_ROOM, "%s%s%s", name, unit ? " " : "", unit ? unit : "");
    return name;
}

void span_label(char out[LABEL_ROOM], const struct run_model *model, const struct span *span)
{
    if (!write_foreign(out, model, span->schedule, span->op))
        write_label(out, model, span->kind, span->use, span->unit, span->bucket);
}

bool op_label(char out[LABEL_ROOM], const struct run_model *model, uint32_t schedule, int op)
{
    const struct run_schedule *of = run_schedule_numbered(model, schedule);
    const struct op *named = run_op(of, op);
    if (named && !write_foreign(out, model, schedule, (uint32_t)op))
        write_label(out, model, named->kind, named->use, named->unit, named->bucket);
    return named;
}
