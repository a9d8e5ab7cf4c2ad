/* The line that is typed at the bottom, and its effects: search, filter, markers, commands, and values for views. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "engine/config/command.h"
#include "engine/observe/history.h"
#include "tui/app/app_parts.h"
#include "tui/draw/output.h"
#include "tui/input/keys.h"

void typing_open(struct app *app, enum prompt kind, const char *label, const char *text)
{
    app->state.prompt.kind = kind;
    app->state.prompt.offered = false;
    snprintf(app->state.prompt.label, sizeof app->state.prompt.label, "%s", label);
    snprintf(app->state.prompt.text, sizeof app->state.prompt.text, "%s", text);
}

/* ---- search -------------------------------------------------------------------------------------------------------- */

static bool contains(struct trace_text text, const char *part)
{
    size_t length = strlen(part);
    for (size_t i = 0; i + length <= text.bytes; i++)
        if (!strncasecmp(text.at + i, part, length)) return true;
    return false;
}

static struct trace_text text_in(char *out, size_t room, const struct run_model *model,
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
    return contains(text_in(text, sizeof text, model, record), search->text);
}

static void find(struct app *app, bool forward)
{
    struct search search = {app->state.search, app->state.rank};
    if (!search.text[0])
        app_say(app, "nothing to search for: / begins a search%s", app->state.lab ? "; K goes back to the lab" : "");
    else if (feed_find(&app->feed, search_matches, &search, forward))
        app_say(app, "%s: n next, N previous", search.text);
    else app_say(app, "%s is not found %s the cursor", search.text, forward ? "after" : "before");
}

void act_find(struct app *app, const struct key_row *row)
{
    find(app, row->action == ACTION_SEARCH_NEXT);
}

/* A view with a list of its own searches that list. Else the cursor goes to the next match, or, from the end of a
 * run, to the last one before. */
static void take_search(struct app *app, const char *text)
{
    snprintf(app->state.search, sizeof app->state.search, "%s", text);
    if (text[0] && !app_view_acts(app, key_find('n', KEY_MODE_ALWAYS))) find(app, app->feed.behind);
}

/* ---- markers ------------------------------------------------------------------------------------------------------- */

static int by_time(const void *a, const void *b)
{
    const struct marker *first = a, *second = b;
    return first->time_ns < second->time_ns ? -1 : first->time_ns > second->time_ns;
}

static void take_marker(struct app *app, const char *text)
{
    struct view_state *state = &app->state;
    if (state->marker_count == MARKERS_MAX) {
        app_say(app, "there are %d markers already", MARKERS_MAX);
        return;
    }
    struct marker *marker = &state->markers[state->marker_count++];
    *marker = (struct marker){.time_ns = state->cursor_ns};
    snprintf(marker->name, sizeof marker->name, "%.23s", text);
    app_say(app, "marker %s is set; ' goes there", marker->name);
    qsort(state->markers, (size_t)state->marker_count, sizeof *state->markers, by_time);
}

/* To the next one after the cursor, and from the last to the first. */
void act_markers(struct app *app, const struct key_row *row)
{
    struct view_state *state = &app->state;
    int next = 0;
    (void)row;
    while (next < state->marker_count && state->markers[next].time_ns <= state->cursor_ns) next++;
    if (!state->marker_count) {
        app_say(app, "no markers yet: m sets one");
        return;
    }
    const struct marker *marker = &state->markers[next % state->marker_count];
    if (feed_go_time(&app->feed, marker->time_ns)) app_say(app, "marker %s", marker->name);
    else app_say(app, "marker %s: what was then is not kept any more", marker->name);
}

/* Marks A, then B, then opens the comparison of both; then begins again. */
void act_moments(struct app *app, const struct key_row *row)
{
    struct view_state *state = &app->state;
    int which = state->mark[0].known && !state->mark[1].known, view = view_named("moments");
    if (app->options->compare) {
        app_say(app, "%s compares two moments of one run: replay one of the two", row->label);
        return;
    }
    if (!which) memset(state->mark, 0, sizeof state->mark);
    const struct scene scene = app_scene(app);
    moments_mark(state, which, state->cursor_ns, scene.model, scene.history);
    if (!which) app_say(app, "A is here; at another moment %s marks B and compares", row->label);
    else if (view >= 0) state->view = (enum view_id)view;
}

