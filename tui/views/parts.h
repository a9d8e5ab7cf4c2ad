/* The parts that views are made of; each draws into the canvas that it is given. */
#ifndef TUI_VIEWS_PARTS_H
#define TUI_VIEWS_PARTS_H

#include "tui/draw/bar.h"
#include "tui/views/view.h"

void header_draw(struct canvas canvas, const struct scene *scene); /* header.c; four rows, or the two that change */
void footer_draw(struct canvas canvas, const struct scene *scene); /* footer.c */
int footer_rows(struct canvas screen, const struct view_state *state);
const struct key_row *footer_key_at(int columns, const struct scene *scene, int x); /* the key that it shows there; NULL: none */
void bars_draw(struct canvas canvas, const struct scene *scene);   /* bars.c */
int bars_rows(const struct run_model *model, int columns, int rows); /* what bars_draw() wants, at most `rows` */
int bars_flow_rows(const struct run_model *model);                   /* ... of them for flows between tiers */
void said_draw(struct canvas canvas, const struct scene *scene, int skip, bool focused); /* text.c; from line `skip` on */

/* One scale for all that shows a tier: the budget where there is one and it is near enough to be seen (is_budget),
 * else the most that was ever held or planned. So a switch of stage changes bars and curves, not their scale. */
struct memory_scale { uint64_t full, budget, planned; bool has_planned, is_budget, used; }; /* used: tier_is_used() */
struct memory_scale memory_scale(const struct run_model *model, enum tier tier);
void memory_scales(struct memory_scale out[TIERS], const struct run_model *model); /* looks at all ranks: once for a screen */

/* tier_bar.c: what bars show of a tier, the fullest instant of the last step or this one ('b'); and the bar, by category, with
 * the mark of the plan, alone or with its figure at the right. A tier that nobody uses has an empty one. */
const struct run_instant *instant_shown(const struct run_tier *tier, const struct view_state *state);
void tier_bar_alone(struct canvas canvas, struct rect at, int rank, enum tier tier, const struct scene *scene, const struct memory_scale *scale);
void tier_bar_draw(struct canvas canvas, struct rect at, int rank, enum tier tier, const struct scene *scene, const struct memory_scale *scale);

/* Of categories, and of the mark of the plan, in one row; staging and secondary only where they are used. */
void bars_draw_legend(struct canvas canvas, int y, const struct scene *scene, bool planned);

/* labels.c: operations by the names that people call them: "block' 3", "gather block 2", "reduce bucket 1". */
enum { LABEL_ROOM = 64 };
void span_label(char out[LABEL_ROOM], const struct run_model *model, const struct span *span);
bool op_label(char out[LABEL_ROOM], const struct run_model *model, uint32_t schedule, int op); /* false: not known */
int op_number(const struct run_model *model, enum op_kind kind, int unit, int bucket); /* of block or bucket; -1: none */

/* For a list of `items` rows in `rows`: the first row to show when the user scrolled by `scroll`, kept within what there is. */
int scrolled(int scroll, int items, int rows);

/* Looks of a category and of the pool's free part (category == CATEGORIES). */
struct category_look { char letter; uint32_t pattern; enum style style; const char *name, *brief; };
const struct category_look *category_look(int category);

/* Staging and secondary take no room where no rank ever used them. */
bool category_is_shown(const struct run_model *model, int category);

/* The rank whose tier was fullest; -1: nothing known. */
int fullest_rank(const struct run_model *model, enum tier tier);

#endif
