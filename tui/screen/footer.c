/* Draws the last row: the line that is being typed; else the answer to the last key, the keys of the current view, and as
 * many others as fit. On the overview the most needed keys (first_keys) come first. In other views room is reserved for help, in a
 * lab also for quit. */
#include <stddef.h>
#include <string.h>

#include "engine/config/command.h"
#include "tui/input/keys.h"
#include "tui/screen/screen.h"

/* Draws the footer, or only finds the key at column `wanted`. */
struct footer {
    struct canvas canvas;
    int columns, x, wanted;
    bool draws, moves; /* moves: the pair Up/Down has had its turn */
    const struct key_row *found;
};

/* Adds a key if all of it fits. */
static void add(struct footer *footer, const struct key_row *row, const char *label, const char *name)
{
    int begin = footer->x, end = begin + utf8_columns(label) + utf8_columns(name) + 3;
    if (end > footer->columns) return;
    if (footer->draws) {
        int x = draw_format(footer->canvas, begin, 0, STYLE_KEY, " %s ", label);
        draw_text(footer->canvas, x, 0, STYLE_TEXT, name);
    }
    if (footer->wanted >= begin && footer->wanted < end) footer->found = row;
    footer->x = end;
}

/* Up and Down are one entry; a click on "Up" is Up. */
static void add_moves(struct footer *footer, const struct key_row *row)
{
    enum { UP_COLUMNS = 4 };
    const int begin = footer->x;
    if (footer->moves) return;
    footer->moves = true;
    add(footer, row, "Up/Down", "move");
    if (footer->found != row) return;
    const enum action wanted = footer->wanted < begin + UP_COLUMNS ? ACTION_UP : ACTION_DOWN;
    for (int i = 0; i < key_count; i++)
        if (key_table[i].action == wanted && key_table[i].modes == row->modes && key_table[i].footer)
            footer->found = &key_table[i];
}

static void add_row(struct footer *footer, const struct key_row *row, const char *name)
{
    if (row->action == ACTION_UP || row->action == ACTION_DOWN) add_moves(footer, row);
    else add(footer, row, row->label, name);
}

void footer_draw_keys(struct canvas canvas, enum key_mode mode)
{
    struct footer footer = {.canvas = canvas, .columns = canvas.at.columns, .wanted = -1, .draws = true};
    for (const struct key_row *row = key_table; row < key_table + key_count; row++)
        if (row->modes & mode && row->footer) add(&footer, row, row->label, row->footer);
}

static const struct view *view_in_focus(const struct view_state *state)
{
    return view_of(state->view == VIEW_OVERVIEW ? state->focus : state->view);
}

static bool is_own(const struct view *view, enum action action)
{
    for (int i = 0; i < VIEW_KEYS_MAX; i++)
        if (view->keys[i] == action) return action != ACTION_NONE;
    return false;
}

/* Whether a key would move the run while the lab waits for a prediction (playing_refuses()). */
static bool is_held(const struct key_row *row, const struct view_state *state)
{
    struct command command;
    if (!state->lab || !state->lab->holds || row->action != ACTION_COMMAND) return false;
    return command_parse(&command, row->argument, NULL) == 0 && command_table[command.id].class == COMMAND_CLASS_TIME;
}

/* Whether this row is the present meaning of its key, not hidden by a row of another mode. */
static bool is_shown(const struct key_row *row, const struct scene *scene)
{
    bool of_timeline = row->action >= ACTION_ZOOM_IN && row->action <= ACTION_SPAN; /* it names them as its own */
    if (!row->footer || of_timeline || key_find(row->code, view_key_mode(scene)) != row) return false;
    return !(scene->state->readonly && row->action == ACTION_COMMAND) && !is_held(row, scene->state);
}

static void draw_prompt(struct canvas canvas, const struct view_state *state)
{
    int x = draw_format(canvas, 0, 0, STYLE_FOCUS, " %s ", state->prompt.label) + 1;
    const char *const keys = "Enter: done  Esc: cancel ";
    draw_right(canvas, canvas.at.columns, 0, STYLE_DIM, keys);
    int room = canvas.at.columns - x - 2 - (int)strlen(keys), columns = utf8_columns(state->prompt.text);
    struct canvas line = canvas_part(canvas, x, 0, room + 1, 1);
    const enum style style = state->prompt.offered ? STYLE_FOCUS : STYLE_STRONG;
    x = draw_text(line, columns > room ? room - columns : 0, 0, style, state->prompt.text); /* its end is seen */
    draw_character(line, x, 0, STYLE_FOCUS, ' ');
}

/* A recorded lesson takes no answers. */
static bool lab_takes(const struct key_row *row, const struct view_state *state)
{
    return !state->lab_recorded || row->action == ACTION_LAB_PANE || row->action == ACTION_LAB_NEXT;
}

/* All of them while the lab has the keys, else the one that gives them to it. */
static void add_lab_keys(struct footer *footer, const struct view_state *state)
{
    /* Enter answers a prediction or a task, a quiz is chosen. */
    const bool answers = state->lab->asks == LAB_PREDICT || state->lab->asks == LAB_TASK;
    for (int i = 0; i < key_count; i++) {
        const struct key_row *row = &key_table[i];
        if (row->modes != KEY_MODE_LAB || !row->footer || !lab_takes(row, state)) continue;
        if (row->action == ACTION_LAB_ANSWER && !answers) continue;
        if (state->lab_focus || row->action == ACTION_LAB_PANE) add(footer, row, row->label, row->footer);
    }
}