/* ---- the line ------------------------------------------------------------------------------------------------------ */

void act_type(struct app *app, const struct key_row *row)
{
    char name[24];
    snprintf(name, sizeof name, "%d", app->state.marker_count + 1);
    if (row->action == ACTION_TYPE_COMMAND)
        typing_open(app, PROMPT_COMMAND, "command", row->argument ? row->argument : "");
    else if (row->action == ACTION_SEARCH) typing_open(app, PROMPT_SEARCH, "search", "");
    else if (row->action == ACTION_FILTER) typing_open(app, PROMPT_FILTER, "show only", app->state.filter);
    else typing_open(app, PROMPT_MARKER, "name of the marker", name);
}

static void take_filter(struct app *app, const char *text)
{
    snprintf(app->state.filter, sizeof app->state.filter, "%s", text);
    if (text[0]) app_say(app, "only: %s", text);
    else app_say(app, "everything is shown");
}

/* Reports a malformed command at once; the engine would say the same later. */
static void take_command(struct app *app, const char *text)
{
    struct command command;
    struct error err;
    if (!text[0]) return;
    if (command_parse(&command, text, &err)) app_say(app, "%.310s", err.text);
    else app_send(app, text);
}

static void take_last_away(char *text)
{
    size_t length = strlen(text);
    while (length && ((unsigned char)text[length - 1] & 0xc0) == 0x80) length--;
    if (length) text[length - 1] = '\0';
}

static bool is_character(uint32_t key)
{
    bool surrogate = key >= 0xd800 && key < 0xe000;
    return key >= ' ' && key != 127 && !(key >= 0x80 && key < 0xa0) && key < INPUT_SPECIAL && !surrogate;
}

enum prompt_answer prompt_type(char *text, size_t room, uint32_t key, bool *offered)
{
    enum { CONTROL_U = 'u' & 0x1f };
    const struct utf8 character = utf8_of(key);
    if (*offered && is_character(key)) text[0] = '\0';
    *offered = false;
    if (key == '\r') return PROMPT_TAKEN;
    if (key == INPUT_ESCAPE) return PROMPT_LEFT;
    if (key == INPUT_BACKSPACE) take_last_away(text);
    else if (key == CONTROL_U) text[0] = '\0';
    else if (is_character(key) && strlen(text) + strlen(character.text) < room) strcat(text, character.text);
    return PROMPT_GOES_ON;
}

void typing_key(struct app *app, uint32_t key)
{
    char text[LINE_ROOM];
    enum prompt kind = app->state.prompt.kind;
    enum prompt_answer answer =
        prompt_type(app->state.prompt.text, sizeof app->state.prompt.text, key, &app->state.prompt.offered);
    if (answer == PROMPT_GOES_ON) return;
    memcpy(text, app->state.prompt.text, sizeof text);
    if (answer == PROMPT_TAKEN && kind == PROMPT_VALUE)
        app_act(app, key_find('\r', KEY_MODE_ALWAYS)); /* the view that asked for it gets it while the prompt is there */
    app->state.prompt.kind = PROMPT_NONE;
    if (answer == PROMPT_LEFT) return;
    if (kind == PROMPT_SEARCH) take_search(app, text);
    if (kind == PROMPT_FILTER) take_filter(app, text);
    if (kind == PROMPT_MARKER) take_marker(app, text);
    if (kind == PROMPT_COMMAND) take_command(app, text);
    if (kind == PROMPT_PREDICTION && !playing_take(app, text)) app->state.prompt.kind = kind; /* to be mended */
    if (kind == PROMPT_STEP) playing_go(app, text);
    app_tell_time(app);
}
