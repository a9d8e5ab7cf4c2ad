#include "engine/trace/check.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/bytes.h"
#include "engine/trace/source.h"

enum { RANKS = TRACE_RANK_ALL + 1 };

/* State of the counting beside the counts. */
struct walk {
    struct trace_check *check;
    uint32_t *step_open;    /* by rank: the step begun and not ended, or 0 */
    bool *seen;             /* by rank, in this part */
    int64_t *ops_open;      /* by rank */
    struct bytes schedules; /* uint32_t numbers of the schedules seen: a handful */
    uint64_t before_ns;
};

static bool has_schedule(const struct walk *walk, uint32_t schedule)
{
    for (size_t at = 0; at < walk->schedules.count; at += sizeof schedule)
        if (!memcmp(walk->schedules.at + at, &schedule, sizeof schedule)) return true;
    return false;
}

static struct trace_check_part *present_part(struct trace_check *check)
{
    return &check->part[check->parts ? check->parts - 1 : 0];
}

/* The first header's part also includes the records before it. */
static void count_header(struct walk *walk)
{
    struct trace_check *check = walk->check;
    if (check->parts == TRACE_CHECK_PARTS) return;
    if (check->parts++) memset(walk->seen, 0, RANKS * sizeof *walk->seen);
}

static void count_rank(struct walk *walk, uint16_t rank)
{
    struct trace_check_part *part = present_part(walk->check);
    if (rank == TRACE_RANK_ALL || walk->seen[rank]) return;
    walk->seen[rank] = true;
    if (++part->ranks > walk->check->ranks) walk->check->ranks = part->ranks;
}

static void count_step_begin(struct walk *walk, uint16_t rank, uint32_t step)
{
    struct trace_check *check = walk->check;
    check->steps++;
    check->steps_unfinished += walk->step_open[rank] != 0;
    walk->step_open[rank] = step;
    if (!check->first_step || step < check->first_step) check->first_step = step;
    if (step > check->last_step) check->last_step = step;
    struct trace_check_part *part = present_part(check);
    if (!part->first_step || step < part->first_step) part->first_step = step;
    if (step > part->last_step) part->last_step = step;
}

/* The text of the event, as file_sink.c writes it. */
static bool is_limit(struct trace_text json)
{
    static const char event[] = "{\"kind\":\"trace_limit\"";
    return json.bytes >= sizeof event - 1 && memcmp(json.at, event, sizeof event - 1) == 0;
}

static void count_by_kind(struct walk *walk, const struct trace_record *record)
{
    struct trace_check *check = walk->check;
    uint32_t schedule;
    switch ((unsigned)record->kind) {
    case TRACE_RUN: count_header(walk); break;
    case TRACE_SCHEDULE:
        schedule = record->schedule.schedule;
        if (!has_schedule(walk, schedule)) bytes_append(&walk->schedules, &schedule, sizeof schedule);
        break;
    case TRACE_STEP_BEGIN: count_step_begin(walk, record->rank, record->step_begin.step); break;
    case TRACE_STEP_END: walk->step_open[record->rank] = 0; break;
    case TRACE_OP_BEGIN: walk->ops_open[record->rank]++; break;
    case TRACE_OP_END:
        walk->ops_open[record->rank]--;
        check->ops_homeless += !has_schedule(walk, record->op_end.schedule);
        break;
    case TRACE_EVENT: check->limited |= is_limit(record->event.json); break;
    case TRACE_GAP:
        check->gaps++;
        check->lost += record->gap.records;
        break;
    case TRACE_END:
        check->ended = true;
        check->outcome = record->end.outcome;
        break;
    }
}

static void count(struct walk *walk, const struct trace_record *record)
{
    struct trace_check *check = walk->check;
    bool known = trace_kind_name(record->kind) && (unsigned)record->kind < TRACE_CHECK_KINDS;
    if (!check->records) {
        check->first_ns = record->time_ns;
        check->header_first = record->kind == TRACE_RUN;
    }
    check->records++;
    if (known) check->by_kind[record->kind]++;
    else check->unknown_kinds++;
    check->out_of_order += record->time_ns < walk->before_ns;
    walk->before_ns = record->time_ns;
    if (record->time_ns < check->first_ns) check->first_ns = record->time_ns;
    if (record->time_ns > check->last_ns) check->last_ns = record->time_ns;
    count_rank(walk, record->rank);
    count_by_kind(walk, record);
}

static void conclude(struct walk *walk)
{
    struct trace_check *check = walk->check;
    for (int rank = 0; rank <= TRACE_RANK_ALL; rank++) {
        check->steps_unfinished += walk->step_open[rank] != 0;
        if (walk->ops_open[rank] > 0) check->ops_open += (uint64_t)walk->ops_open[rank];
    }
    const uint64_t *has = check->by_kind;
    check->usable[TRACE_USE_REPLAY] = has[TRACE_RUN] && (has[TRACE_STEP_BEGIN] || has[TRACE_MEMORY]);
    check->usable[TRACE_USE_LEARNING] = has[TRACE_STEP_END];
    check->usable[TRACE_USE_MEMORY] = has[TRACE_MEMORY];
    check->usable[TRACE_USE_TIMELINE] = has[TRACE_OP_END] && !check->ops_homeless;
    check->usable[TRACE_USE_TRAFFIC] = has[TRACE_TRAFFIC];
}

int trace_check(struct trace_check *check, const char *path, struct error *err)
{
    struct source *source;
    *check = (struct trace_check){0};
    int status = source_open_file(&source, path, err);
    if (status) return status;
    struct walk walk = {.check = check,
                        .step_open = calloc(RANKS, sizeof *walk.step_open),
                        .seen = calloc(RANKS, sizeof *walk.seen),
                        .ops_open = calloc(RANKS, sizeof *walk.ops_open)};
    if (walk.step_open && walk.seen && walk.ops_open) {
        struct trace_record record;
        enum source_result result;
        while ((result = source_next(source, &record)) == SOURCE_RECORD) count(&walk, &record);
        if (result == SOURCE_BAD) snprintf(check->damage, sizeof check->damage, "%s", source_error(source));
        check->torn = source_torn(source);
        conclude(&walk);
    } else {
        status = error_set(err, STATUS_RUN, "no memory to check %s", path);
    }
    source_close(source);
    free(walk.step_open);
    free(walk.seen);
    free(walk.ops_open);
    bytes_release(&walk.schedules);
    return status;
}

int trace_check_status(const struct trace_check *check)
{
    const bool as_wanted = !check->gaps || (check->limited && check->gaps == 1);
    bool whole = check->header_first && check->ended && !check->torn && as_wanted && !check->damage[0];
    return whole ? STATUS_OK : STATUS_CHECK;
}

bool trace_has_end(const char *path)
{
    struct stat there;
    struct source *source;
    struct trace_record record;
    bool ended = false;
    if (stat(path, &there) == 0 && !S_ISREG(there.st_mode)) return true;
    if (source_open_file(&source, path, NULL)) return false;
    if (source_seek_step(source, UINT32_MAX, NULL) == STATUS_OK)
        while (source_next(source, &record) == SOURCE_RECORD) ended |= record.kind == TRACE_END;
    source_close(source);
    return ended;
}
