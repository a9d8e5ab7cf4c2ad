/* One frame of a recorded run, without a terminal. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tui/app/app.h"
#include "tui/app/feed.h"
#include "tui/app/look.h"
#include "tui/draw/output.h"
#include "tui/views/view.h"

static int go_to_step(struct feed *feed, const char *text, struct error *err)
{
    char *end;
    errno = 0;
    unsigned long step = strtoul(text, &end, 10);
    if (errno || *end || end == text || step < 1 || step > UINT32_MAX)
        return error_set(err, STATUS_USAGE, "--at step:%s: a step is a number from 1", text);
    feed_until_step(feed, (uint32_t)step);
    const struct run_step *last = run_last_step(feed->model);
    if (!last) return error_set(err, STATUS_USAGE, "this run has no whole step; use --at end");
    if (last->step < step)
        return error_set(err, STATUS_USAGE, "this run ends after step %u; there is no step %lu", last->step, step);
    return STATUS_OK;
}

static int go_to(struct feed *feed, const char *at, struct error *err)
{
    if (!at || !strcmp(at, "end")) {
        feed_last(feed);
        return STATUS_OK;
    }
    if (!strcmp(at, "oom"))
        return feed_until_shortage(feed)
                   ? STATUS_OK
                   : error_set(err, STATUS_USAGE, "this run never was out of memory; use --at end");
    if (!strncmp(at, "step:", 5)) return go_to_step(feed, at + 5, err);
    return error_set(err, STATUS_USAGE, "--at %s: use step:N, oom or end", at);
}

static char *paint(const struct feed *feed, enum view_id view, const struct app_frame_options *options,
                   enum theme theme)
{
    struct view_state state = {.view = view,
                               .focus = VIEW_EVENTS,
                               .units = (enum units)options->look.units,
                               .trouble = feed->trouble[0] ? feed->trouble : NULL};
    struct surface surface;
    if (!surface_init(&surface, options->columns, options->rows, theme, options->look.ascii)) return NULL;
    view_draw(feed->model, feed->tape, &state, &surface);
    char *text = options->as == APP_AS_SVG    ? surface_to_svg(&surface)
                 : options->as == APP_AS_ANSI ? surface_to_ansi(&surface)
                                              : surface_to_text(&surface);
    surface_release(&surface);
    return text;
}

int app_frame(const struct app_frame_options *options, char **out, struct error *err)
{
    const char *name = options->view ? options->view : "overview";
    int view = view_named(name);
    enum theme theme;
    struct feed feed;
    if (view < 0) return error_set(err, STATUS_USAGE, "there is no view %s; there are: %s", name, view_names());
    if (options->columns < 1 || options->rows < 1 || options->columns > 1000 || options->rows > 1000)
        return error_set(err, STATUS_USAGE, "a frame of %dx%d cannot be drawn; use for example 80x24", options->columns,
                         options->rows);
    int status = look_theme(&theme, &options->look, options->as != APP_AS_TEXT, err);
    if (status) return status;
    status = feed_open_replay(&feed, options->file, 1, err);
    if (status) return status;
    status = go_to(&feed, options->at, err);
    if (!status) *out = paint(&feed, (enum view_id)view, options, theme);
    if (!status && !*out) status = error_set(err, STATUS_RUN, "no memory for a frame");
    feed_close(&feed);
    return status;
}
