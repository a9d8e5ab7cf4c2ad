/* One frame of a recorded run, or the frames of a stretch of steps, without a terminal. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/version.h"
#include "tui/app/app_parts.h"
#include "tui/draw/animation.h"
#include "tui/draw/output.h"

/* One screen, or those of a stretch of steps. */
struct stretch {
    const struct app_frame_options *options;
    enum view_id view;
    enum theme theme;
    uint32_t from, to, begun; /* steps; from 0: one screen; begun: the last one that has a moment */
    struct record_reader reader;
    struct animation *animation;
    uint64_t last_ns, step_ns, shown_ns; /* recorded times of the last screen and of the step's begin; playing time */
};

static int has_reached(const struct record_reader *reader, uint32_t step, struct error *err)
{
    const uint32_t last = record_reader_steps_done(reader);
    if (!last) return error_set(err, STATUS_USAGE, "this run has no whole step; use --at end");
    if (last < step)
        return error_set(err, STATUS_USAGE, "this run ends after step %u; there is no step %u", last, step);
    return STATUS_OK;
}

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
    record_reader_skip(reader, 0, step, UINT64_MAX);
    if (one && !record_reader_until_op(reader, step, op, !begins))
        return error_set(err, STATUS_USAGE, "this run has no operation %u in step %u on rank 0", op, step);
    if (one) return STATUS_OK;
    record_reader_until_step_ends(reader, step);
    return has_reached(reader, step, err);
}

/* Seconds since the first record. */
static int go_to_time(struct record_reader *reader, const char *text, struct error *err)
{
    char *end;
    double seconds = strtod(text, &end);
    if (end == text || *end || !(seconds >= 0 && seconds < 1e9))
        return error_set(err, STATUS_USAGE, "--at time:%s: give seconds since the start of the run, like time:1.5",
                         text);
    const uint64_t time_ns = record_reader_peek(reader) ? reader->next.time_ns + (uint64_t)(seconds * 1e9) : 0;
    record_reader_skip(reader, 0, UINT32_MAX, time_ns);
    record_reader_until_time(reader, time_ns);
    return STATUS_OK;
}

