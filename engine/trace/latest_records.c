/* Entries by (kind, rank, what within the rank), each with the last record; a few dozen per rank, and none is ever removed. */
#include "engine/trace/latest_records.h"

#include <string.h>

#include "engine/base/map.h"

struct entry {
    uint64_t key;
    uint64_t sequence; /* 0: withdrawn (of a schedule that was replaced, or of ranks that are gone) */
    struct bytes record;
};

enum { PURPOSES_KEPT = 4 }; /* of schedules: train, evaluate, sample, and whatever else */

struct latest_records {
    struct entry *entries;
    int count, room;
    struct map by_key; /* one more than the place in entries */
    uint64_t sequence;
    uint32_t schedule[PURPOSES_KEPT]; /* number of the schedule in force */
};

static unsigned purpose_of(uint8_t purpose)
{
    return purpose < PURPOSES_KEPT ? purpose : PURPOSES_KEPT - 1;
}

/* The purpose of the schedule that a plan belongs to. As a key it lets a new schedule's plan replace the old. */
static uint64_t purpose_of_plan(const struct latest_records *latest, uint32_t schedule)
{
    unsigned purpose = 0;
    while (purpose < PURPOSES_KEPT - 1 && latest->schedule[purpose] != schedule) purpose++;
    return purpose;
}

static bool begins(struct trace_text json, const char *with)
{
    size_t length = strlen(with);
    return json.bytes > length && memcmp(json.at, with, length) == 0;
}

/* Kept events: the last setting of each key, the run's origin, the last checkpoint, the last out-of-memory report. */
static bool event_part(struct trace_text json, uint64_t *part)
{
    static const char set[] = "{\"kind\":\"set\",\"detail\":{\"key\":\"";
    uint32_t hash = 2166136261u; /* FNV-1a */
    if (begins(json, "{\"kind\":\"resumed\"")) return *part = 1, true;
    if (begins(json, "{\"kind\":\"checkpoint\"")) return *part = 2, true;
    if (begins(json, "{\"kind\":\"oom\"")) return *part = 3, true;
    if (!begins(json, set)) return false;
    for (size_t i = sizeof set - 1; i < json.bytes && json.at[i] != '"'; i++)
        hash = (hash ^ (uint8_t)json.at[i]) * 16777619u;
    return *part = hash, true;
}

/* The part of the key that tells records of one kind and rank apart. False: this record is not kept. */
static bool part_of(const struct latest_records *latest, const struct trace_record *record, uint64_t *part)
{
    *part = 0;
    switch ((unsigned)record->kind) {
    case TRACE_SCHEDULE: *part = purpose_of(record->schedule.purpose); return true;
    case TRACE_PREDICTED:
        *part = purpose_of_plan(latest, record->predicted.schedule) << 16 | record->predicted.tier << 8 |
                record->predicted.category;
        return true;
    case TRACE_THEORY:
        *part =
            purpose_of_plan(latest, record->theory.schedule) << 16 | record->theory.traffic << 8 | record->theory.link;
        return true;
    case TRACE_MEMORY: *part = record->memory.tier << 8 | record->memory.category; return true;
    case TRACE_TENANT: *part = record->tenant.tier << 8 | record->tenant.category; return true;
    case TRACE_TRAFFIC: *part = record->traffic.traffic << 8 | record->traffic.link; return true;
    case TRACE_LINK: *part = record->link.traffic << 8 | record->link.link; return true;
    case TRACE_LANE: *part = record->lane.lane; return true;
    case TRACE_OPERATION: *part = record->operation.op; return true;
    case TRACE_BUDGET: *part = record->budget.tier; return true;
    case TRACE_TIER_PEAK: *part = record->tier_peak.tier; return true;
    case TRACE_EVENT: return event_part(record->event.json, part);
    default: return true;
    }
}

static uint64_t key_of(uint64_t kind, uint64_t rank, uint64_t part)
{
    return kind << 48 | rank << 32 | part;
}

struct latest_records *latest_records_new(void)
{
    return calloc(1, sizeof(struct latest_records));
}

void latest_records_free(struct latest_records *latest)
{
    if (!latest) return;
    for (int i = 0; i < latest->count; i++) bytes_release(&latest->entries[i].record);
    map_release(&latest->by_key);
    free(latest->entries);
    free(latest);
}

