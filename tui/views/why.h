/* Functions that the files of the view "why" share. */
#pragma once

#include "engine/advise/why.h"
#include "tui/view/view.h"

/* Draw the lower part: the terms of the chosen tenant and what its knobs would change (of a wait no terms); or what a switch changed. */
void why_draw_tenant(struct canvas canvas, const struct scene *scene, const struct why *why, const char *name,
                     const struct why_tenant *tenant);
void why_draw_switch(struct canvas canvas, const struct scene *scene, const struct why_switch *change);
