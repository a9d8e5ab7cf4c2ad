/* Carries out the actions of a lab: turns them into commands, one at a time, and sees in the trace what came of each. It
 * does no I/O: whoever calls sends what it hands out.
 *
 *     driver_begin(&driver, &step->before);
 *     on every new record: while (driver_tick(&driver, &scene) == DRIVER_SENDS) send driver.line */
#ifndef ENGINE_LAB_DRIVER_H
#define ENGINE_LAB_DRIVER_H

#include "engine/lab/lab.h"

/* KEEPS: the value of driver->kept is to be kept now. */
enum driver_says { DRIVER_WAITS, DRIVER_SENDS, DRIVER_GOES, DRIVER_KEEPS, DRIVER_DONE, DRIVER_STUCK };

struct lab_driver {
    const struct lab_actions *actions;
    int at;                /* action in hand */
    const struct lab_action *kept;
    int left;              /* of a run: steps to go */
    bool sent;             /* line has gone out ... */
    bool about_time;       /* ... and is pause, op or their like */
    bool relaunches, saves;/* ... and has the engine started again, or a checkpoint written */
    int part;              /* of the run, then */
    uint64_t saved_ns;     /* the last checkpoint then */
    uint64_t failed_ns;    /* ... and the last that came to nothing */
    bool was_short;        /* ... while the run was out of memory */
    bool pausing;          /* ... and this pause after it */
    uint64_t notices;      /* that had been folded then */
    uint32_t from_step, from_attempt; /* last whole step then; a step that ran out of memory is taken again */
    char reason[256];      /* why the run waited then */
    char line[256];        /* DRIVER_SENDS: a command; DRIVER_GOES: what to find on the timeline */
    char asked[256];       /* the command that a pause follows */
    char why_stuck[256];
};

void driver_begin(struct lab_driver *driver, const struct lab_actions *actions);
enum driver_says driver_tick(struct lab_driver *driver, const struct lab_scene *scene);

/* Paused, or out of memory: a command finds it between two steps. */
bool run_waits(const struct run_model *model);

#endif