/* A key that the lab takes first. */
static bool is_taken(const struct key_row *row, const struct view_state *state)
{
    const struct key_row *of_lab = state->lab && state->lab_focus ? key_find(row->code, KEY_MODE_LAB) : NULL;
    return of_lab && lab_takes(of_lab, state);
}

static void add_own_keys(struct footer *footer, const struct scene *scene)
{
    const struct view *view = view_in_focus(scene->state);
    for (int i = 0; i < VIEW_KEYS_MAX && view->keys[i] != ACTION_NONE; i++) {
        const struct key_row *row = key_of_action(view->keys[i], view_key_mode(scene));
        if (row && row->footer) add_row(footer, row, row->footer);
    }
}

/* Codes of the keys that go before all others of the table, '0' for the four of the stages: in the overview, and elsewhere. */
enum { FIRST_KEYS = 6 };
static const uint32_t first_keys[2][FIRST_KEYS] = {{'?', ' ', '0', 'Y', 'T', 'q'}, {'?', 'q', ' ', '0', 'Y', 'T'}};

static bool is_first(uint32_t code)
{
    for (int i = 0; i < FIRST_KEYS; i++)
        if (first_keys[0][i] == code) return true;
    return false;
}

static void add_if_shown(struct footer *footer, const struct scene *scene, const struct key_row *row)
{
    const struct view *view = view_in_focus(scene->state);
    if (row && is_shown(row, scene) && !is_own(view, row->action) && !is_taken(row, scene->state))
        add_row(footer, row, /* Tab goes through panes where there are some */
                row->action == ACTION_NEXT_PANE && scene->state->view != VIEW_OVERVIEW ? "view" : row->footer);
}

static void add_first_keys(struct footer *footer, const struct scene *scene, const uint32_t codes[FIRST_KEYS])
{
    const struct view_state *state = scene->state;
    const enum key_mode mode = view_key_mode(scene);
    const bool takes_stage = mode & KEY_MODE_LIVE && !state->readonly && !(state->lab && state->lab->holds);
    for (int i = 0; i < FIRST_KEYS; i++)
        if (codes[i] != '0') add_if_shown(footer, scene, key_find(codes[i], mode));
        else if (takes_stage) add(footer, NULL, "0-3", "stage");
}

static void add_keys(struct footer *footer, const struct scene *scene)
{
    enum { HELP = 8, HELP_AND_QUIT = 16 };
    const struct view_state *state = scene->state;
    const bool of_lab = state->lab && state->lab_focus, of_overview = !of_lab && state->view == VIEW_OVERVIEW;
    const int kept = of_overview ? 0 : of_lab ? HELP_AND_QUIT : HELP;
    if (of_overview) add_first_keys(footer, scene, first_keys[0]);
    footer->columns -= kept;
    if (state->lab) add_lab_keys(footer, state);
    if (!of_lab) add_own_keys(footer, scene);
    footer->columns += kept;
    if (!of_overview) add_first_keys(footer, scene, first_keys[1]);
    for (int i = 0; i < key_count; i++)
        if (!is_first(key_table[i].code)) add_if_shown(footer, scene, &key_table[i]);
}

/* An answer that is longer than a row takes several, and the keys make way for as long as it stands. */
int footer_rows(struct canvas screen, const struct view_state *state)
{
    enum { ROWS_MAX = 4 };
    const int width = screen.at.columns - 2;
    if (state->prompt.kind != PROMPT_NONE || utf8_columns(state->message) <= width) return 1;
    return smaller(draw_paragraph(canvas_part(screen, 0, 0, width, 0), 0, STYLE_TEXT, state->message), ROWS_MAX);
}

static void draw_answer(struct canvas canvas, const char *message)
{
    const int columns = canvas.at.columns, rows = canvas.at.rows;
    for (int cell = 0; cell < rows * columns; cell++)
        draw_character(canvas, cell % columns, cell / columns, STYLE_FOCUS, ' ');
    draw_paragraph(canvas_part(canvas, 1, 0, columns - 2, rows), 0, STYLE_FOCUS, message);
}

static int message_columns(const struct view_state *state)
{
    return state->message[0] ? utf8_columns(state->message) + 3 : 0;
}

void footer_draw(struct canvas canvas, const struct scene *scene)
{
    const struct view_state *state = scene->state;
    struct footer footer = {.canvas = canvas, .columns = canvas.at.columns, .draws = true, .wanted = -1};
    if (state->prompt.kind != PROMPT_NONE) {
        draw_prompt(canvas, state);
        return;
    }
    if (canvas.at.rows > 1) {
        draw_answer(canvas, state->message);
        return;
    }
    if (state->message[0]) draw_format(canvas, 0, 0, STYLE_FOCUS, " %s ", state->message);
    footer.x = message_columns(state);
    add_keys(&footer, scene);
}

const struct key_row *footer_key_at(int columns, const struct scene *scene, int x)
{
    struct footer footer = {.columns = columns, .x = message_columns(scene->state), .wanted = x};
    if (scene->state->prompt.kind == PROMPT_NONE) add_keys(&footer, scene);
    return footer.found;
}
