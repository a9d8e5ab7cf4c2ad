/* Text over several rows, broken between words. */
#ifndef TUI_DRAW_PARAGRAPH_H
#define TUI_DRAW_PARAGRAPH_H

#include "tui/draw/surface.h"

/* Fills the canvas from its top; the text's own line breaks count, `skip` rows are left out, a word longer than a row is
 * broken. Returns the rows that the whole text takes. */
int draw_paragraph(struct canvas canvas, int skip, enum style style, const char *text);

#endif
