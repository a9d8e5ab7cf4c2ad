#include "tui/app/search.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "tui/view/op_text.h"

static bool contains(struct trace_text text, const char *part)
{
    size_t length = strlen(part);
    for (size_t i = 0; i + length <= text.bytes; i++)
        if (!strncasecmp(text.at + i, part, length)) return true;
    return false;
}

static struct trace_text text_of(char *out, size_t room, const struct run_model *model,
                                 const struct trace_record *record)
{
    switch (record->kind) {
    case TRACE_OP_END: /* "reduce bucket 1", as views name it */
        if (!op_label(out, model, record->op_end.schedule, (int)record->op_end.op)) *out = '\0';
        break;
    case TRACE_COMMAND: return record->command.text;
    case TRACE_EVENT: return record->event.json;
    case TRACE_LOG: return record->log.text;
    case TRACE_SAMPLE: return record->sample.text;
    case TRACE_STATE: snprintf(out, room, "%s", run_state_name(record->state.state)); break;
    case TRACE_VALIDATION: snprintf(out, room, "validation loss %.4f", (double)record->validation.loss); break;
    case TRACE_STEP_BEGIN: snprintf(out, room, "step %u", record->step_begin.step); break;
    default: return (struct trace_text){"", 0};
    }
    return (struct trace_text){out, strlen(out)};
}

bool search_matches(const struct run_model *model, const struct trace_record *record, const void *user)
{
    const struct search *search = user;
    char text[160];
    bool own = record->kind == TRACE_OP_END || record->kind == TRACE_STEP_BEGIN;
    if (own && record->rank != search->rank) return false;
    if (record->kind == TRACE_STEP_BEGIN && !strncasecmp(search->text, "step ", 5)) /* not 120 for 12 */
        return snprintf(text, sizeof text, "step %u", record->step_begin.step) > 0 && !strcasecmp(text, search->text);
    return contains(text_of(text, sizeof text, model, record), search->text);
}
