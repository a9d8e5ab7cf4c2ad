#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tui/app/app_parts.h"

/* ---- recording ----------------------------------------------------------------------------------------------------- */

int lesson_record(struct app *app, struct error *err)
{
    struct app_lab *lab = app->options->lab;
    char path[4200];
    if (!lab || !lab->lesson) return STATUS_OK;
    snprintf(path, sizeof path, "%.4000s/%03d.zlt", lab->lesson, ++lab->lesson_parts);
    free(app->noted);
    app->noted = NULL;
    return feed_record(&app->feed, path, err);
}

/* Minutes go by without being a page of their own. A page has the time of the newest record, because the file is in order of time and older
 * records may still arrive. */
void lesson_note(struct app *app)
{
    const struct app_lab *lab = app->options->lab;
    if (!lab || !lab->lesson || !app->feed.newest.model->header.known) return;
    char *same = lab_pane_json(&app->pane, false), *text = NULL;
    if (same && (!app->noted || strcmp(same, app->noted) != 0)) text = lab_pane_json(&app->pane, true);
    if (!text) {
        free(same);
        return;
    }
    const uint64_t newest_ns = app->feed.newest.model->now_ns;
    app->lesson_ns = newest_ns > app->lesson_ns ? newest_ns : app->lesson_ns + 1; /* one moment, one page */
    feed_note(&app->feed, &(struct trace_record){.kind = TRACE_LESSON,
                                                 .rank = TRACE_RANK_ALL,
                                                 .time_ns = app->lesson_ns,
                                                 .lesson = {{text, strlen(text)}}});
    free(text);
    free(app->noted);
    app->noted = same;
}

/* ---- replaying ----------------------------------------------------------------------------------------------------- */

static bool never(const struct record_reader *newest, uint64_t unused)
{
    (void)newest, (void)unused;
    return false;
}

/* A file alone is a lesson if a page comes before its first step. In a lesson about a trace the pages come after all steps. */
static bool is_lesson(const struct record_reader *newest, uint64_t in_folder)
{
    return newest->model->lesson.text || (!in_folder && newest->model->step_count > 0);
}

/* Whether a record is a page that waited for the learner; pages in between are shown only while playing. */
static bool is_page(const struct run_model *model, const struct trace_record *record, const void *user)
{
    struct lab_pane pane = {0};
    (void)model, (void)user;
    if (record->kind != TRACE_LESSON) return false;
    char *text = strndup(record->lesson.json.at, record->lesson.json.bytes);
    bool waits = text && lab_pane_read(&pane, text) && pane.waits;
    lab_pane_release(&pane);
    free(text);
    return waits;
}

/* Leaves for the next or the previous part; false: there is none. */
static bool leave_for(struct app *app, bool forward)
{
    const struct app_options *options = app->options;
    const int wanted = options->part + (forward ? 1 : -1);
    if (wanted < 0 || wanted >= options->parts) return false;
    *options->turned = forward ? 1 : -1;
    return app->quit = app->again = true;
}

/* A run that was only taken somewhere has no page at which anybody stopped. */
bool lesson_open(struct app *app)
{
    struct feed *feed = &app->feed;
    const bool forward = !app->options->from_end;
    feed_read_until(feed, is_lesson, app->options->parts > 0);
    if (!feed->newest.model->lesson.text) return false;
    if (!forward) feed_read_until(feed, never, 0), feed_newest(feed);
    if (!feed_find(feed, is_page, NULL, forward) && !leave_for(app, forward)) feed_newest(feed);
    return true;
}

void lesson_show(struct app *app)
{
    const struct run_model *model = feed_model(&app->feed);
    if (app->options->lab || app->feed.live) return;
    if (!model->lesson.text) {
        app->state.lab = NULL;
        return;
    }
    if (app->state.lab && app->lesson_ns == model->lesson.time_ns) return;
    const int step = app->state.lab ? app->pane.step : -1;
    app->lesson_ns = model->lesson.time_ns;
    app->state.lab_recorded = true;
    app->state.lab = lab_pane_read(&app->pane, model->lesson.text) ? &app->pane : NULL;
    if (!app->state.lab) return;
    const int view = app->pane.step != step ? view_named(app->pane.look) : -1;
    if (view >= 0) app->state.view = (enum view_id)view;
    playing_scroll(app);
}

bool lesson_key(struct app *app, uint32_t key)
{
    const struct key_row *row = key_find(key, KEY_MODE_LAB);
    if (!app->state.lab_recorded || !app->state.lab || !app->state.lab_focus || !row) return false;
    if (row->action != ACTION_LAB_NEXT && row->action != ACTION_LAB_GO) return false;
    const bool forward = row->action == ACTION_LAB_NEXT;
    if (!feed_find(&app->feed, is_page, NULL, forward) && !leave_for(app, forward))
        app_say(app, forward ? "this was the last page" : "this is the first page");
    return true;
}
