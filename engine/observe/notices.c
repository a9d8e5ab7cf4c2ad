/* Folds news for people into one list in the order of the trace: events, commands, log lines, validation losses,
 * changes of state, gaps. Each is one line of text; events keep their JSON for reports. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/json.h"
#include "engine/base/text_stream.h"
#include "engine/observe/fold.h"

static void notice_release(struct run_notice *notice)
{
    free(notice->text);
    free(notice->json);
}

void notices_release(struct run_model *model)
{
    for (int i = 0; i < model->notice_count; i++) notice_release(&model->notices[i]);
    free(model->notices);
}

static void forget_old(struct run_model *model)
{
    int kept = model->options.notices;
    if (kept <= 0 || model->notice_count < 2 * kept) return;
    int dropped = model->notice_count - kept;
    for (int i = 0; i < dropped; i++) notice_release(&model->notices[i]);
    memmove(model->notices, model->notices + dropped, (size_t)kept * sizeof *model->notices);
    model->notice_count = kept;
    model->notices_dropped += (uint64_t)dropped;
}

/* Adds a line; takes ownership of `text`. NULL: no memory; the notice is lost and model->problem says so. */
static struct run_notice *notice_add(struct run_model *model, enum run_notice_kind kind, uint64_t time_ns, int level,
                                     char *text)
{
    forget_old(model);
    struct run_notice *notice = text ? array_add(model->notices, model->notice_count, model->notice_room) : NULL;
    if (notice) *notice = (struct run_notice){.kind = kind, .time_ns = time_ns, .level = level, .text = text};
    else free(text), model_problem(model, "no memory for a notice");
    return notice;
}

static void at_step(struct run_notice *notice, uint32_t step)
{
    if (!notice) return;
    notice->has_step = true;
    notice->step = step;
}

__attribute__((format(printf, 1, 2))) static char *format_text(const char *format, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0) text = NULL;
    va_end(args);
    return text;
}

/* ---- details of events. "oom": bytes by category at that instant, bytes wanted, changes that would fit. "checkpoint": a save has
 * begun, is complete, or failed ---- */

int64_t json_count(const cJSON *object, const char *key)
{
    return (int64_t)json_get_number(object, key, 1e18, RUN_UNKNOWN);
}