static int go_to(struct record_reader *reader, const char *at, struct error *err)
{
    if (!at || !strcmp(at, "end")) {
        record_reader_skip(reader, 0, UINT32_MAX, UINT64_MAX);
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
static void show_lesson(struct view_state *state, struct lab_pane *pane, const struct stretch *of)
{
    const char *text = of->reader.model->lesson.text;
    if (!text || !lab_pane_read(pane, text)) return;
    state->lab = pane;
    state->lab_recorded = true;
    state->lab_focus = !of->options->view;
}

static struct view_state state_of(const struct stretch *of)
{
    const struct app_frame_options *options = of->options;
    return (struct view_state){
        .view = of->view,
        .focus = VIEW_EVENTS,
        .units = options->look.units ? (enum units)(options->look.units - APP_UNITS_GB) : UNITS_GIB,
        .by_ops = options->steps || (options->at && !strncmp(options->at, "step:", 5) && strchr(options->at, '.')),
        .cursor_ns = of->reader.model->now_ns,
        .newest_ns = of->reader.model->now_ns,
        .trace_file = options->file,
        .trouble = of->reader.trouble[0] ? of->reader.trouble : NULL};
}

static int no_memory(struct error *err)
{
    return error_set(err, STATUS_RUN, "no memory for a frame");
}

static bool begin_surface(struct surface *surface, const struct stretch *of)
{
    const struct app_frame_options *options = of->options;
    const bool good = surface_init(surface, options->columns, options->rows, of->theme, options->look.ascii);
    surface->depth = DEPTH_TRUE;
    return good;
}

static bool paint(struct surface *surface, const struct stretch *of)
{
    struct view_state state = state_of(of);
    struct lab_pane pane = {0};
    if (!begin_surface(surface, of)) return false;
    show_lesson(&state, &pane, of);
    view_draw(of->reader.model, of->reader.history, &state, surface);
    lab_pane_release(&pane);
    return true;
}

/* Two traces: the cursor of A goes to the reader's moment, and B's follows. */
static int paint_two(struct surface *surface, const struct stretch *of, struct error *err)
{
    struct view_state state = state_of(of);
    struct feed a;
    struct compared two;
    int status = feed_open_replay(&a, of->options->file, err);
    if (status) return status;
    status = compared_open(&two, of->options->compare, of->options->file, err);
    if (!status) {
        if (!begin_surface(surface, of)) status = no_memory(err);
        feed_go_time(&a, of->reader.model->now_ns);
        feed_tell_time(&a, &state);
        if (!status) compared_draw(&two, &a, &state, surface);
        compared_close(&two);
    }
    feed_close(&a);
    return status;
}

static int print(char **out, const struct stretch *of, struct error *err)
{
    struct surface surface;
    int status = STATUS_OK;
    if (of->options->compare) status = paint_two(&surface, of, err);
    else if (!paint(&surface, of)) status = no_memory(err);
    if (status) return status;
    *out = of->options->as == APP_AS_SVG    ? surface_to_svg(&surface)
           : of->options->as == APP_AS_ANSI ? surface_to_ansi(&surface)
                                            : surface_to_text(&surface);
    surface_release(&surface);
    return *out ? STATUS_OK : no_memory(err);
}

/* ---- a stretch of steps: the screen before it, at each begin and end of an operation of rank 0, and after each step. Between two
 * screens as much time passes as was recorded, but never too little or too much to follow. ---- */

enum { LEAST_NS = 250 * 1000 * 1000, MOST_NS = 2000 * 1000 * 1000, CAPTION_ROOM = 500 };

static int read_steps(struct stretch *stretch, struct error *err)
{
    const char *text = stretch->options->steps;
    char end;
    if (stretch->options->at)
        return error_set(err, STATUS_USAGE, "--steps and --at exclude each other; give one of them");
    if (stretch->options->as < APP_AS_SVG)
        return error_set(err, STATUS_USAGE, "--steps %s: text shows one screen; add --as html, cast or svg", text);
    const bool one = sscanf(text, "%9u%c", &stretch->from, &end) == 1;
    if (one) stretch->to = stretch->from;
    if ((one || sscanf(text, "%9u:%9u%c", &stretch->from, &stretch->to, &end) == 2) && !strpbrk(text, "+- ") &&
        stretch->from >= 1 && stretch->from <= stretch->to)
        return STATUS_OK;
    return error_set(err, STATUS_USAGE, "--steps %s: give a step from 1 on, or the first and the last, like 3:5", text);
}

/* The last whole step: the trace is read once to its end, and then opened again. */
static int find_last(struct stretch *stretch, struct error *err)
{
    go_to(&stretch->reader, "end", err);
    stretch->from = stretch->to = record_reader_steps_done(&stretch->reader);
    if (!stretch->to) return has_reached(&stretch->reader, 1, err);
    record_reader_release(&stretch->reader, true);
    return open_recording(&stretch->reader, stretch->options->file, err);
}

static struct animation *begin(const struct stretch *stretch, const struct surface *like)
{
    const struct run_model *model = stretch->reader.model;
    const struct run_header *header = &model->header;
    const struct run_schedule *plan = run_training(model);
    char facts[600];
    const struct text steps =
        text_of(stretch->from < stretch->to ? "steps %u to %u" : "step %u", stretch->from, stretch->to);
    const struct text title =
        text_of("%s on %d rank%s, stage %c: %s, %s", header->model_name[0] ? header->model_name : "unnamed model",
                model->ranks, plural(model->ranks), plan ? '0' + plan->stage : '?', view_of(stretch->view)->title,
                stretch->from ? steps.text : stretch->options->at);
    snprintf(
        facts, sizeof facts,
        "%s parameters, %s, %s %s, recorded with zerolab %s, drawn with zerolab " ZEROLAB_VERSION
        ". A moment is a begin or an end of an operation of rank 0. It is shown for the recorded time, but for %.2g s "
        "at least and %.2g s at most.",
        header->parameters > 0 ? format_count((uint64_t)header->parameters).text : "unknown number of",
        header->precision, header->backend, header->isa, header->version, LEAST_NS * 1e-9, MOST_NS * 1e-9);
    return animation_begin((enum animation_as)(stretch->options->as - APP_AS_SVG), like, title.text, facts);
}

static bool add_screen(struct stretch *stretch, const char *what)
{
    const struct view_state state = state_of(stretch);
    const uint64_t passed_ns = state.cursor_ns - stretch->last_ns;
    char label[CAPTION_ROOM];
    struct surface surface;
    if (!paint(&surface, stretch)) return false;
    if (stretch->animation)
        stretch->shown_ns += passed_ns < LEAST_NS ? LEAST_NS : passed_ns > MOST_NS ? MOST_NS : passed_ns;
    else stretch->animation = begin(stretch, &surface);
    stretch->last_ns = state.cursor_ns;
    const int used = snprintf(label, sizeof label, "%.90s. ", what);
    whiteboard_sentence(label + used, sizeof label - (size_t)used,
                        &(struct scene){stretch->reader.model, stretch->reader.history, &state});
    const bool added =
        stretch->animation && animation_add(stretch->animation, &surface, (double)stretch->shown_ns * 1e-9, label);
    surface_release(&surface);
    return added;
}

static bool add_step(struct stretch *stretch, uint32_t step)
{
    struct record_moment at;
    while (record_reader_until_moment(&stretch->reader, step, &at)) {
        if (stretch->begun < step) stretch->step_ns = at.time_ns;
        stretch->begun = step;
        const struct text what =
            text_of("Step %u, %s: operation %u %s", step, format_time_bare(at.time_ns - stretch->step_ns).text, at.op,
                    at.ends ? "ends" : "begins");
        if (!add_screen(stretch, what.text)) return false;
    }
    record_reader_until_step_ends(&stretch->reader, step);
    const bool whole = record_reader_steps_done(&stretch->reader) >= step;
    return add_screen(stretch, text_of(whole ? "After step %u" : "In step %u the trace ends", step).text);
}

/* False: no memory. A step that has begun and never ended is shown up to there. */
static bool add_steps(struct stretch *stretch)
{
    record_reader_skip(&stretch->reader, 0, stretch->from - 1, UINT64_MAX);
    record_reader_until_step_ends(&stretch->reader, stretch->from - 1);
    bool good = add_screen(stretch, text_of("Before step %u", stretch->from).text);
    for (uint32_t step = stretch->from; good && step <= stretch->to && !stretch->reader.over; step++)
        good = add_step(stretch, step);
    return good;
}

static int print_stretch(char **out, struct stretch *stretch, struct error *err)
{
    const struct app_frame_options *options = stretch->options;
    int status = options->steps ? read_steps(stretch, err) : STATUS_OK;
    if (!status) status = open_recording(&stretch->reader, options->file, err);
    if (!status && !options->steps && !options->at) status = find_last(stretch, err);
    if (!status && options->at) status = go_to(&stretch->reader, options->at, err);
    const bool good = status || (options->at ? add_screen(stretch, options->at) : add_steps(stretch));
    if (!status && good && stretch->begun < stretch->to) status = has_reached(&stretch->reader, stretch->to, err);
    char *text = animation_end(stretch->animation, (double)(stretch->shown_ns + MOST_NS) * 1e-9);
    if (!status && good && text) *out = text;
    else free(text);
    if (!status && !(good && text)) status = error_set(err, STATUS_RUN, "no memory for the frames");
    return status;
}

int app_frame(const struct app_frame_options *options, char **out, struct error *err)
{
    const char *name = options->view ? options->view : options->compare ? "whiteboard" : "overview";
    int view = view_named(name);
    const int named = options->look.theme ? theme_named(options->look.theme) : THEME_DEFAULT;
    if (view < 0) return error_set(err, STATUS_USAGE, "there is no view %s; there are: %s", name, view_names());
    if (options->columns < 1 || options->rows < 1 || options->columns > 1000 || options->rows > 1000)
        return error_set(err, STATUS_USAGE, "a frame of %dx%d cannot be drawn; use for example 80x24", options->columns,
                         options->rows);
    if (named < 0)
        return error_set(err, STATUS_USAGE, "there is no theme %s; there are: %s", options->look.theme,
                         theme_names());
    const bool mono = look_is_mono(&options->look, options->as != APP_AS_TEXT);
    struct stretch stretch = {
        .options = options, .view = (enum view_id)view, .theme = mono ? THEME_MONO : (enum theme)named};
    const bool many = options->steps || options->as >= APP_AS_HTML;
    int status = many ? print_stretch(out, &stretch, err) : open_recording(&stretch.reader, options->file, err);
    if (!many && !status) status = go_to(&stretch.reader, options->at, err);
    if (!many && !status) status = print(out, &stretch, err);
    record_reader_release(&stretch.reader, true);
    return status;
}
