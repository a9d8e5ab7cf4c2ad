/* A trace that is folded record by record, and the whiteboard drawn of it. */
#pragma once

#include "engine/trace/source.h"
#include "tui/screen/screen.h"
#include "tui/whiteboard/board.h"

enum { STEP = 7, COLUMNS = 200, ROWS = 60 };

struct told {
    struct run_model *model;
    struct history *history;
    struct source *source;
};

static inline struct told begin(const char *path)
{
    struct told told = {run_model_new(&(struct run_model_options){0}), history_new(0), NULL};
    struct error err;
    if (source_open_file(&told.source, path, &err)) fail_msg("%s", err.text);
    return told;
}

static inline bool fold_next(struct told *told, struct trace_record *record)
{
    if (source_next(told->source, record) != SOURCE_RECORD) return false;
    run_model_fold(told->model, record);
    history_fold(told->history, told->model, record);
    return true;
}

static inline void end(struct told *told)
{
    source_close(told->source);
    history_free(told->history);
    run_model_free(told->model);
}

static inline struct scene scene_of(const struct told *told, const struct view_state *state)
{
    return (struct scene){told->model, told->history, state};
}

static inline void draw(struct surface *surface, const struct told *told, int rank)
{
    struct view_state state = {.view = VIEW_WHITEBOARD, .rank = rank, .units = UNITS_BYTES};
    const struct scene scene = scene_of(told, &state);
    if (!surface_init(surface, COLUMNS, ROWS, THEME_MONO, false)) fail();
    view_whiteboard.draw(canvas_of(surface), &scene);
}

static inline void read_row(char text[COLUMNS + 1], const struct surface *surface, int y)
{
    for (int x = 0; x < surface->columns; x++) {
        const uint32_t sign = surface_at(surface, x, y)->character;
        text[x] = sign < 0x80 ? (char)sign : '~';
    }
    text[surface->columns] = '\0';
}
