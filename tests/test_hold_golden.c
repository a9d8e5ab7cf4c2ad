/* The views of who holds what and when, at chosen moments of a real, fixed trace (docs/example.zlt: 4 ranks, stage 0, then
 * 3): between steps, in the middle of backward, in the update. After a change that is meant, accept all:
 *     ACCEPT=1 build/release/tests/test_hold_golden */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/analyze/progress.h"
#include "engine/trace/source.h"
#include "tui/draw/output.h"
#include "tui/views/view.h"

/* A moment: rank 1 begins the first operation of a kind on a unit or bucket in a step; or a step has ended. */
enum { ENDED = -1 };
struct moment {
    uint32_t step;
    int kind, object;
};

static const struct moment after_stage_0 = {3, ENDED, 0}, all_reduce = {2, OP_ALL_REDUCE, 1},
                           gathers = {7, OP_GATHER, 3}, backward = {7, OP_BLOCK_BACKWARD, 2},
                           reduces = {7, OP_REDUCE_SCATTER, 2}, update = {7, OP_UPDATE, 2};

enum as { UTF8, ASCII, COLOUR, COLOUR_ASCII };

static const struct golden {
    const char *name, *view;
    const struct moment *moment;
    int columns, rows;
    enum as as;
    struct view_state state;
} goldens[] = {
    {"memory-80x24.txt", "memory", &backward, 80, 24, UTF8, {.rank = 1}},
    {"memory-80x24.ascii.txt", "memory", &backward, 80, 24, ASCII, {.rank = 1}},
    {"memory-80x24.ansi", "memory", &backward, 80, 24, COLOUR, {.rank = 1}},
    {"memory-stage0-80x24.txt", "memory", &after_stage_0, 80, 24, UTF8, {.units = UNITS_BYTES}},
    {"memory-120x40.txt", "memory", &backward, 120, 40, UTF8, {.rank = 2, .bars_now = true}},
    {"memory-200x60.txt", "memory", &reduces, 200, 60, UTF8, {0}},
    {"memory-200x60.ascii.ansi", "memory", &reduces, 200, 60, COLOUR_ASCII, {.units = UNITS_GIB}},
    {"buckets-80x24.txt", "buckets", &reduces, 80, 24, UTF8, {.rank = 1}},
    {"buckets-80x24.ascii.txt", "buckets", &reduces, 80, 24, ASCII, {.rank = 1}},
    {"buckets-80x24.ansi", "buckets", &reduces, 80, 24, COLOUR, {.rank = 1}},
    {"buckets-stage0-80x24.txt", "buckets", &all_reduce, 80, 24, UTF8, {.rank = 1}},
    {"buckets-stage0-120x40.txt", "buckets", &after_stage_0, 120, 40, UTF8, {0}},
    {"buckets-200x60.ascii.ansi", "buckets", &reduces, 200, 60, COLOUR_ASCII, {.row[VIEW_BUCKETS] = 1}},
    {"shards-80x24.txt", "shards", &gathers, 80, 24, UTF8, {.rank = 1}},
    {"shards-80x24.ascii.txt", "shards", &gathers, 80, 24, ASCII, {.rank = 1}},
    {"shards-80x24.ansi", "shards", &backward, 80, 24, COLOUR, {.rank = 1}},
    {"shards-backward-80x24.txt", "shards", &backward, 80, 24, UTF8, {.rank = 1, .row[VIEW_SHARDS] = 3}},
    {"shards-stage0-80x24.txt", "shards", &all_reduce, 80, 24, UTF8, {0}},
    {"shards-120x40.txt", "shards", &update, 120, 40, UTF8, {.rank = 1}},
    {"shards-200x60.ascii.ansi", "shards", &reduces, 200, 60, COLOUR_ASCII, {.rank = 3}},
    {"schedule-80x24.txt", "schedule", &backward, 80, 24, UTF8, {.rank = 1}},
    {"schedule-80x24.ascii.txt", "schedule", &backward, 80, 24, ASCII, {.rank = 1}},
    {"schedule-80x24.ansi", "schedule", &backward, 80, 24, COLOUR, {.rank = 1}},
    {"schedule-detail-80x24.txt",
     "schedule",
     &reduces,
     80,
     24,
     UTF8,
     {.rank = 1, .selected = {.known = true, .rank = 1, .step = 7, .op = 23}}},
    {"schedule-filter-80x24.txt", "schedule", &after_stage_0, 80, 24, UTF8, {.filter = "lane comm"}},
    {"schedule-120x40.txt", "schedule", &gathers, 120, 40, UTF8, {.row[VIEW_SCHEDULE] = 30}},
    {"schedule-200x60.ascii.ansi",
     "schedule",
     &update,
     200,
     60,
     COLOUR_ASCII,
     {.selected = {.known = true, .rank = 0, .step = 7, .op = 15}}},
};

