/* Text broken between words: over several rows, or to fit into one. */
#ifndef TUI_DRAW_PARAGRAPH_H
#define TUI_DRAW_PARAGRAPH_H

#include "tui/draw/surface.h"

/* Fills the canvas from its top; the text's own line breaks count, `skip` rows are left out, a word longer than a row is
 * broken. Returns the rows that the whole text takes. */
int draw_paragraph(struct canvas canvas, int skip, enum style style, const char *text);

/* One row of it: words that do not fit are left out, with "…" in their place. */
void draw_words(struct canvas canvas, int x, int y, enum style style, const char *text);

#endif
