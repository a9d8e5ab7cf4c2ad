/* Writes surfaces of one size, shown one after the other, as one text that plays them: an asciicast (version 2), an animated SVG, or an
 * HTML page with its player (player.html). Rows that stay as they are are not written again.
 *
 *     struct animation *animation = animation_begin(ANIMATION_CAST, &surface, title, facts);
 *     animation_add(animation, &surface, at_s, "step 3, operation 1 begins");     for each frame
 *     char *text = animation_end(animation, until_s);
 *
 * Texts are UTF-8 and may hold anything: they are escaped. */
#pragma once

#include "tui/draw/surface.h"

enum animation_as { ANIMATION_SVG, ANIMATION_HTML, ANIMATION_CAST };

struct animation;

/* like: a surface with the frames' size, theme and depth. facts: a paragraph about the frames (only of HTML). NULL: no memory. */
struct animation *animation_begin(enum animation_as as, const struct surface *like, const char *title, const char *facts);
/* at_s: seconds since the first frame, in rising order. label: what the frame shows, in one line (only of HTML). False: no memory. */
bool animation_add(struct animation *animation, const struct surface *surface, double at_s, const char *label);
/* Frees the animation, which may be NULL. until_s: end of the last frame, in seconds since the first. The caller frees the text; NULL: no
 * memory. */
char *animation_end(struct animation *animation, double until_s);
