#include "engine/trace/check.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/grouped.h"
#include "engine/base/json.h"
#include "engine/trace/format.h"
#include "engine/trace/source.h"

enum { RANKS = TRACE_RANK_ALL + 1 };

/* State of the counting beside the counts. */
struct walk {
    struct trace_check *check;
    struct walk_rank {
        int64_t ops_open;
        uint32_t step_open; /* the step begun and not ended, or 0 */
        bool seen;          /* in this part */
    } *rank;
    uint32_t ranks_told;    /* by this part's header; 0: not told */
    struct bytes schedules; /* uint32_t numbers of the schedules seen: a handful */
    uint64_t before_ns;
};

static bool has_schedule(const struct walk *walk, uint32_t schedule)
{
    for (size_t at = 0; at < walk->schedules.count; at += sizeof schedule)
        if (!memcmp(walk->schedules.at + at, &schedule, sizeof schedule)) return true;
    return false;
}

static void note_schedule(struct walk *walk, uint32_t schedule)
{
    if (!has_schedule(walk, schedule)) bytes_append(&walk->schedules, &schedule, sizeof schedule);
}

static struct trace_check_part *present_part(struct trace_check *check)
{
    return &check->part[check->parts ? check->parts - 1 : 0];
}

/* A part without a step (a run that could not start) misses no rank. */
static void count_missing(struct walk *walk)
{
    struct trace_check *check = walk->check;
    uint32_t missing = 0, first = 0;
    for (uint32_t rank = 0; rank < walk->ranks_told && present_part(check)->first_step; rank++) {
        if (walk->rank[rank].seen) continue;
        if (!missing++) first = rank;
    }
    if (missing <= check->ranks_missing) return;
    check->ranks_missing = missing;
    check->ranks_told = walk->ranks_told;
    check->first_missing = first;
}

static uint32_t ranks_in(struct trace_text header, bool *simulated)
{
    cJSON *json = cJSON_ParseWithLength(header.at, header.bytes);
    *simulated = cJSON_IsTrue(json_get(json, "simulated"));
    const double ranks = json_get_number(json, "ranks", TRACE_RANK_ALL, 0);
    cJSON_Delete(json);
    return (uint32_t)ranks;
}

/* The first header's part also includes the records before it. */
static void count_header(struct walk *walk, struct trace_text header)
{
    struct trace_check *check = walk->check;
    if (check->parts) count_missing(walk);
    walk->ranks_told = ranks_in(header, &check->simulated);
    if (check->parts == TRACE_CHECK_PARTS) return;
    for (int rank = 0; rank < RANKS && check->parts; rank++) walk->rank[rank].seen = false;
    check->parts++;
}

static void count_rank(struct walk *walk, uint16_t rank)
{
    struct trace_check_part *part = present_part(walk->check);
    if (rank == TRACE_RANK_ALL || walk->rank[rank].seen) return;
    walk->rank[rank].seen = true;
    if (++part->ranks > walk->check->ranks) walk->check->ranks = part->ranks;
}

