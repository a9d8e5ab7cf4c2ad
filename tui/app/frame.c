/* One frame of a recorded run, without a terminal. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tui/app/app_parts.h"
#include "tui/app/record_reader.h"
#include "tui/draw/output.h"
#include "tui/screen/screen.h"

/* "12", "12.3" or "12.3.begin": the end of a step, or the end or begin of one of its operations on rank 0. */
static int go_to_step(struct record_reader *reader, const char *text, struct error *err)
{
    unsigned step = 0, op = 0;
    int whole = 0, one = 0;
    bool begins = false;
    sscanf(text, "%9u%n.%9u%n", &step, &whole, &op, &one);
    const char *rest = text + (one ? one : whole);
    if (one && (begins = !strcmp(rest, ".begin"))) rest += strlen(rest);
    else if (one && !strcmp(rest, ".end")) rest += strlen(rest);
    if (step < 1 || *rest || strpbrk(text, "+- ")) /* sscanf takes -1 for 4294967295 */
        return error_set(err, STATUS_USAGE,
                         "--at step:%s: give step:STEP or step:STEP.OPERATION[.begin|.end], steps from 1 on", text);
    if (one && !record_reader_until_op(reader, step, op, !begins))
        return error_set(err, STATUS_USAGE, "this run has no operation %u in step %u on rank 0", op, step);
    if (!one) record_reader_until_step_ends(reader, step);
    uint32_t last = record_reader_steps_done(reader);
    if (!one && !last) return error_set(err, STATUS_USAGE, "this run has no whole step; use --at end");
    if (!one && last < step)
        return error_set(err, STATUS_USAGE, "this run ends after step %u; there is no step %u", last, step);
    return STATUS_OK;
}

/* Seconds since the first record. */
static int go_to_time(struct record_reader *reader, const char *text, struct error *err)
{
    char *end;
    double seconds = strtod(text, &end);
    if (end == text || *end || !(seconds >= 0 && seconds < 1e9))
        return error_set(err, STATUS_USAGE, "--at time:%s: give seconds since the start of the run, like time:1.5",
                         text);
    if (record_reader_peek(reader)) record_reader_until_time(reader, reader->next.time_ns + (uint64_t)(seconds * 1e9));
    return STATUS_OK;
}

static int go_to(struct record_reader *reader, const char *at, struct error *err)
{
    if (!at || !strcmp(at, "end")) {
        while (record_reader_fold(reader)) {}
        return STATUS_OK;
    }
    if (!strcmp(at, "oom"))
        return record_reader_until_shortage(reader)
                   ? STATUS_OK
                   : error_set(err, STATUS_USAGE, "this run never was out of memory; use --at end");
    if (!strncmp(at, "step:", 5)) return go_to_step(reader, at + 5, err);
    if (!strncmp(at, "time:", 5)) return go_to_time(reader, at + 5, err);
    return error_set(err, STATUS_USAGE, "--at %s: use step:N, step:N.OPERATION[.begin|.end], time:SECONDS, oom or end",
                     at);
}

static int open_recording(struct record_reader *reader, const char *file, struct error *err)
{
    *reader = (struct record_reader){0};
    int status = source_open_file(&reader->source, file, err);
    if (status) return status;
    reader->model = record_reader_model();
    reader->history = history_new(0);
    return reader->model && reader->history ? STATUS_OK : error_set(err, STATUS_RUN, "no memory for the state of a run");
}

/* The page of a recorded lesson stands beside the view; where there is room for one of them only, a view that was asked for
 * is shown. */
static void show_lesson(struct view_state *state, struct lab_pane *pane, const struct record_reader *reader,
                        const struct app_frame_options *options)
{
    if (!reader->model->lesson.text || !lab_pane_read(pane, reader->model->lesson.text)) return;
    state->lab = pane;
    state->lab_recorded = true;
    state->lab_focus = !options->view;
}

static char *paint(const struct record_reader *reader, enum view_id view, const struct app_frame_options *options,
                   enum theme theme)
{
    struct view_state state = {.view = view,
                               .focus = VIEW_EVENTS,
                               .units =
                                   options->look.units ? (enum units)(options->look.units - APP_UNITS_GB) : UNITS_GIB,
                               .cursor_ns = reader->model->now_ns,
                               .newest_ns = reader->model->now_ns,
                               .trace_file = options->file,
                               .trouble = reader->trouble[0] ? reader->trouble : NULL};
    struct surface surface;
    struct lab_pane pane = {0};
    if (!surface_init(&surface, options->columns, options->rows, theme, options->look.ascii)) return NULL;
    surface.depth = DEPTH_TRUE;
    show_lesson(&state, &pane, reader, options);
    view_draw(reader->model, reader->history, &state, &surface);
    lab_pane_release(&pane);
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
    struct record_reader reader;
    if (view < 0) return error_set(err, STATUS_USAGE, "there is no view %s; there are: %s", name, view_names());
    if (options->columns < 1 || options->rows < 1 || options->columns > 1000 || options->rows > 1000)
        return error_set(err, STATUS_USAGE, "a frame of %dx%d cannot be drawn; use for example 80x24", options->columns,
                         options->rows);
    int status = look_theme(&theme, &options->look, options->as != APP_AS_TEXT, err);
    if (status) return status;
    status = open_recording(&reader, options->file, err);
    if (!status) status = go_to(&reader, options->at, err);
    if (!status) *out = paint(&reader, (enum view_id)view, options, theme);
    if (!status && !*out) status = error_set(err, STATUS_RUN, "no memory for a frame");
    record_reader_release(&reader, true);
    return status;
}
