/* What was planned: schedules with their operations, predicted memory and theoretical traffic. */
#include <stdlib.h>
#include <string.h>

#include "engine/observe/fold.h"
#include "engine/plan/schedule_io.h"

/* A run that is switched for hours keeps only its last plans; each step stores its own stage. */
enum { SCHEDULES_KEPT = 24 };

static void schedule_drop(struct run_schedule *schedule)
{
    if (schedule->holders && --*schedule->holders > 0) return;
    if (schedule->has_ops) schedule_release(&schedule->ops);
    free(schedule->gathered);
    free(schedule->holders);
}

/* Operations do not change any more, so copies of a model share them. */
struct run_schedule *plans_share(struct run_schedule *from, int count)
{
    struct run_schedule *copies = calloc(count ? (size_t)count : 1, sizeof *copies);
    for (int i = 0; copies && i < count; i++) {
        if (from[i].has_ops && !from[i].holders && (from[i].holders = malloc(sizeof *from[i].holders)))
            *from[i].holders = 1;
        copies[i] = from[i];
        if (copies[i].holders) ++*copies[i].holders;
        else copies[i].has_ops = false;
    }
    return copies;
}

void plans_release(struct run_model *model)
{
    for (int i = 0; i < model->schedule_count; i++) schedule_drop(&model->schedules[i]);
    free(model->schedules);
}

static struct run_schedule *schedule_at(struct run_model *model, uint32_t number)
{
    for (int i = model->schedule_count - 1; i >= 0; i--)
        if (model->schedules[i].number == number) return &model->schedules[i];
    if (model->schedule_count < SCHEDULES_KEPT) {
        const size_t bytes = (size_t)(model->schedule_count + 1) * sizeof *model->schedules; /* they are few, and come seldom */
        struct run_schedule *larger = realloc(model->schedules, bytes);
        if (!larger) return NULL;
        model->schedules = larger;
    } else {
        schedule_drop(&model->schedules[0]);
        memmove(model->schedules, model->schedules + 1, (SCHEDULES_KEPT - 1) * sizeof *model->schedules);
        model->schedule_count--;
    }
    struct run_schedule *schedule = &model->schedules[model->schedule_count++];
    *schedule = (struct run_schedule){.number = number};
    return schedule;
}

static int64_t gathered_elems(const struct schedule *schedule, int first, int count)
{
    int64_t elems = 0;
    for (int e = first; e < first + count; e++) {
        const struct buffer *buffer = &schedule->buffers[schedule->effects[e]];
        if (buffer->category == CATEGORY_GATHERED) elems += buffer->bytes / dtype_bytes(buffer->dtype);
    }
    return elems;
}

/* By operation. NULL: no memory. */
static int64_t *gathered_before(const struct schedule *schedule)
{
    int64_t live = 0, *before = calloc((size_t)schedule->op_count + 1, sizeof *before);
    for (int i = 0; before && i < schedule->op_count; i++) {
        const struct op *op = &schedule->ops[i];
        before[i] = live;
        live += gathered_elems(schedule, op->first_take, op->take_count) - gathered_elems(schedule, op->first_give, op->give_count);
    }
    return before;
}

void fold_schedule(struct run_model *model, const struct trace_record *record)
{
    struct run_schedule *schedule = schedule_at(model, record->schedule.schedule);
    if (!schedule || schedule->has_ops) return; /* each rank may say it */
    struct error err;
    schedule->purpose = record->schedule.purpose;
    schedule->stage = record->schedule.stage;
    if (schedule_from_json(&schedule->ops, record->schedule.json.at, record->schedule.json.bytes, &err) == 0)
        schedule->has_ops = true;
    else model_problem(model, "schedule %u: %s", schedule->number, err.text);
    if (schedule->has_ops && !(schedule->gathered = gathered_before(&schedule->ops))) {
        schedule_release(&schedule->ops);
        schedule->has_ops = false;
        model_problem(model, "schedule %u: no memory", schedule->number);
    }
    for (int i = 0; schedule->has_ops && i < schedule->ops.op_count; i++)
        schedule->lanes |= 1u << schedule->ops.ops[i].lane;
    if (schedule->purpose != PURPOSE_TRAIN) return;
    model->training_schedule = schedule->number;
    model->has_training = true;
}