static void count_step_begin(struct walk *walk, uint16_t rank, uint32_t step)
{
    struct trace_check *check = walk->check;
    check->steps++;
    check->steps_unfinished += walk->rank[rank].step_open != 0;
    walk->rank[rank].step_open = step;
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
    struct walk_rank *rank = &walk->rank[record->rank];
    switch ((unsigned)record->kind) {
    case TRACE_RUN: count_header(walk, record->run.json); break;
    case TRACE_SCHEDULE: note_schedule(walk, record->schedule.schedule); break;
    case TRACE_OPERATION: note_schedule(walk, TRACE_OBSERVED); break;
    case TRACE_STEP_BEGIN: count_step_begin(walk, record->rank, record->step_begin.step); break;
    case TRACE_STEP_END:
        rank->step_open = 0;
        check->losses += !isnan(record->step_end.loss);
        break;
    case TRACE_OP_BEGIN: rank->ops_open++; break;
    case TRACE_OP_END:
        rank->ops_open--;
        check->ops_homeless += !has_schedule(walk, record->op_end.schedule);
        break;
    case TRACE_HOST:
    case TRACE_CLOCK: trace_machines_note(&check->machines, record); break;
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
    for (const struct walk_rank *rank = walk->rank; rank < walk->rank + RANKS; rank++) {
        check->steps_unfinished += rank->step_open != 0;
        if (rank->ops_open > 0) check->ops_open += (uint64_t)rank->ops_open;
    }
    count_missing(walk);
    const uint64_t *has = check->by_kind;
    const bool all = !check->ranks_missing;
    check->usable[TRACE_USE_REPLAY] = has[TRACE_RUN] && (has[TRACE_STEP_BEGIN] || has[TRACE_MEMORY]);
    check->usable[TRACE_USE_LEARNING] = all && check->losses;
    check->usable[TRACE_USE_MEMORY] = all && has[TRACE_MEMORY];
    check->usable[TRACE_USE_TIMELINE] = all && has[TRACE_OP_END] && !check->ops_homeless;
    check->usable[TRACE_USE_TRAFFIC] = all && has[TRACE_TRAFFIC];
}

static void check_states(struct trace_check *check, struct source *source)
{
    struct trace_state *states;
    size_t bytes;
    const int count = source_states(source, &states);
    for (int i = 0; i < count; i++) {
        check->states += (states[i].flags & CHUNK_STATE) != 0;
        check->states_damaged |= !source_state(source, &states[i], &bytes);
    }
    free(states);
}

int trace_check(struct trace_check *check, const char *path, struct error *err)
{
    struct source *source;
    *check = (struct trace_check){0};
    int status = source_open_file(&source, path, err);
    if (status) return status;
    struct walk walk = {.check = check, .rank = calloc(RANKS, sizeof *walk.rank)};
    if (walk.rank) {
        struct trace_record record;
        enum source_result result;
        while ((result = source_next(source, &record)) == SOURCE_RECORD) count(&walk, &record);
        if (result == SOURCE_BAD) snprintf(check->damage, sizeof check->damage, "%s", source_error(source));
        check->torn = source_torn(source);
        conclude(&walk);
        check_states(check, source);
    } else {
        status = error_set(err, STATUS_RUN, "no memory to check %s", path);
    }
    source_close(source);
    free(walk.rank);
    bytes_release(&walk.schedules);
    return status;
}

int trace_check_status(const struct trace_check *check)
{
    const bool as_wanted = !check->gaps || (check->limited && check->gaps == 1);
    bool whole =
        check->header_first && check->ended && !check->torn && as_wanted && !check->damage[0] && !check->ranks_missing;
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
    if (source_resume_step(source, SOURCE_LAST_STEP, NULL) == STATUS_OK)
        while (source_next(source, &record) == SOURCE_RECORD) ended |= record.kind == TRACE_END;
    source_close(source);
    return ended;
}

static const struct {
    const char *name, *needs;
} uses[TRACE_USES] = {
#define X(id, name, needs) {name, needs},
    TRACE_USE_TABLE(X)
#undef X
};

static const char *outcome_text(uint8_t outcome)
{
    static const char *const texts[] = {"finished", "out of memory", "failed", "stopped"};
    return outcome < sizeof texts / sizeof texts[0] ? texts[outcome] : "an outcome this version does not know";
}

static void print_defects(const struct trace_check *check, FILE *out)
{
    if (!check->header_first) fputs("  the run header is not the first record: the beginning is missing\n", out);
    if (check->damage[0]) fprintf(out, "  %s\n", check->damage);
    if (check->torn) fputs("  cut off inside a chunk; all before it is whole\n", out);
    if (!check->ended) fputs("  no end record: the run was killed, or still goes on\n", out);
    if (check->limited)
        fprintf(out, "  recording stopped after step %u, at the size of --trace-limit\n", check->last_step);
    if (check->ranks_missing)
        fprintf(out, "  no record of %u of %u ranks, the first is rank %u: no step is whole\n", check->ranks_missing,
                check->ranks_told, check->first_missing);
    if (check->gaps)
        fprintf(out, "  %" PRIu64 " gaps, %" PRIu64 " records lost: drawn as unknown\n", check->gaps, check->lost);
    if (check->steps_unfinished) fprintf(out, "  %u steps begun by a rank and not ended\n", check->steps_unfinished);
    if (check->ops_open) fprintf(out, "  %" PRIu64 " operations begun and not ended\n", check->ops_open);
    if (check->ops_homeless)
        fprintf(out, "  %" PRIu64 " operations of a schedule that is not in the trace\n", check->ops_homeless);
    if (check->out_of_order)
        fprintf(out, "  %" PRIu64 " records later in the file than in time\n", check->out_of_order);
    if (check->unknown_kinds)
        fprintf(out, "  %" PRIu64 " records of kinds that this version does not know, skipped\n", check->unknown_kinds);
}

static void print_part(const struct trace_check_part *part, int number, FILE *out)
{
    fprintf(out, "  part %d: %u rank%s", number + 1, part->ranks, plural(part->ranks));
    if (part->first_step) fprintf(out, ", steps %u to %u\n", part->first_step, part->last_step);
    else fputs(", no step\n", out);
}

void trace_check_print(const struct trace_check *check, FILE *out)
{
    fprintf(out, "%" PRIu64 " records of %u ranks over %.3f s", check->records, check->ranks,
            (double)(check->last_ns - check->first_ns) / 1e9);
    if (check->steps) fprintf(out, ", steps %u to %u", check->first_step, check->last_step);
    if (check->ended) fprintf(out, "; the run ended: %s", outcome_text(check->outcome));
    fputs("\n", out);
    if (check->simulated) fputs("  SIMULATED: times are computed from a hardware profile, losses are unknown\n", out);
    if (check->states)
        fprintf(out, check->states_damaged ? "  %u states, some damaged: a replay may read all records before it shows a step\n"
                                           : "  %u states: a replay opens at any step without reading all records before it\n",
                check->states);
    for (int i = 0; check->parts > 1 && i < check->parts; i++) print_part(&check->part[i], i, out);
    const struct trace_machine *machine;
    char text[TRACE_MACHINE_TEXT_BYTES];
    for (int i = 0; (machine = trace_machine(&check->machines, i)); i++)
        fprintf(out, "  %s\n", trace_machine_text(text, machine));
    print_defects(check, out);
    fputs("usable for\n", out);
    for (int use = 0; use < TRACE_USES; use++)
        fprintf(out, "  %-10s %s%s%s\n", uses[use].name, check->usable[use] ? "yes" : "no: needs ",
                check->usable[use] ? "" : uses[use].needs, check->ranks_missing && use ? ", of every rank" : "");
    fputs("records by kind\n", out);
    for (int kind = 0; kind < TRACE_CHECK_KINDS; kind++)
        if (check->by_kind[kind])
            fprintf(out, "  %-12s %12" PRIu64 "\n", trace_kind_name((enum trace_kind)kind), check->by_kind[kind]);
}

char *trace_check_json(const struct trace_check *check)
{
    cJSON *json = cJSON_CreateObject();
    json_put(json, TRUTH("whole", trace_check_status(check) == STATUS_OK), NUMBER("records", check->records),
             NUMBER("ranks", check->ranks), TRUTH("simulated", check->simulated),
             NUMBER("ranks_missing", check->ranks_missing), NUMBER("first_step", check->first_step),
             NUMBER("last_step", check->last_step), NUMBER("seconds", (double)(check->last_ns - check->first_ns) / 1e9),
             TRUTH("header", check->header_first), TRUTH("ended", check->ended),
             TEXT_IF("outcome", check->ended ? outcome_text(check->outcome) : NULL), TRUTH("torn", check->torn),
             TRUTH("damaged", check->damage[0]), NUMBER("gaps", check->gaps), NUMBER("lost", check->lost),
             NUMBER("steps_unfinished", check->steps_unfinished), NUMBER("operations_open", check->ops_open),
             NUMBER("operations_without_schedule", check->ops_homeless), NUMBER("out_of_order", check->out_of_order),
             NUMBER("unknown_kinds", check->unknown_kinds), NUMBER("states", check->states),
             TRUTH("states_damaged", check->states_damaged));
    cJSON *usable = cJSON_AddObjectToObject(json, "usable"), *kinds = cJSON_AddObjectToObject(json, "kinds"),
          *parts = cJSON_AddArrayToObject(json, "parts");
    for (int use = 0; use < TRACE_USES; use++) json_put(usable, TRUTH(uses[use].name, check->usable[use]));
    for (int kind = 0; kind < TRACE_CHECK_KINDS; kind++)
        if (check->by_kind[kind]) json_put(kinds, NUMBER(trace_kind_name((enum trace_kind)kind), check->by_kind[kind]));
    for (const struct trace_check_part *part = check->part; part < check->part + check->parts; part++)
        json_put(json_item(parts), NUMBER("ranks", part->ranks), NUMBER("first_step", part->first_step),
                 NUMBER("last_step", part->last_step));
    return json_lines(json);
}
