/* Codes of keys, independent of any terminal library, and the table of their actions (keys.def). */
#pragma once

#include <stdint.h>

/* A character's code is its code point; codes of other keys are above Unicode. */
enum input {
    INPUT_NONE = 0,
    INPUT_ESCAPE = 27,
    INPUT_SPECIAL = 0x110000,
    INPUT_UP, INPUT_DOWN, INPUT_LEFT, INPUT_RIGHT, INPUT_HOME, INPUT_END, INPUT_PAGE_UP, INPUT_PAGE_DOWN, INPUT_BACKTAB,
    INPUT_BACKSPACE, INPUT_MOUSE, INPUT_RESIZE, INPUT_GONE,
    INPUT_F0, /* F1 is INPUT_F0 + 1 */
};

enum action {
    ACTION_NONE, ACTION_QUIT, ACTION_CLOSE, ACTION_REDRAW, ACTION_SUSPEND,
    ACTION_VIEW,                                 /* argument: the view's name */
    ACTION_NEXT_PANE, ACTION_PREVIOUS_PANE, ACTION_ENLARGE, ACTION_ENTER,
    ACTION_COMMAND,                              /* argument: the command to send to the engine */
    ACTION_TYPE_COMMAND,                         /* argument: the first characters of the line; NULL: none */
    /* lists, and moving on the timeline */
    ACTION_UP, ACTION_DOWN, ACTION_LEFT, ACTION_RIGHT, ACTION_PAGE_UP, ACTION_PAGE_DOWN, ACTION_FIRST, ACTION_LAST,
    ACTION_ZOOM_IN, ACTION_ZOOM_OUT, ACTION_PAN_LEFT, ACTION_PAN_RIGHT, /* argument "more": larger steps */
    ACTION_FIT, ACTION_CENTRE, ACTION_SPAN,
    ACTION_SEARCH, ACTION_SEARCH_NEXT, ACTION_SEARCH_PREVIOUS, ACTION_FILTER,
    /* time */
    ACTION_PLAY, ACTION_NEXT_STEP, ACTION_PREVIOUS_STEP, ACTION_NEXT_OP, ACTION_PREVIOUS_OP, ACTION_FASTER, ACTION_SLOWER,
    ACTION_LINK_FASTER, ACTION_LINK_SLOWER, ACTION_LIVE, /* LIVE: the cursor back to the newest record */
    ACTION_MARK, ACTION_MARKERS, ACTION_MOMENTS, ACTION_RECORD,
    ACTION_LAB_PANE, ACTION_LAB_ANSWER, ACTION_LAB_CHOOSE, ACTION_LAB_NEXT, ACTION_LAB_HINT, ACTION_LAB_RESET, ACTION_LAB_REVEAL,
    ACTION_LAB_GO, ACTION_LAB_FREEZE, ACTION_LAB_WHERE, /* choose: argument "a" ... */
    ACTION_BARS, ACTION_UNITS, ACTION_THEME, ACTION_NEXT_RANK, ACTION_PREVIOUS_RANK,
};

/* ALWAYS: LIVE and REPLAY. LAB: while a lab is played and its pane has the keys; rows of LAB then come before all others. CHARTS: the
 * screen of plan --sweep --live. ANY: LIVE, REPLAY and CHARTS. */
enum key_mode { KEY_MODE_LIVE = 1, KEY_MODE_REPLAY = 2, KEY_MODE_ALWAYS = 3, KEY_MODE_LAB = 4, KEY_MODE_CHARTS = 8, KEY_MODE_ANY = 11 };

struct key_row {
    uint32_t code;
    const char *label;
    enum action action;
    const char *argument;
    enum key_mode modes;
    const char *footer; /* NULL: not in the footer */
    const char *help;
};

extern const struct key_row key_table[];
extern const int key_count;

/* The row of a key in a mode; NULL: the key does nothing. In mode ALWAYS (a live run with its cursor in the past),
 * rows of REPLAY come before rows of LIVE. */
const struct key_row *key_find(uint32_t code, enum key_mode mode);

/* The first row with this action in a mode; NULL: none. */
const struct key_row *key_of_action(enum action action, enum key_mode mode);

/* The table in Markdown. The caller frees; NULL: no memory. */
char *keys_as_markdown(void);

/* The table for programs, one key a line: label, where ("live", "replay", "lab", "charts" or "always"), action, argument,
 * separated by tabs. The caller frees; NULL: no memory. */
char *keys_as_list(void);
