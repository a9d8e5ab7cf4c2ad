/* Records wound from a source into a run model, and a tape beside it, with one record of look-ahead: so it can stop before
 * a moment instead of after it. Going back means another reel (feed.h). */
#ifndef TUI_APP_REEL_H
#define TUI_APP_REEL_H

#include "engine/observe/history.h"
#include "engine/observe/model.h"
#include "engine/trace/source.h"

struct reel {
    struct source *source;
    struct run_model *model;
    struct tape *tape;        /* NULL: none is wanted */
    struct trace_record next; /* read, not folded yet */
    bool has_next, over;      /* over: nothing more will come */
    bool grows;               /* the source's end is not final */
    char trouble[256];        /* why, if that is no good end; "": all is well */
};

struct run_model *reel_model(void); /* an empty one, with the bounds that a screen needs; NULL: no memory */
void reel_release(struct reel *reel, bool with_model); /* and clears; the source too */

bool reel_peek(struct reel *reel); /* false: nothing now, or over */
bool reel_fold(struct reel *reel); /* the next record; false: there is none */

/* Folds what was recorded until then, that moment included. */
void reel_until_time(struct reel *reel, uint64_t time_ns);

/* Folds up to the first record of the first step that begins at or after number `step`. */
void reel_until_step_begins(struct reel *reel, uint32_t step);

/* ... to the end of a step: every rank ended it, and all that was said before the next one began or somebody went on
 * after a pause: what a live run shows that pauses there. */
void reel_until_step_ends(struct reel *reel, uint32_t step);

/* ... until an operation of rank 0 has ended and has given back memory, which is said just after. False: it never did. */
bool reel_until_op_ends(struct reel *reel, uint32_t step, uint32_t op);

/* ... until the run is out of memory. False: it never was. */
bool reel_until_shortage(struct reel *reel);

uint32_t reel_steps_done(const struct reel *reel);

#endif
