/* The last row: the answer to the last key, then as many keys as fit. */
#include "tui/input/keys.h"
#include "tui/views/parts.h"

static bool shown(const struct key_row *row, const struct view_state *state)
{
    if (!row->footer || !(row->modes & (state->live ? KEY_MODE_LIVE : KEY_MODE_REPLAY))) return false;
    return !(state->readonly && row->action == ACTION_COMMAND);
}

static int draw_key(struct canvas canvas, int x, const char *label, const char *name)
{
    if (x + utf8_columns(label) + utf8_columns(name) + 3 > canvas.at.columns) return x;
    x = draw_format(canvas, x, 0, STYLE_KEY, " %s ", label);
    return draw_text(canvas, x, 0, STYLE_TEXT, name) + 1;
}

void footer_draw(struct canvas canvas, const struct scene *scene)
{
    const struct view_state *state = scene->state;
    int x = 0;
    if (state->message[0]) x = draw_format(canvas, 0, 0, STYLE_FOCUS, " %s ", state->message) + 1;
    if (state->live && !state->readonly) x = draw_key(canvas, x, "0 1 2 3", "stage");
    for (int i = 0; i < key_count; i++)
        if (shown(&key_table[i], state)) x = draw_key(canvas, x, key_table[i].label, key_table[i].footer);
}