static bool has_come(const struct run_model *model, const struct trace_record *record, const struct moment *moment)
{
    if (moment->kind == ENDED) {
        const struct run_step *last = record->kind == TRACE_STEP_END ? run_last_step(model) : NULL;
        return last && last->step == moment->step;
    }
    if (record->kind != TRACE_OP_BEGIN || record->rank != 1 || record->op_begin.step != moment->step) return false;
    const struct op *op = &run_schedule_numbered(model, record->op_begin.schedule)->ops.ops[record->op_begin.op];
    return (int)op->kind == moment->kind && (op->bucket >= 0 ? op->bucket : op->unit) == moment->object;
}

static char *paint(const struct golden *golden)
{
    struct run_model *model = run_model_new(&(struct run_model_options){0});
    struct tape *tape = tape_new(0);
    struct view_state state = golden->state;
    struct trace_record record;
    struct source *source;
    struct surface surface;
    struct error err;
    bool come = false;
    if (source_open_file(&source, "docs/example.zlt", &err)) fail_msg("%s", err.text);
    while (!come && source_next(source, &record) == SOURCE_RECORD) {
        run_model_fold(model, &record);
        tape_fold(tape, model, &record);
        come = has_come(model, &record, golden->moment);
    }
    assert_true(come);
    const bool colour = golden->as == COLOUR || golden->as == COLOUR_ASCII,
               ascii = golden->as == ASCII || golden->as == COLOUR_ASCII;
    assert_true(surface_init(&surface, golden->columns, golden->rows, colour ? THEME_DEFAULT : THEME_MONO, ascii));
    state.view = (enum view_id)view_named(golden->view);
    view_draw(model, tape, &state, &surface);
    char *text = colour ? surface_to_ansi(&surface) : surface_to_text(&surface);
    surface_release(&surface);
    source_close(source);
    tape_free(tape);
    run_model_free(model);
    return text;
}

static char *read_whole(const char *path)
{
    FILE *file = fopen(path, "r");
    char *text = NULL;
    size_t room = 0;
    if (!file) return NULL;
    if (getdelim(&text, &room, '\0', file) < 0) {
        free(text);
        text = NULL;
    }
    fclose(file);
    return text;
}

static void screen_is_as_accepted(void **state)
{
    const struct golden *golden = *state;
    char path[256], *text = paint(golden), *accepted;
    snprintf(path, sizeof path, "tests/golden/%s", golden->name);
    if (getenv("ACCEPT")) {
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        fputs(text, file);
        assert_int_equal(fclose(file), 0);
    }
    accepted = read_whole(path);
    if (!accepted || strcmp(text, accepted) != 0)
        fail_msg("%s %s; if that is meant: ACCEPT=1 build/release/tests/test_hold_golden", path,
                 accepted ? "differs" : "is missing");
    free(text);
    free(accepted);
}

int main(void)
{
    enum { COUNT = sizeof goldens / sizeof goldens[0] };
    struct CMUnitTest tests[COUNT];
    for (int i = 0; i < COUNT; i++)
        tests[i] = (struct CMUnitTest){goldens[i].name, screen_is_as_accepted, NULL, NULL, (void *)&goldens[i]};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
