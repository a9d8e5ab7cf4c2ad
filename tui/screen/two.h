/* Two runs on one screen: the same view of both, A above B, and below them the figures that differ. */
#ifndef TUI_SCREEN_TWO_H
#define TUI_SCREEN_TWO_H

#include "engine/advise/analysis.h"
#include "tui/view/view.h"

struct two {
    struct scene scene[2];            /* footer, view and sizes are those of scene 0 */
    const char *name[2];              /* a file, or the number of a run */
    const struct analysis *analysis;  /* [2]: of all that was read of both */
};

/* Erases the surface and draws both. On a surface under 80x24, and for the help page: as view_draw() of scene 0. */
void two_draw(const struct two *two, struct surface *surface);

#endif
