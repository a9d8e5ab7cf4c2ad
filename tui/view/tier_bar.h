/* Draws a rank's memory in one tier as a bar by category. Also the names, looks and scale that all pictures of memory
 * share. */
#pragma once

#include "engine/observe/cells.h"
#include "tui/draw/bar.h"
#include "tui/view/view.h"

const char *tiers_name(enum tier tier); /* "device", "host", "NVMe" */

/* The scale of all pictures of a tier: the budget if there is one and it is near enough to be visible (is_budget),
 * else the most that was ever held, reserved or planned. So a switch of stage changes bars and curves, but not their scale. */
struct memory_scale { uint64_t full, budget, planned; bool has_planned, is_budget, used; }; /* used: tier_is_used() */
struct memory_scale memory_scale(const struct run_model *model, enum tier tier);
void memory_scales(struct memory_scale out[TIERS], const struct run_model *model); /* reads all ranks, so call it once for each screen */

/* The instant that bars show: the tier's fullest instant of the last step; now, if the user chose so ('b') or no step has ended yet.
 * tier_bar_alone() draws its bytes by category, with a mark for the planned peak; tier_bar_draw() adds the total at the right. The bar
 * of a tier that no rank uses is empty. */
const struct run_instant *instant_shown(const struct run_tier *tier, const struct view_state *state);
/* The step of the instants that bars show: "step 7", with its stage if a switch of stage came after it; "the last whole step" where it is
 * not the same on all ranks, or changes; "" if bars show now. */
struct text instant_step(const struct scene *scene);
void tier_bar_alone(struct canvas canvas, struct rect at, int rank, enum tier tier, const struct scene *scene, const struct memory_scale *scale);
void tier_bar_draw(struct canvas canvas, struct rect at, int rank, enum tier tier, const struct scene *scene, const struct memory_scale *scale);

/* Looks of a category, of the pool's free part (LOOK_FREE), and of bytes in no known category (LOOK_UNATTRIBUTED). */
enum { LOOK_FREE = CATEGORIES, LOOK_UNATTRIBUTED, LOOKS };
struct category_look { char letter; uint32_t pattern; enum style style; const char *name, *brief; };
const struct category_look *category_look(int category);
void draw_category(struct canvas canvas, int x, int y,
                   int look); /* its letter, or the sign of free memory, as in a bar */

/* category_is_shown(): false for staging and secondary, if no rank ever used them on the device. */
bool category_is_used(const struct run_model *model, enum tier tier, int category); /* on any rank, at any time */
bool category_is_shown(const struct run_model *model, int category);
uint64_t unattributed_bytes(const struct run_instant *instant);

/* The rank whose tier was fullest; -1: not known. */
int fullest_rank(const struct run_model *model, enum tier tier);

/* Look of a bucket's state: its letter, the character that fills the bucket's bar, and its name. The legend of all states takes one row. */
struct bucket_look {
    char letter;
    enum style style;
    uint32_t cell;
    const char *name;
};
extern const struct bucket_look bucket_looks[BUCKET_STATES];
void bucket_draw_cell(struct canvas canvas, int x, int y, enum bucket_state state);
void bucket_draw_legend(struct canvas canvas, int y);