/* The entry with this key, made if it is new; NULL: no memory. */
static struct entry *entry_of(struct latest_records *latest, uint64_t key)
{
    uint64_t *place = map_put(&latest->by_key, key);
    if (place && *place) return &latest->entries[*place - 1];
    struct entry *entry = place ? array_add(latest->entries, latest->count, latest->room) : NULL;
    if (!entry) return NULL;
    *entry = (struct entry){.key = key};
    *place = (uint64_t)latest->count;
    return entry;
}

static bool belongs_to(const struct entry *entry, uint32_t schedule)
{
    struct trace_record record;
    if (!entry->sequence || !trace_decode(entry->record.at, entry->record.count, &record)) return false;
    return (record.kind == TRACE_PREDICTED && record.predicted.schedule == schedule) ||
           (record.kind == TRACE_THEORY && record.theory.schedule == schedule);
}

/* A schedule takes its plan with it when another one replaces it. */
static void replace_schedule(struct latest_records *latest, unsigned purpose, uint32_t by)
{
    uint32_t old = latest->schedule[purpose];
    latest->schedule[purpose] = by;
    for (int i = 0; i < latest->count && old != by; i++)
        if (belongs_to(&latest->entries[i], old)) latest->entries[i].sequence = 0;
}

/* A relaunched run has other ranks: records of the earlier ranks are withdrawn. The validation loss and sample stay. */
static void begin_part(struct latest_records *latest)
{
    for (int i = 0; i < latest->count; i++) {
        const uint64_t kind = latest->entries[i].key >> 48;
        if (kind != TRACE_VALIDATION && kind != TRACE_SAMPLE) latest->entries[i].sequence = 0;
    }
    memset(latest->schedule, 0, sizeof latest->schedule);
}

void latest_records_put(struct latest_records *latest, const void *bytes)
{
    struct trace_record record;
    uint64_t part;
    const uint16_t kind = trace_peek(bytes).kind;
    if (!(trace_kind_traits(kind) & TRACE_LATEST)) return; /* most records */
    size_t size = trace_decode(bytes, trace_peek(bytes).bytes, &record);
    if (!size || !part_of(latest, &record, &part)) return;
    if (record.kind == TRACE_RUN) begin_part(latest);
    if (record.kind == TRACE_SCHEDULE)
        replace_schedule(latest, purpose_of(record.schedule.purpose), record.schedule.schedule);
    struct entry *entry = entry_of(latest, key_of(record.kind, record.rank, part));
    if (!entry || !bytes_reserve(&entry->record, size > entry->record.count ? size - entry->record.count : 0)) return;
    entry->sequence = ++latest->sequence;
    entry->record.count = 0;
    bytes_append(&entry->record, bytes, size);
}

static int by_sequence(const void *a, const void *b)
{
    const struct entry *first = *(const struct entry *const *)a, *second = *(const struct entry *const *)b;
    bool first_runs = first->key >> 48 == TRACE_RUN, second_runs = second->key >> 48 == TRACE_RUN;
    if (first_runs != second_runs) return first_runs ? -1 : 1;
    return first->sequence < second->sequence ? -1 : first->sequence > second->sequence;
}

uint64_t latest_records_now(const struct latest_records *latest)
{
    return latest->sequence;
}

void latest_records_each(const struct latest_records *latest, uint64_t since, latest_records_visit *visit, void *user)
{
    const struct entry **kept = malloc(((size_t)latest->count + 1) * sizeof *kept);
    if (!kept) return;
    size_t count = 0;
    for (int i = 0; i < latest->count; i++)
        if (latest->entries[i].sequence > since) kept[count++] = &latest->entries[i];
    qsort(kept, count, sizeof *kept, by_sequence);
    for (size_t i = 0; i < count; i++) visit(user, kept[i]->record.at);
    free(kept);
}

uint32_t latest_records_open_step(const struct latest_records *latest)
{
    uint32_t open = 0;
    for (int i = 0; i < latest->count; i++) {
        const struct entry *begin = &latest->entries[i];
        if (begin->key >> 48 != TRACE_STEP_BEGIN || !begin->sequence) continue;
        const uint64_t end = map_get(&latest->by_key, key_of(TRACE_STEP_END, begin->key >> 32 & 0xffff, 0));
        struct trace_record record;
        if ((end && latest->entries[end - 1].sequence > begin->sequence) ||
            !trace_decode(begin->record.at, begin->record.count, &record))
            continue;
        if (record.step_begin.step > open) open = record.step_begin.step;
    }
    return open;
}
