/* Moves the chosen row of lists, draws the text that replaces a list while no schedule is known, and reads the filter of '\'. */
#include "tui/view/view.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { PAGE = 10, WORD_ROOM = 80 };

int list_kept(int row, int items)
{
    return row >= items ? (items > 0 ? items - 1 : 0) : row < 0 ? 0 : row;
}

int scrolled(int scroll, int items, int rows)
{
    return within(scroll, 0, items > rows ? items - rows : 0);
}

int list_top(int chosen, int items, int rows)
{
    return scrolled(chosen - rows / 2, items, rows);
}

void draw_untold(struct canvas canvas, bool focused, const char *title)
{
    draw_title(canvas, 0, focused, "%s", title);
    draw_text(canvas, 1, 1, STYLE_DIM, "not known yet: no schedule has come");
}

bool list_act(int *row, int items, const struct key_row *key)
{
    return list_act_by(row, items, PAGE, key);
}

bool list_act_by(int *row, int items, int whole, const struct key_row *key)
{
    const int page = key->argument ? whole / 2 : whole;
    switch (key->action) {
    case ACTION_UP: *row = list_kept(*row - 1, items); return true;
    case ACTION_DOWN: *row = list_kept(*row + 1, items); return true;
    case ACTION_PAGE_UP: *row = list_kept(*row - page, items); return true;
    case ACTION_PAGE_DOWN: *row = list_kept(*row + page, items); return true;
    case ACTION_FIRST: *row = 0; return true;
    case ACTION_LAST: *row = list_kept(items - 1, items); return true;
    default: return false;
    }
}

bool rank_act(struct view_state *state, const struct scene *scene, const struct key_row *key)
{
    const int ranks = scene->model->ranks;
    if (ranks <= 0 || (key->action != ACTION_NEXT_RANK && key->action != ACTION_PREVIOUS_RANK)) return false;
    state->rank = (list_kept(state->rank, ranks) + (key->action == ACTION_NEXT_RANK ? 1 : ranks - 1)) % ranks;
    return true;
}

bool ranks_act(struct view_state *state, const struct scene *scene, const struct key_row *key)
{
    state->rank = list_kept(state->rank, scene->model->ranks);
    return rank_act(state, scene, key) || list_act(&state->rank, scene->model->ranks, key);
}

/* ---- the filter ---- */

/* The next word, cut to fit; false: there is none. */
static bool next_word(const char **line, char word[WORD_ROOM])
{
    *line += strspn(*line, " ");
    size_t length = strcspn(*line, " "), kept = length < WORD_ROOM ? length : WORD_ROOM - 1;
    memcpy(word, *line, kept);
    word[kept] = '\0';
    *line += length;
    return length > 0;
}

static bool read_ranks(struct filter *filter, const char *word)
{
    int first, last;
    char end;
    if (sscanf(word, "%9d-%9d%c", &first, &last, &end) != 2) {
        if (sscanf(word, "%9d%c", &first, &end) != 1) return false;
        last = first;
    }
    filter->first_rank = first;
    filter->last_rank = last;
    return true;
}

static bool read_lane(struct filter *filter, const char *word)
{
    uint32_t lanes = 0;
    for (enum lane lane = 0; lane < LANES; lane++)
        if (!strncasecmp(lane_name(lane), word, strlen(word)) || !strcasecmp(lane_short_name(lane), word)) lanes |= 1u << lane;
    if (lanes) filter->lanes = lanes;
    return lanes != 0;
}

static void add_text(struct filter *filter, const char *word)
{
    size_t length = strlen(filter->text);
    if (length + strlen(word) + 2 > sizeof filter->text) return;
    if (length) filter->text[length++] = ' ';
    strcpy(filter->text + length, word);
}

struct filter filter_of(const char *line)
{
    struct filter filter = {0, INT_MAX, (1u << LANES) - 1, ""};
    char word[WORD_ROOM], value[WORD_ROOM];
    while (next_word(&line, word)) {
        const char *after = line;
        bool rank = !strcasecmp(word, "rank"), lane = !strcasecmp(word, "lane");
        if ((rank || lane) && next_word(&after, value) && (rank ? read_ranks : read_lane)(&filter, value)) line = after;
        else add_text(&filter, word);
    }
    return filter;
}

bool filter_shows_lane(const struct filter *filter, enum lane lane)
{
    return filter->lanes >> lane & 1;
}

bool filter_shows_text(const struct filter *filter, const char *text)
{
    return !*filter->text || text_contains(text, filter->text);
}

bool text_contains(const char *text, const char *part)
{
    return *part && strcasestr(text, part);
}
