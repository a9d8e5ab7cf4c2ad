/* What the files of the view "why" share. */
#ifndef TUI_VIEWS_WHY_H
#define TUI_VIEWS_WHY_H

#include "engine/advise/why.h"
#include "tui/view/view.h"

/* The lower part: what the chosen tenant is made of and what its knobs would give; or what a switch changed. */
void why_draw_tenant(struct canvas canvas, const struct scene *scene, const struct why *why, const struct why_tenant *tenant);
void why_draw_switch(struct canvas canvas, const struct scene *scene, const struct why_switch *change);

#endif