/* Defines tier_named(), the inverse of tier_name(), and its like; -1: an unknown name, or NULL. */
#define NAMED(what, count)                                                                                             \
    static int what##_named(const char *name)                                                                          \
    {                                                                                                                  \
        for (int number = 0; name && number < (count); number++)                                                       \
            if (strcmp(what##_name((enum what)number), name) == 0) return number;                                      \
        return -1;                                                                                                     \
    }
NAMED(tier, TIERS)
NAMED(category, CATEGORIES)

/* By category: what it held, where one that the event does not name held nothing, and its key. */
static void read_categories(struct run_shortage *shortage, const cJSON *detail)
{
    const cJSON *held = json_get(detail, "held_bytes"), *knobs = json_get(detail, "knobs");
    shortage->has_held = cJSON_IsObject(held);
    if (shortage->category >= 0)
        json_copy_text(shortage->knobs[shortage->category], sizeof *shortage->knobs, detail, "knob");
    for (int c = 0; c < CATEGORIES; c++) {
        const char *name = category_name(c);
        shortage->held_bytes[c] = (int64_t)json_get_number(held, name, 1e18, 0);
        if (json_get(knobs, name)) json_copy_text(shortage->knobs[c], sizeof *shortage->knobs, knobs, name);
    }
}

/* Returns how many there was room for, after the first `slot`. */
static int read_fits(struct run_shortage *shortage, int slot, const cJSON *fits)
{
    const int first = slot;
    const cJSON *fit;
    cJSON_ArrayForEach(fit, fits)
    {
        if (slot == RUN_FITS_MAX) break;
        json_copy_text(shortage->fits[slot].command, sizeof shortage->fits[slot].command, fit, "command");
        shortage->fits[slot++].peak_bytes = json_count(fit, "peak_bytes");
    }
    return slot - first;
}

static void shortage_read(struct run_shortage *shortage, const cJSON *detail)
{
    memset(shortage, 0, sizeof *shortage);
    shortage->known = true;
    int64_t rank = json_count(detail, "rank");
    shortage->rank = rank < TRACE_RANK_ALL ? (int)rank : RUN_UNKNOWN;
    shortage->tier = tier_named(json_get_text(detail, "tier"));
    shortage->category = category_named(json_get_text(detail, "category"));
    shortage->wanted_bytes = json_count(detail, "wanted_bytes");
    shortage->budget_bytes = json_count(detail, "budget_bytes");
    shortage->reserved_bytes = json_count(detail, "reserved_bytes");
    json_copy_text(shortage->op, sizeof shortage->op, detail, "op");
    json_copy_text(shortage->text, sizeof shortage->text, detail, "text");
    read_categories(shortage, detail);
    const cJSON *also, *ranks = json_get(detail, "also_ranks");
    cJSON_ArrayForEach(also, ranks) if (cJSON_IsNumber(also) && also->valueint >= 0 && also->valueint < 64)
        shortage->also_ranks |= UINT64_C(1) << also->valueint;
    shortage->has_fits = cJSON_IsArray(json_get(detail, "fits"));
    shortage->fit_count = read_fits(shortage, 0, json_get(detail, "fits"));
    shortage->larger_count = read_fits(shortage, shortage->fit_count, json_get(detail, "larger"));
}

bool run_notice_shortage(struct run_shortage *shortage, const struct run_notice *notice)
{
    if (notice->kind != NOTICE_EVENT || strncmp(notice->text, "oom", 3) != 0 || !notice->json) return false;
    cJSON *json = cJSON_Parse(notice->json);
    shortage_read(shortage, json_get(json, "detail"));
    cJSON_Delete(json);
    return true;
}

/* A NaN is in force for one step only. */
static void fault_read(struct run_model *model, const cJSON *detail)
{
    const char *kind = json_get_text(detail, "fault");
    model->fault.kind = FAULT_NONE;
    for (enum fault fault = FAULT_NONE; fault < FAULTS; fault++)
        if (kind && fault != FAULT_NAN && strcmp(kind, fault_name(fault)) == 0) model->fault.kind = fault;
    model->fault.rank = (int)json_get_number(detail, "rank", RUN_RANKS_MAX, 0);
}

static void save_read(struct run_save *save, const cJSON *detail, uint32_t step, uint64_t time_ns)
{
    const char *state = json_get_text(detail, "state");
    if (!state) return;
    json_copy_text(save->tag, sizeof save->tag, detail, "tag");
    save->saving = strcmp(state, "saving") == 0;
    save->failed = strcmp(state, "failed") == 0;
    if (!save->failed) json_copy_text(save->folder, sizeof save->folder, detail, "folder");
    else if (!*save->saved_tag) *save->folder = '\0';
    if (save->failed) {
        save->failed_ns = time_ns;
        save->lost_step = step;
        json_copy_text(save->lost_tag, sizeof save->lost_tag, detail, "tag");
    }
    if (strcmp(state, "saved") != 0) return;
    json_copy_text(save->saved_tag, sizeof save->saved_tag, detail, "tag");
    save->saved_ns = time_ns;
    if (step >= save->lost_step) *save->lost_tag = '\0'; /* an older one may end later, in the background */
    save->saved_bytes = (uint64_t)json_get_number(detail, "bytes", 1e18, 0);
}

/* ---- the records ---- */

/* {"from": 0, "to": 3} as "from 0, to 3"; values that are objects or lists are only in the JSON. */
static void write_detail(FILE *out, const cJSON *detail)
{
    const char *separator = ": ";
    const cJSON *item;
    cJSON_ArrayForEach(item, detail)
    {
        if (cJSON_IsNumber(item)) fprintf(out, "%s%s %.10g", separator, item->string, item->valuedouble);
        else if (cJSON_IsString(item)) fprintf(out, "%s%s %s", separator, item->string, item->valuestring);
        else if (cJSON_IsBool(item))
            fprintf(out, "%s%s %s", separator, item->string, cJSON_IsTrue(item) ? "yes" : "no");
        else continue;
        separator = ", ";
    }
}

static char *event_text(const char *kind, const cJSON *detail)
{
    struct text_stream text;
    FILE *out = text_stream_open(&text);
    if (!out) return NULL;
    const char *said = json_get_text(detail, "text");
    fputs(kind, out);
    if (said) fprintf(out, ": %s", said);
    else if (cJSON_IsObject(detail)) write_detail(out, detail);
    else if (cJSON_IsString(detail)) fprintf(out, ": %s", detail->valuestring);
    return text_stream_close(&text);
}

void fold_event(struct run_model *model, const struct trace_record *record)
{
    cJSON *json = cJSON_ParseWithLength(record->event.json.at, record->event.json.bytes);
    const char *kind = json_get_text(json, "kind");
    const cJSON *detail = json_get(json, "detail");
    bool oom = kind && !strcmp(kind, "oom"), save = kind && !strcmp(kind, "checkpoint");
    bool diverged = kind && !strcmp(kind, "diverged");
    if (kind && !strcmp(kind, "set")) pace_set(&model->pace, detail);
    if (kind && !strcmp(kind, "fault")) fault_read(model, detail);
    if (oom) {
        shortage_read(&model->shortage, detail);
        model->shortage.step = record->event.step;
    }
    model->diverged |= diverged;
    if (save) save_read(&model->save, detail, record->event.step, record->time_ns);
    if (!save || !model->save.saving) { /* what has only begun is in the header; its end is a line */
        char *text = kind ? event_text(kind, detail) : format_text("an event that is not JSON");
        const int level = oom || diverged ? 2 : save && model->save.failed ? 1 : 0;
        struct run_notice *notice = notice_add(model, NOTICE_EVENT, record->time_ns, level, text);
        at_step(notice, record->event.step);
        if (notice && json) notice->json = cJSON_PrintUnformatted(json);
    }
    cJSON_Delete(json);
}

/* Commands that make the run wait or continue: their effect has a notice of its own. */
static bool is_about_time(struct trace_text text)
{
    for (int c = 0; c < COMMANDS; c++) {
        size_t length = strlen(command_table[c].name);
        if (command_table[c].class == COMMAND_CLASS_TIME && text.bytes >= length &&
            memcmp(text.at, command_table[c].name, length) == 0 && (text.bytes == length || text.at[length] == '='))
            return true;
    }
    return false;
}

/* "stage=3", or if it was refused "stage=4<tab>reason". */
void fold_command(struct run_model *model, const struct trace_record *record)
{
    struct trace_text text = record->command.text;
    if (record->command.accepted && is_about_time(text)) return;
    const char *tab = text.bytes ? memchr(text.at, '\t', text.bytes) : NULL;
    int sent = tab ? (int)(tab - text.at) : (int)text.bytes;
    int reason = tab ? (int)text.bytes - sent - 1 : 0;
    char *line = record->command.accepted ? format_text("command %.*s", sent, text.at)
                                          : format_text("command %.*s refused%s%.*s", sent, text.at, reason ? ": " : "",
                                                        reason, tab ? tab + 1 : "");
    at_step(notice_add(model, NOTICE_COMMAND, record->time_ns, record->command.accepted ? 0 : 1, line),
            record->command.step);
}

void fold_log(struct run_model *model, const struct trace_record *record)
{
    notice_add(model, NOTICE_LOG, record->time_ns, record->log.level, text_copy(record->log.text));
}

void fold_validation(struct run_model *model, const struct trace_record *record)
{
    const struct trace_of_validation *from = &record->validation;
    model->validation.known = true;
    model->validation.step = from->step;
    model->validation.tokens = from->tokens;
    model->validation.loss = from->loss;
    if (model->validation_count == RUN_VALIDATIONS_MAX)
        memmove(model->validations, model->validations + 1, --model->validation_count * sizeof *model->validations);
    model->validations[model->validation_count].step = from->step;
    model->validations[model->validation_count++].loss = from->loss;
    char *line = format_text("validation loss %.4f over %u tokens", (double)from->loss, from->tokens);
    at_step(notice_add(model, NOTICE_VALIDATION, record->time_ns, 0, line), from->step);
}

/* Pauses are events too, and the end has a record of its own; what is left to say is that a paused run goes on. */
void fold_state(struct run_model *model, const struct trace_record *record)
{
    if (record->state.state >= RUN_STATES) return;
    bool was_paused = model->has_state && model->state == RUN_PAUSED;
    model->has_state = true;
    model->state = record->state.state;
    text_into(model->reason, sizeof model->reason, record->state.reason);
    if (was_paused && model->state == RUN_RUNNING && strcmp(model->reason, "by command") == 0)
        at_step(notice_add(model, NOTICE_STATE, record->time_ns, 0, format_text("goes on")), record->state.step + 1);
}

/* Consecutive gaps are one notice: a screen that cannot keep up gets several per second. */
static void notice_gap(struct run_model *model, const struct trace_record *record)
{
    struct run_notice *last = model->notice_count ? &model->notices[model->notice_count - 1] : NULL;
    const bool goes_on = last && last->kind == NOTICE_GAP;
    const uint64_t lost = record->gap.records + (goes_on ? last->lost : 0);
    char *text = format_text("%llu records are missing: what they said is unknown", (unsigned long long)lost);
    if (goes_on && text) free(last->text), last->text = text;
    else if (!goes_on) last = notice_add(model, NOTICE_GAP, record->time_ns, 1, text);
    if (last) last->lost = lost;
}

/* Records of a rank (or of all) are missing: sums over the steps in progress are unknown from now on. */
void fold_gap(struct run_model *model, const struct trace_record *record)
{
    model->lost_records += record->gap.records;
    if (record->rank == TRACE_RANK_ALL) model->in_gap = !record->gap.records && record->gap.since_ns == record->time_ns;
    for (int rank = 0; rank < model->ranks; rank++)
        if (record->rank == TRACE_RANK_ALL || record->rank == rank) model->rank[rank].open.lost = true;
    steps_lose(model);
    if (record->gap.records) notice_gap(model, record);
}

void fold_end(struct run_model *model, const struct trace_record *record)
{
    if (record->end.outcome > OUTCOME_STOPPED) return;
    model->ended = model->has_state = true;
    model->state = RUN_ENDED;
    model->outcome = record->end.outcome;
    text_into(model->error, sizeof model->error, record->end.error);
    notice_add(model, NOTICE_STATE, record->time_ns, model->error[0] ? 2 : 0,
               format_text("%s%s%s", run_outcome_name(model->outcome), model->error[0] ? ": " : "", model->error));
}