/* ---- operations of another program: one list, which grows as they are observed ---- */

/* Room for one more: the arrays double. Copies of the model that share the list keep theirs. */
static bool observed_grow(struct run_schedule *schedule)
{
    struct schedule *list = &schedule->ops;
    const size_t count = (size_t)list->op_count, room = count ? 2 * count : 64;
    const bool shared = schedule->holders && *schedule->holders > 1;
    if (!shared && count && (count < 64 || (count & (count - 1)))) return true;
    struct op *ops = calloc(room < 64 ? 64 : room, sizeof *ops);
    char **names = calloc(room < 64 ? 64 : room, sizeof *names);
    if (!ops || !names) return free(ops), free(names), false;
    for (size_t i = 0; i < count; i++) {
        ops[i] = list->ops[i];
        names[i] = shared ? strdup(list->names[i] ? list->names[i] : "") : list->names[i];
    }
    if (shared) {
        --*schedule->holders;
        schedule->holders = NULL;
    } else {
        free(list->ops);
        free(list->names);
    }
    list->ops = ops;
    list->names = names;
    return true;
}

void fold_operation(struct run_model *model, const struct trace_record *record)
{
    const struct trace_of_operation *from = &record->operation;
    struct run_schedule *schedule = schedule_at(model, TRACE_OBSERVED);
    struct op op = {.phase = from->phase < PHASES ? from->phase : PHASE_FORWARD,
                    .lane = from->lane,
                    .micro_step = -1,
                    .unit = from->unit == TRACE_NO_UNIT ? -1 : (int)from->unit,
                    .bucket = -1,
                    .prefetch = from->prefetch,
                    .ranks = (int)from->ranks,
                    .bytes = (int64_t)from->bytes};
    if (!schedule || from->op < (uint32_t)schedule->ops.op_count) return; /* it was told before */
    if (from->op > (uint32_t)schedule->ops.op_count || from->lane >= LANES || (from->unit != TRACE_NO_UNIT && from->unit > INT32_MAX) ||
        !op_coded(from->code, &op.kind, &op.use)) {
        model_problem(model, "operation %u of another program cannot be read", from->op);
        return;
    }
    char *name = observed_grow(schedule) ? text_copy(from->name) : NULL;
    if (!name) return;
    schedule->has_ops = true;
    schedule->stage = RUN_UNKNOWN;
    schedule->lanes |= 1u << op.lane;
    schedule->ops.ranks = model->ranks;
    schedule->ops.names[schedule->ops.op_count] = name;
    schedule->ops.ops[schedule->ops.op_count++] = op;
}

/* The first rank's names; streams of other ranks do the same work by other numbers. */
void fold_lane(struct run_model *model, const struct trace_record *record)
{
    const struct trace_of_lane *from = &record->lane;
    if (from->lane < LANES && !model->lane_name[from->lane][0])
        text_into(model->lane_name[from->lane], LANE_NAME_ROOM, from->name);
}

void fold_predicted(struct run_model *model, const struct trace_record *record)
{
    const struct trace_of_predicted *from = &record->predicted;
    struct run_schedule *schedule = schedule_at(model, from->schedule);
    if (!schedule || from->tier >= TIERS || (from->category >= CATEGORIES && from->category != 255)) return;
    struct run_predicted *predicted =
        from->category == 255 ? &schedule->tier[from->tier] : &schedule->category[from->tier][from->category];
    *predicted = (struct run_predicted){true, from->peak_bytes, from->at_peak_bytes, from->resting_bytes};
}

void fold_theory(struct run_model *model, const struct trace_record *record)
{
    const struct trace_of_theory *from = &record->theory;
    struct run_schedule *schedule = schedule_at(model, from->schedule);
    if (!schedule || from->traffic >= TRAFFIC_KINDS || from->link >= LINKS) return;
    struct run_traffic *traffic = &schedule->traffic[from->traffic][from->link];
    traffic->ranks++;
    traffic->count += from->count;
    traffic->sent_bytes += from->sent_bytes;
    if (from->theory_bytes) schedule->theory_bytes = from->theory_bytes;
}
